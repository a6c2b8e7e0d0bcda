// Speed of NSA compress and its gradient, in compulsory bytes a second: every input read once, every output
// written once.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "base/data_type.h"
#include "bench/memory.h"
#include "ops/nsa_compress/problem.h"

namespace aclgrad {
namespace {

struct Size {
  int64_t tokens;
  int64_t heads;
  int64_t channels;
  int64_t block;
  int64_t stride;
  int64_t sequences;  // 0: one; else of random lengths, some shorter than a block
};

// All tensors of a problem, contiguous.
class Tensors {
 public:
  Tensors(DataType type, const Size& size) : type_(type), size_(size) {
    windows_ = {.tokens = size.tokens, .block = size.block, .stride = size.stride};
    std::minstd_rand engine(1);
    std::uniform_int_distribution<int64_t> end(0, size.tokens);
    for (int64_t i = 1; i < size.sequences; ++i) ends_.push_back(end(engine));
    if (size.sequences > 0) ends_.push_back(size.tokens);
    std::sort(ends_.begin(), ends_.end());
    windows_.sequence_ends = ends_.data();
    windows_.sequences = static_cast<int64_t>(ends_.size());
    window_count_ = count_windows(windows_);
    tokens_ = Memory(row_bytes() * static_cast<size_t>(size.tokens));
    token_grads_ = Memory(tokens_.size());
    rows_ = Memory(row_bytes() * static_cast<size_t>(window_count_));
    weights_ = Memory(static_cast<size_t>(size.block * size.heads) * size_of(type));
    weight_grads_ = Memory(weights_.size());
  }

  NsaCompressGrad grad() {
    NsaCompressGrad problem;
    problem.type = type_;
    problem.windows = windows_;
    problem.window_count = window_count_;
    problem.heads = size_.heads;
    problem.channels = size_.channels;
    problem.output_grad = {rows_.data(), size_.heads * size_.channels, size_.channels};
    problem.input = {tokens_.data(), size_.heads * size_.channels, size_.channels};
    problem.weight = weights_.data();
    problem.input_grad = {token_grads_.data(), size_.heads * size_.channels, size_.channels};
    problem.weight_grad = weight_grads_.data();
    return problem;
  }

  NsaCompress forward() {
    NsaCompress problem;
    problem.type = type_;
    problem.windows = windows_;
    problem.window_count = window_count_;
    problem.heads = size_.heads;
    problem.channels = size_.channels;
    problem.input = {tokens_.data(), size_.heads * size_.channels, size_.channels};
    problem.weight = weights_.data();
    problem.output = {rows_.data(), size_.heads * size_.channels, size_.channels};
    return problem;
  }

  size_t forward_bytes() const { return tokens_.size() + rows_.size() + weights_.size(); }
  size_t grad_bytes() const { return 2 * tokens_.size() + rows_.size() + 2 * weights_.size(); }

 private:
  size_t row_bytes() const { return static_cast<size_t>(size_.heads * size_.channels) * size_of(type_); }

  DataType type_;
  Size size_;
  SlidingWindows windows_;
  int64_t window_count_;
  std::vector<int64_t> ends_;
  Memory tokens_;
  Memory token_grads_;
  Memory rows_;
  Memory weights_;
  Memory weight_grads_;
};

void grad(benchmark::State& state, DataType type, const Size& size) {
  set_thread_count(static_cast<int>(state.range(0)));
  Tensors tensors(type, size);
  const NsaCompressGrad problem = tensors.grad();
  Memory workspace(workspace_size(problem));
  for (auto _ : state) nsa_compress_grad(problem, workspace.data());
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(tensors.grad_bytes()));
}

void forward(benchmark::State& state, DataType type, const Size& size) {
  set_thread_count(static_cast<int>(state.range(0)));
  Tensors tensors(type, size);
  const NsaCompress problem = tensors.forward();
  Memory workspace(workspace_size(problem));
  for (auto _ : state) nsa_compress(problem, workspace.data());
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(tensors.forward_bytes()));
}

void with_thread_counts(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("threads")->Arg(1)->Arg(0)->UseRealTime()->Unit(benchmark::kMillisecond);
}

constexpr Size k64k = {65536, 4, 128, 32, 16, 0};
constexpr Size kRagged = {65536, 4, 128, 32, 16, 48};
constexpr Size k8k = {8192, 4, 192, 32, 16, 0};
constexpr Size kManyHeads = {272, 128, 192, 32, 16, 2};
constexpr Size kOneHead = {65536, 1, 128, 32, 16, 0};
constexpr Size kNoOverlap = {16384, 4, 128, 16, 16, 0};
constexpr Size kDeepOverlap = {16384, 4, 128, 128, 16, 0};
constexpr Size kTiny = {64, 2, 16, 32, 16, 0};

#define ACLGRAD_NSA_BENCHMARK(type, size)                                                  \
  BENCHMARK_CAPTURE(grad, type##_##size, DataType::type, size)->Apply(with_thread_counts); \
  BENCHMARK_CAPTURE(forward, type##_##size, DataType::type, size)->Apply(with_thread_counts)

ACLGRAD_NSA_BENCHMARK(float32, k64k);
ACLGRAD_NSA_BENCHMARK(float16, k64k);
ACLGRAD_NSA_BENCHMARK(bfloat16, k64k);
ACLGRAD_NSA_BENCHMARK(float16, kRagged);
ACLGRAD_NSA_BENCHMARK(float16, k8k);
ACLGRAD_NSA_BENCHMARK(bfloat16, k8k);
ACLGRAD_NSA_BENCHMARK(float16, kManyHeads);
ACLGRAD_NSA_BENCHMARK(float16, kOneHead);
ACLGRAD_NSA_BENCHMARK(float16, kNoOverlap);
ACLGRAD_NSA_BENCHMARK(float16, kDeepOverlap);
ACLGRAD_NSA_BENCHMARK(float16, kTiny);

}  // namespace
}  // namespace aclgrad
