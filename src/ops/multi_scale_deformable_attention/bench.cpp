// Speed of multi-scale deformable attention and its gradient, in sample points a second.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <new>
#include <random>
#include <vector>

#include "base/data_type.h"
#include "bench/memory.h"
#include "ops/multi_scale_deformable_attention/problem.h"

namespace aclgrad {
namespace {

enum class Where {
  near_query,  // query i is pixel i of the levels, its points lie a few pixels around it
  anywhere,
};

struct Sizes {
  std::vector<int64_t> spatial_shape;  // height, width of each level
  int64_t batches;
  int64_t queries;  // 0: one for each pixel
  int64_t points;
};

const std::vector<int64_t> kDetrLevels = {100, 167, 50, 84,
                                          25,  42,  13, 21};  // of an image of 800 x 1333 pixels

// A problem of 8 heads with 32 channels, with its memory.
class Problem {
 public:
  Problem(DataType type, const Sizes& sizes, Where where) : shape_(sizes.spatial_shape) {
    problem_.type = type;
    problem_.batches = sizes.batches;
    problem_.heads = 8;
    problem_.channels = 32;
    problem_.levels = static_cast<int64_t>(shape_.size()) / 2;
    problem_.points = sizes.points;
    for (size_t l = 0; l < shape_.size(); l += 2) {
      starts_.push_back(problem_.rows);
      problem_.rows += shape_[l] * shape_[l + 1];
    }
    problem_.queries = sizes.queries > 0 ? sizes.queries : problem_.rows;
    problem_.spatial_shape = {shape_.data(), DataType::int64};
    problem_.level_start_index = {starts_.data(), DataType::int64};

    const MultiScaleDeformableAttentionGrad& p = problem_;
    const int64_t samples = p.levels * p.points;
    problem_.value_strides = problem_.grad_value_strides =
        BlockStrides::contiguous(p.rows, p.heads, p.channels);
    problem_.location_strides = problem_.grad_location_strides =
        BlockStrides::contiguous(p.queries, p.heads, 2 * samples);
    problem_.attention_weight_strides = problem_.grad_attention_weight_strides =
        BlockStrides::contiguous(p.queries, p.heads, samples);
    problem_.grad_output_strides = BlockStrides::contiguous(p.queries, p.heads, p.channels);
    problem_.value = random(p.batches * p.rows * p.heads * p.channels);
    problem_.attention_weight = random(points());
    problem_.grad_output = random(p.batches * p.queries * p.heads * p.channels);
    problem_.grad_value = make(p.batches * p.rows * p.heads * p.channels);
    problem_.grad_location = make(2 * points());
    problem_.grad_attention_weight = make(points());
    problem_.location = locations(where);
  }

  int64_t points() const {
    return problem_.batches * problem_.queries * problem_.heads * problem_.levels * problem_.points;
  }

  const MultiScaleDeformableAttentionGrad& grad() const { return problem_; }

  // With the memory of grad_output for the output.
  MultiScaleDeformableAttention forward() const {
    MultiScaleDeformableAttention forward;
    static_cast<MultiScaleDeformableSampling&>(forward) = problem_;
    forward.output = const_cast<void*>(problem_.grad_output);
    forward.output_strides = problem_.grad_output_strides;
    return forward;
  }

 private:
  std::byte* make(int64_t elements) {
    buffers_.emplace_back(static_cast<size_t>(elements) * size_of(problem_.type));
    return buffers_.back().data();
  }

  // The elements that next() yields.
  template <class Next>
  std::byte* fill(int64_t elements, Next&& next) {
    std::byte* data = make(elements);
    visit_float_type(problem_.type, [&]<class T>(T) {
      for (int64_t i = 0; i < elements; ++i) reinterpret_cast<T*>(data)[i] = from_float<T>(next());
    });
    return data;
  }

  std::byte* random(int64_t elements) {
    return fill(elements, [&] { return distribution_(engine_); });
  }

