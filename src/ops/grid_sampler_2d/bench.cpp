// Speed of grid sampling and its gradient, in points (times channels) a second.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/data_type.h"
#include "bench/memory.h"
#include "ops/grid_sampler_2d/problem.h"

namespace aclgrad {
namespace {

struct Size {
  int64_t batch;
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t output_height;
  int64_t output_width;
};

enum class GridKind { smooth, random };

GridSampling::Strides contiguous(int64_t channels, int64_t height, int64_t width) {
  return {channels * height * width, height * width, width, 1};
}

Memory stored(const std::vector<float>& values, DataType type) {
  Memory memory(values.size() * size_of(type));
  visit_float_type(type, [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) {
      const T value = from_float<T>(values[i]);
      std::memcpy(memory.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return memory;
}

std::vector<float> random_values(int64_t count) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> distribution(-1.1f, 1.1f);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = distribution(engine);
  return values;
}

// A gentle warp: the identity and a wave.
std::vector<float> grid_values(const Size& size, GridKind kind) {
  std::vector<float> grid = random_values(size.batch * size.output_height * size.output_width * 2);
  if (kind == GridKind::random) return grid;
  size_t at = 0;
  for (int64_t n = 0; n < size.batch; ++n) {
    for (int64_t i = 0; i < size.output_height; ++i) {
      for (int64_t j = 0; j < size.output_width; ++j) {
        const float x = (2.0f * static_cast<float>(j) + 1) / static_cast<float>(size.output_width) - 1;
        const float y = (2.0f * static_cast<float>(i) + 1) / static_cast<float>(size.output_height) - 1;
        grid[at++] = x + 0.02f * std::sin(5 * y);
        grid[at++] = y + 0.02f * std::cos(4 * x);
      }
    }
  }
  return grid;
}

// What forward operator and gradient read, and the description of it.
struct Data {
  Data(GridSampling& sampling, DataType type, const Size& size, GridKind kind, Interpolation interpolation)
      : input(stored(random_values(size.batch * size.channels * size.height * size.width), type)),
        grid(stored(grid_values(size, kind), type)),
        output(stored(random_values(size.batch * size.channels * size.output_height * size.output_width),
                      type)) {
    sampling.type = type;
    sampling.interpolation = interpolation;
    sampling.batch = size.batch;
    sampling.channels = size.channels;
    sampling.height = size.height;
    sampling.width = size.width;
    sampling.output_height = size.output_height;
    sampling.output_width = size.output_width;
    sampling.input = input.data();
    sampling.input_strides = contiguous(size.channels, size.height, size.width);
    sampling.grid = grid.data();
    sampling.grid_strides = {size.output_height * size.output_width * 2, size.output_width * 2, 2, 1};
  }

  Memory input;
  Memory grid;
  Memory output;
};

template <class Problem, class Operator>
void measure(benchmark::State& state, const Problem& problem, const Size& size, Operator&& run) {
  Memory workspace(workspace_size(problem));
  for (auto _ : state) run(problem, workspace.data());
  state.SetItemsProcessed(state.iterations() * size.batch * size.channels * size.output_height *
                          size.output_width);
}

void gradient(benchmark::State& state, DataType type, Size size, GridKind kind, Interpolation interpolation,
              bool input_grad, bool grid_grad) {
  set_thread_count(static_cast<int>(state.range(0)));
  GridSampler2DBackward problem;
  const Data data(problem, type, size, kind, interpolation);
  Memory grad_of_input(data.input.size());
  Memory grad_of_grid(data.grid.size());
  problem.grad_output = data.output.data();
  problem.grad_output_strides = contiguous(size.channels, size.output_height, size.output_width);
  problem.wants_input_grad = input_grad;
  problem.wants_grid_grad = grid_grad;
  problem.input_grad = grad_of_input.data();
  problem.input_grad_strides = problem.input_strides;
  problem.grid_grad = grad_of_grid.data();
  problem.grid_grad_strides = problem.grid_strides;
  measure(state, problem, size, grid_sampler_2d_backward);
}

void forward(benchmark::State& state, DataType type, Size size, Interpolation interpolation) {
  set_thread_count(static_cast<int>(state.range(0)));
  GridSampler2D problem;
  Data data(problem, type, size, GridKind::smooth, interpolation);
  problem.output = data.output.data();
  problem.output_strides = contiguous(size.channels, size.output_height, size.output_width);
  measure(state, problem, size, grid_sampler_2d);
}

void with_thread_counts(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("threads")->Arg(1)->Arg(0)->UseRealTime()->Unit(benchmark::kMillisecond);
}

constexpr Size kFeatures = {1, 64, 128, 128, 128, 128};
constexpr Size kFeatureBatch = {8, 64, 128, 128, 128, 128};
constexpr Size kFrame = {1, 3, 1080, 1920, 1080, 1920};
constexpr Size kCorrelation = {24576, 1, 48, 64, 9, 9};
constexpr Size kPointFeatures = {300, 1, 256, 256, 12544, 1};
constexpr Size kGreyImage = {1, 1, 512, 512, 512, 512};
constexpr Size kSmallGrid = {1, 64, 300, 400, 13, 13};
constexpr Size kSmallBatch = {100, 2, 30, 40, 13, 13};
constexpr Size kSmallGridsOnLargeImages = {100, 2, 1000, 1200, 13, 13};
constexpr Size kSmallGridOnLargeImage = {1, 64, 1000, 1200, 13, 13};

constexpr auto kBilinear = Interpolation::bilinear;

#define GRADIENT(name, ...) BENCHMARK_CAPTURE(gradient, name, __VA_ARGS__)->Apply(with_thread_counts)
#define FORWARD(name, ...) BENCHMARK_CAPTURE(forward, name, __VA_ARGS__)->Apply(with_thread_counts)

GRADIENT(float_1x64x128x128, DataType::float32, kFeatures, GridKind::smooth, kBilinear, true, true);
GRADIENT(half_1x64x128x128, DataType::float16, kFeatures, GridKind::smooth, kBilinear, true, true);
GRADIENT(bfloat16_1x64x128x128, DataType::bfloat16, kFeatures, GridKind::smooth, kBilinear, true, true);
GRADIENT(float_1x64x128x128_random, DataType::float32, kFeatures, GridKind::random, kBilinear, true, true);
GRADIENT(float_1x64x128x128_nearest, DataType::float32, kFeatures, GridKind::smooth, Interpolation::nearest,
         true, true);
GRADIENT(float_1x64x128x128_bicubic, DataType::float32, kFeatures, GridKind::smooth, Interpolation::bicubic,
         true, true);
GRADIENT(float_8x64x128x128, DataType::float32, kFeatureBatch, GridKind::smooth, kBilinear, true, true);
GRADIENT(bfloat16_8x64x128x128, DataType::bfloat16, kFeatureBatch, GridKind::smooth, kBilinear, true, true);
GRADIENT(float_1x3x1080x1920, DataType::float32, kFrame, GridKind::smooth, kBilinear, true, true);
GRADIENT(float_1x3x1080x1920_random, DataType::float32, kFrame, GridKind::random, kBilinear, true, true);
GRADIENT(half_1x3x1080x1920, DataType::float16, kFrame, GridKind::smooth, kBilinear, true, true);
GRADIENT(float_1x1x512x512, DataType::float32, kGreyImage, GridKind::smooth, kBilinear, true, true);
GRADIENT(float_24576x1x48x64_to_9x9, DataType::float32, kCorrelation, GridKind::smooth, kBilinear, true,
         true);
GRADIENT(float_300x1x256x256_to_12544, DataType::float32, kPointFeatures, GridKind::random, kBilinear, true,
         true);
GRADIENT(float_grid_only_1x64x300x400_to_13x13, DataType::float32, kSmallGrid, GridKind::smooth, kBilinear,
         false, true);
GRADIENT(float_grid_only_1x64x1000x1200_to_13x13, DataType::float32, kSmallGridOnLargeImage, GridKind::smooth,
         kBilinear, false, true);
GRADIENT(float_grid_only_100x2x30x40_to_13x13, DataType::float32, kSmallBatch, GridKind::random, kBilinear,
         false, true);
GRADIENT(float_grid_only_100x2x1000x1200_to_13x13, DataType::float32, kSmallGridsOnLargeImages,
         GridKind::random, kBilinear, false, true);
FORWARD(float_1x64x128x128, DataType::float32, kFeatures, kBilinear);
FORWARD(bfloat16_1x64x128x128, DataType::bfloat16, kFeatures, kBilinear);
FORWARD(float_1x64x128x128_bicubic, DataType::float32, kFeatures, Interpolation::bicubic);
FORWARD(float_1x3x1080x1920, DataType::float32, kFrame, kBilinear);

}  // namespace
}  // namespace aclgrad
