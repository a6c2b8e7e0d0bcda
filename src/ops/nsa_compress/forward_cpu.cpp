// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// NSA compress on the CPU, and the sum of two compressions that its double backward has: a task has the windows
// of one chunk and a few heads, and holds the sums of 64 or 128 channels in registers while it walks along a window.
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "ops/nsa_compress/kernel.h"
#include "ops/nsa_compress/windows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/nsa_compress/forward_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/caches.h"
#include "base/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::nsa_compress::HWY_NAMESPACE {

using namespace aclgrad::HWY_NAMESPACE;

namespace {

constexpr int64_t kTokensPerSum = 32;
// Of 16 channels: registers hold as many sums.
constexpr int kStripVectors = Float16Lanes::kVectors == 1 ? 8 : 4;
constexpr int64_t kStrip = 16 * kStripVectors;
constexpr int64_t kLineBytes = 64;  // of a cache

// Fetches the tokens that the next window has more than this one, in the order in which they lie in memory:
// the sums below jump from token to token, and memory is slow to follow them.
class ReadAhead {
 public:
  // Spreads `rows` rows of `row_bytes` over `steps` calls of step().
  ReadAhead(const void* first, int64_t row_stride, int64_t row_bytes, int64_t rows, int64_t steps)
      : row_(static_cast<const std::byte*>(first)),
        row_stride_(row_stride),
        row_bytes_(row_bytes),
        rows_(row_bytes > 0 ? rows : 0),
        lines_per_step_((rows * row_bytes / kLineBytes + steps - 1) / steps) {}

  HWY_INLINE void step() {
    for (int64_t i = 0; i < lines_per_step_ && rows_ > 0; ++i) {
      prefetch_for_later(row_ + at_);
      at_ += kLineBytes;
      if (at_ < row_bytes_) continue;
      at_ = 0;
      row_ += row_stride_;
      --rows_;
    }
  }

 private:
  const std::byte* row_;
  int64_t row_stride_;
  int64_t row_bytes_;
  int64_t rows_;  // that are left
  int64_t lines_per_step_;
  int64_t at_ = 0;  // in the row
};

// One head of a window.
template <class T>
struct WindowTokens {
  const T* first;
  int64_t stride;
  const float* weights;
  int64_t head_stride;
};

// The weighted sum of `tokens` tokens of each window at kVectors * 16 channels from `channel` on, or at
// `tail` < 16 of them if kHasTail.
template <int kVectors, bool kHasTail, class T>
void sum_tokens(std::span<const WindowTokens<T>> windows, int64_t tokens, int64_t channel, size_t tail,
                ReadAhead& ahead, T* output) {
  ReadAhead in_registers = ahead;
  Float16Lanes total[kVectors];
  for (int v = 0; v < kVectors; ++v) total[v] = zero16();
  for (const auto [first_token, stride, weights, head_stride] : windows) {
    const T* input = first_token + channel;
    for (int64_t first = 0; first < tokens; first += kTokensPerSum) {
      const int64_t end = std::min(first + kTokensPerSum, tokens);
      Float16Lanes sum[kVectors];
      for (int v = 0; v < kVectors; ++v) sum[v] = zero16();
      for (int64_t t = first; t < end; ++t) {
        in_registers.step();
        const Float16Lanes weight = broadcast16(weights[t]);
        for (int v = 0; v < kVectors; ++v) {
          const T* from = input + t * stride + v * 16;
          sum[v] = multiply_add(weight, kHasTail ? load16(from, tail) : load16(from), sum[v]);
        }
      }
      for (int v = 0; v < kVectors; ++v) total[v] = add(total[v], sum[v]);
    }
  }
  ahead = in_registers;
  for (int v = 0; v < kVectors; ++v) {
    if (kHasTail) {
      store16(total[v], output + v * 16, tail);
    } else {
      store16(total[v], output + v * 16);
    }
  }
}

template <class T>
void sum_window(std::span<const WindowTokens<T>> windows, int64_t tokens, int64_t channels, ReadAhead& ahead,
                T* output) {
  int64_t c = 0;
  for (; c + kStrip <= channels; c += kStrip)
    sum_tokens<kStripVectors, false>(windows, tokens, c, 0, ahead, output + c);
  for (; c + 64 <= channels; c += 64) sum_tokens<4, false>(windows, tokens, c, 0, ahead, output + c);
  for (; c + 16 <= channels; c += 16) sum_tokens<1, false>(windows, tokens, c, 0, ahead, output + c);
  if (const auto tail = static_cast<size_t>(channels - c); tail > 0) {
    sum_tokens<1, true>(windows, tokens, c, tail, ahead, output + c);
  }
}

// For the tokens behind a window, of some heads.
template <class T>
ReadAhead read_ahead(const NsaCompress& problem, const WindowTokens<T>& window, int64_t heads) {
  const auto element = static_cast<int64_t>(sizeof(T));
  const bool packed_heads = window.head_stride == problem.channels();
  const int64_t row_bytes = packed_heads ? heads * problem.channels() * element : 0;
  const int64_t rows = std::min(problem.stride, problem.block());
  const int64_t steps = heads * std::max<int64_t>(1, problem.channels() / kStrip) * problem.block();
  return ReadAhead(window.first + problem.block() * window.stride, window.stride * element, row_bytes, rows,
                   steps);
}

}  // namespace