  std::byte* locations(Where where) {
    if (where == Where::anywhere) {
      return fill(2 * points(), [&] { return 0.5f + 0.5f * distribution_(engine_); });
    }
    std::normal_distribution<float> pixels(0, 2);
    int64_t i = 0;
    return fill(2 * points(), [&] {
      const int64_t per_query = problem_.heads * problem_.levels * problem_.points * 2;
      const size_t axis = 1 - static_cast<size_t>(i % 2);  // x first
      const auto level = static_cast<size_t>(i / (2 * problem_.points) % problem_.levels);
      const float center = center_of(i / per_query % problem_.queries, axis);
      ++i;
      return center + pixels(engine_) / static_cast<float>(shape_[2 * level + axis]);
    });
  }

  float center_of(int64_t query, size_t axis) const {
    size_t level = 0;
    while (level + 1 < starts_.size() && starts_[level + 1] <= query) ++level;
    const int64_t width = shape_[2 * level + 1];
    const int64_t pixel = query - starts_[level];
    const int64_t position = axis == 0 ? pixel / width : pixel % width;
    return (static_cast<float>(position) + 0.5f) / static_cast<float>(shape_[2 * level + axis]);
  }

  std::vector<int64_t> shape_;
  std::vector<int64_t> starts_;
  MultiScaleDeformableAttentionGrad problem_;
  std::vector<Memory> buffers_;
  std::mt19937 engine_{1};
  std::uniform_real_distribution<float> distribution_{-1, 1};
};

void grad(benchmark::State& state, DataType type, const Sizes& sizes, Where where) {
  set_thread_count(static_cast<int>(state.range(0)));
  const Problem problem(type, sizes, where);
  Memory workspace(workspace_size(problem.grad()));
  for (auto _ : state) multi_scale_deformable_attention_grad(problem.grad(), workspace.data());
  state.SetItemsProcessed(state.iterations() * problem.points());
}

void forward(benchmark::State& state, DataType type, const Sizes& sizes, Where where) {
  set_thread_count(static_cast<int>(state.range(0)));
  const Problem problem(type, sizes, where);
  Memory workspace(workspace_size(problem.forward()));
  for (auto _ : state) multi_scale_deformable_attention(problem.forward(), workspace.data());
  state.SetItemsProcessed(state.iterations() * problem.points());
}

void with_thread_counts(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("threads")->Arg(1)->Arg(0)->UseRealTime()->Unit(benchmark::kMillisecond);
}

const Sizes kEncoder{kDetrLevels, 1, 0, 4};
const Sizes kDecoder{kDetrLevels, 2, 300, 4};
const Sizes kBirdsEye{{200, 200}, 2, 0, 4};
const Sizes kTiny{{8, 8, 4, 4}, 1, 10, 4};

BENCHMARK_CAPTURE(grad, float_encoder_near, DataType::float32, kEncoder, Where::near_query)
    ->Apply(with_thread_counts);
BENCHMARK_CAPTURE(grad, half_encoder_near, DataType::float16, kEncoder, Where::near_query)
    ->Apply(with_thread_counts);
BENCHMARK_CAPTURE(grad, bfloat16_encoder_near, DataType::bfloat16, kEncoder, Where::near_query)
    ->Apply(with_thread_counts);
BENCHMARK_CAPTURE(grad, float_encoder_anywhere, DataType::float32, kEncoder, Where::anywhere)
    ->Apply(with_thread_counts);
BENCHMARK_CAPTURE(grad, float_decoder, DataType::float32, kDecoder, Where::anywhere)
    ->Apply(with_thread_counts);
BENCHMARK_CAPTURE(grad, bfloat16_decoder, DataType::bfloat16, kDecoder, Where::anywhere)
    ->Apply(with_thread_counts);
BENCHMARK_CAPTURE(grad, float_birds_eye, DataType::float32, kBirdsEye, Where::near_query)
    ->Apply(with_thread_counts);
BENCHMARK_CAPTURE(grad, float_tiny, DataType::float32, kTiny, Where::anywhere)->Apply(with_thread_counts);
BENCHMARK_CAPTURE(forward, float_encoder_near, DataType::float32, kEncoder, Where::near_query)
    ->Apply(with_thread_counts);
BENCHMARK_CAPTURE(forward, bfloat16_encoder_near, DataType::bfloat16, kEncoder, Where::near_query)
    ->Apply(with_thread_counts);
BENCHMARK_CAPTURE(forward, float_decoder, DataType::float32, kDecoder, Where::anywhere)
    ->Apply(with_thread_counts);

}  // namespace
}  // namespace aclgrad