// `weights`: of all terms, [terms, heads, block].
void compress_windows(const NsaCompress& problem, std::span<const CompressionTerm> terms,
                      const float* weights, const WindowTable& table, int64_t first_window,
                      int64_t end_window, int64_t first_head, int64_t end_head) {
  visit_float_type(problem.output.type, [&]<class T>(T) HWY_ATTR {
    std::array<WindowTokens<T>, kMaxTerms> windows;
    const std::span<const WindowTokens<T>> of_head(windows.data(), terms.size());
    for (int64_t k = first_window; k < end_window; ++k) {
      for (size_t i = 0; i < terms.size(); ++i) {
        const ConstTensor& input = terms[i].input;
        windows[i] = {static_cast<const T*>(input.data) + table.first_token_of(k) * input.stride(0) +
                          first_head * input.stride(1),
                      input.stride(0),
                      weights + (static_cast<int64_t>(i) * problem.heads() + first_head) * problem.block(),
                      input.stride(1)};
      }
      T* output = static_cast<T*>(problem.output.data) + k * problem.output.stride(0) +
                  first_head * problem.output.stride(1);
      ReadAhead ahead = read_ahead(problem, windows[0], end_head - first_head);
      for (int64_t n = first_head; n < end_head; ++n) {
        sum_window<T>(of_head, problem.block(), problem.channels(), ahead, output);
        for (size_t i = 0; i < terms.size(); ++i) {
          windows[i].first += windows[i].head_stride;
          windows[i].weights += problem.block();
        }
        output += problem.output.stride(1);
      }
    }
  });
}

}  // namespace aclgrad::ops::nsa_compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "base/parallel.h"

namespace aclgrad::ops::nsa_compress {
namespace {

HWY_EXPORT(compress_windows);

// What a task has: enough to be worth a thread's while, little enough to share a small problem.
constexpr int64_t kTaskWindows = 16;
constexpr int64_t kTaskElements = 1 << 18;  // of input, unless one head has more

struct Workspace {
  Workspace(const NsaCompress& problem, int64_t terms, WorkspaceAllocator& allocator)
      : table(sliding_windows(problem), allocator),
        weights(allocator.take<float>(terms * problem.heads() * problem.block())) {}

  WindowTable table;
  float* weights;  // [terms, heads, block]
};

}  // namespace

size_t kernel_workspace_size(const NsaCompress& problem) {
  return terms_workspace_size(problem, 1);
}

size_t terms_workspace_size(const NsaCompress& problem, int64_t terms) {
  return size_of_workspace<Workspace>(problem, terms);
}

double kernel_nanoseconds(const NsaCompress& problem) {
  const double products = static_cast<double>(problem.windows()) * static_cast<double>(problem.block()) *
                          static_cast<double>(problem.heads()) * static_cast<double>(problem.channels());
  return 0.05 * products;
}

void run_kernel(const NsaCompress& problem, void* workspace) {
  const CompressionTerm term{problem.input, problem.weight};
  run_terms(problem, {&term, 1}, workspace);
}

void run_terms(const NsaCompress& problem, std::span<const CompressionTerm> terms, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  const Workspace parts(problem, static_cast<int64_t>(terms.size()), allocator);
  parts.table.read(sliding_windows(problem), problem.windows());
  float* weights = parts.weights;
  for (const CompressionTerm& term : terms) {
    read_weights(problem.output.type, term.weight.data, problem.block(), problem.heads(), weights);
    weights += problem.heads() * problem.block();
  }

  const int64_t task_heads = std::max<int64_t>(
      1, kTaskElements / kTaskWindows / problem.block() / std::max<int64_t>(1, problem.channels()));
  const int64_t head_groups = divide_up(problem.heads(), task_heads);
  const int64_t chunks = divide_up(problem.windows(), kTaskWindows);
  const double nanoseconds = static_cast<double>(terms.size()) * kernel_nanoseconds(problem);
  parallel_for(chunks * head_groups, nanoseconds, [&](int64_t index) {
    const int64_t window = index / head_groups * kTaskWindows;
    const int64_t end_window = std::min(window + kTaskWindows, problem.windows());
    const int64_t head = index % head_groups * task_heads;
    const int64_t end_head = std::min(head + task_heads, problem.heads());
    HWY_DYNAMIC_DISPATCH(compress_windows)
    (problem, terms, parts.weights, parts.table, window, end_window, head, end_head);
  });
}

}  // namespace aclgrad::ops::nsa_compress

#endif  // HWY_ONCE
