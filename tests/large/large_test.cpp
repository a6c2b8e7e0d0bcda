// Problems of more than 2^31 elements. Each is run beside a small one that must have the same bits: either the same
// tensors packed, where the large ones have elements far apart, or the only part of the large ones that is not zero.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "aclgrad/grid_sampler.h"
#include "aclgrad/grouped_bias_add.h"
#include "aclgrad/multi_scale_deformable_attention.h"
#include "aclgrad/nsa_compress.h"
#include "large/sparse_tensor.h"

namespace aclgrad::test {
namespace {

constexpr int64_t kTwoTo31 = int64_t{1} << 31;

// Bytes that the machine has left; 0 where it does not say.
int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kibibytes = 0;
    if (words >> name >> kibibytes && name == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

bool has_address_space(size_t bytes) {
  try {
    map_zeros(bytes);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

class Large : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_address_space(size_t{40} << 40)) GTEST_SKIP() << "the process may not have 40 TiB of addresses";
    require_memory(int64_t{1} << 30);
  }

  // Of what the test writes, with room for what runs beside it.
  static void require_memory(int64_t bytes) {
    if (available_memory() < bytes) GTEST_SKIP() << "less than " << bytes << " bytes of memory are available";
  }
};

template <class Problem, class Run>
void run_with_workspace(const Problem& problem, Run&& run) {
  const size_t bytes = workspace_size(problem);
  const auto workspace = map_zeros(bytes + 64);
  run(problem, WorkspaceView{workspace.get(), bytes});
}

void expect_same(const SparseTensor& actual, const SparseTensor& expected, const char* name) {
  EXPECT_TRUE(actual.bytes() == expected.bytes()) << name << " has other bits than that of the small problem";
  const Bytes bytes = expected.bytes();
  EXPECT_FALSE(bytes == Bytes(bytes.size())) << name << " is zero, which shows nothing";
}

// ---- Grouped bias-add gradient

void sum_groups(const SparseTensor& grad_y, const std::vector<int64_t>& ends, const SparseTensor& out) {
  GroupedBiasAddBackward problem;
  problem.grad_output = grad_y.tensor();
  problem.group_idx = {ends.data(), {static_cast<int64_t>(ends.size())}};
  problem.grad_bias = out.tensor();
  run_with_workspace(problem, grouped_bias_add_backward);
}

void sum_equal_groups(const SparseTensor& grad_y, const SparseTensor& out) {
  GroupedBiasAddBackward problem;
  problem.grad_output = grad_y.tensor();
  problem.grad_bias = out.tensor();
  run_with_workspace(problem, grouped_bias_add_backward);
}

TEST_F(Large, GroupedBiasAddGradOfRowsFarApart) {
  const Shape shape = {600, 19};
  SparseTensor grad_y(DataType::float32, shape, far_strides(shape, 1));
  grad_y.fill(1);
  const SparseTensor out(DataType::float32, {3, 19}), expected(DataType::float32, {3, 19});
  const std::vector<int64_t> ends = {7, 590, 600};
  sum_groups(grad_y, ends, out);
  sum_groups(grad_y.packed(), ends, expected);
  expect_same(out, expected, "out");
}

TEST_F(Large, GroupedBiasAddGradOfGroupsFarApart) {
  const Shape shape = {3, 40, 19};
  SparseTensor grad_y(DataType::float16, shape, far_strides(shape, 1));
  grad_y.fill(2);
  const SparseTensor out(DataType::float16, {3, 19}), expected(DataType::float16, {3, 19});
  sum_equal_groups(grad_y, out);
  sum_equal_groups(grad_y.packed(), expected);
  expect_same(out, expected, "out");
}

TEST_F(Large, GroupedBiasAddGradOfManyRows) {
  constexpr int64_t kRows = (int64_t{1} << 27) + 700, kColumns = 17, kLast = 40;
  static_assert(kRows * kColumns > kTwoTo31);
  const SparseTensor grad_y(DataType::bfloat16, {kRows, kColumns});
  SparseTensor last = grad_y.part({kRows - kLast, 0}, {kLast, kColumns});
  last.fill(3);
  const SparseTensor out(DataType::bfloat16, {2, kColumns}), expected(DataType::bfloat16, {2, kColumns});
  sum_groups(grad_y, {kRows - kLast / 2, kRows}, out);
  sum_groups(last.packed(), {kLast / 2, kLast}, expected);
  expect_same(out, expected, "out");
}

// ---- NSA compress and its gradient

void compress(const SparseTensor& input, const SparseTensor& weight, int64_t stride,
              const SparseTensor& output) {
  NsaCompress problem;
  problem.input = input.tensor();
  problem.weight = weight.tensor();
  problem.stride = stride;
  problem.output = output.tensor();
  run_with_workspace(problem, nsa_compress);
}

void compress_grad(const SparseTensor& output_grad, const SparseTensor& input, const SparseTensor& weight,
                   int64_t stride, const SparseTensor& input_grad, const SparseTensor& weight_grad) {
  NsaCompressBackward problem;
  problem.input = input.tensor();
  problem.weight = weight.tensor();
  problem.stride = stride;
  problem.grad_output = output_grad.tensor();
  problem.grad_input = input_grad.tensor();
  problem.grad_weight = weight_grad.tensor();
  run_with_workspace(problem, nsa_compress_backward);
}

TEST_F(Large, NsaCompressOfTokensAndHeadsFarApart) {
  const Shape shape = {40, 3, 20}, output_shape = {9, 3, 20};
  SparseTensor input(DataType::float32, shape, far_strides(shape, 1)), weight(DataType::float32, {8, 3});
  const SparseTensor output(DataType::float32, output_shape, far_strides(output_shape, 1));
  const SparseTensor expected(DataType::float32, output_shape);
  input.fill(1);
  weight.fill(2);
  compress(input, weight, 4, output);
  compress(input.packed(), weight, 4, expected);
  expect_same(output, expected, "output");
}

TEST_F(Large, NsaCompressGradOfTokensAndHeadsFarApart) {
  const Shape shape = {40, 3, 20}, output_shape = {9, 3, 20};
  SparseTensor input(DataType::float16, shape, far_strides(shape, 1)), weight(DataType::float16, {8, 3});
  SparseTensor output_grad(DataType::float16, output_shape, far_strides(output_shape, 1));
  input.fill(1);
  weight.fill(2);
  output_grad.fill(3);
  const SparseTensor input_grad(DataType::float16, shape, far_strides(shape, 1));
  const SparseTensor expected_input_grad(DataType::float16, shape);
  const SparseTensor weight_grad(DataType::float16, {8, 3}), expected_weight_grad(DataType::float16, {8, 3});
  compress_grad(output_grad, input, weight, 4, input_grad, weight_grad);
  compress_grad(output_grad.packed(), input.packed(), weight, 4, expected_input_grad, expected_weight_grad);
  expect_same(input_grad, expected_input_grad, "input_grad");
  expect_same(weight_grad, expected_weight_grad, "weight_grad");
}

// The last of a few windows that lie far apart: more tokens than 2^31.
TEST_F(Large, NsaCompressOfManyTokens) {
  constexpr int64_t kStride = int64_t{1} << 30, kWindows = 4, kBlock = 32;
  constexpr int64_t kTokens = (kWindows - 1) * kStride + kBlock;
  static_assert(kTokens > kTwoTo31);
  const SparseTensor input(DataType::bfloat16, {kTokens, 2, 16}),
      output(DataType::bfloat16, {kWindows, 2, 16});
  SparseTensor last = input.part({kTokens - kBlock, 0, 0}, {kBlock, 2, 16});
  SparseTensor weight(DataType::bfloat16, {kBlock, 2});
  last.fill(1);
  weight.fill(2);
  const SparseTensor expected(DataType::bfloat16, {1, 2, 16});
  compress(input, weight, kStride, output);
  compress(last.packed(), weight, kStride, expected);
  expect_same(output.part({kWindows - 1, 0, 0}, {1, 2, 16}), expected, "output");
}

TEST_F(Large, NsaCompressGradOfManyTokens) {
  require_memory(int64_t{6} << 30);
  if (IsSkipped()) return;
  constexpr int64_t kStride = int64_t{1} << 26, kWindows = 3, kBlock = 32;
  constexpr int64_t kTokens = (kWindows - 1) * kStride + kBlock;
  static_assert(kTokens * 16 > kTwoTo31);
  const SparseTensor input(DataType::bfloat16, {kTokens, 1, 16}),
      input_grad(DataType::bfloat16, {kTokens, 1, 16});
  const SparseTensor output_grad(DataType::bfloat16, {kWindows, 1, 16});
  SparseTensor weight(DataType::bfloat16, {kBlock, 1});
  SparseTensor last = input.part({kTokens - kBlock, 0, 0}, {kBlock, 1, 16});
  SparseTensor last_output_grad = output_grad.part({kWindows - 1, 0, 0}, {1, 1, 16});
  last.fill(1);
  weight.fill(2);
  last_output_grad.fill(3);
  const SparseTensor weight_grad(DataType::bfloat16, {kBlock, 1});
  const SparseTensor expected_input_grad(DataType::bfloat16, {kBlock, 1, 16});
  const SparseTensor expected_weight_grad(DataType::bfloat16, {kBlock, 1});
  compress_grad(output_grad, input, weight, kStride, input_grad, weight_grad);
  compress_grad(last_output_grad.packed(), last.packed(), weight, kStride, expected_input_grad,
                expected_weight_grad);
  expect_same(input_grad.part({kTokens - kBlock, 0, 0}, {kBlock, 1, 16}), expected_input_grad, "input_grad");
  expect_same(weight_grad, expected_weight_grad, "weight_grad");
}

// ---- Multi-scale deformable attention and its gradient

// The tensors of samples with their axes apart, of which the last in memory is one here; there is one level.
Tensor as_weights(const SparseTensor& tensor) {
  const Tensor t = tensor.tensor();
  return {t.data,
          t.type,
          {t.size(0), t.size(1), t.size(2), 1, t.size(3)},
          {t.stride(0), t.stride(1), t.stride(2), t.size(3), 1}};
}

Tensor as_locations(const SparseTensor& tensor) {
  const Tensor t = tensor.tensor();
  return {t.data,
          t.type,
          {t.size(0), t.size(1), t.size(2), 1, t.size(3) / 2, 2},
          {t.stride(0), t.stride(1), t.stride(2), t.size(3), 2, 1}};
}

struct Attention {
  SparseTensor value;      // [batches, rows, heads, channels]
  SparseTensor location;   // [batches, queries, heads, points * 2]
  SparseTensor attention;  // [batches, queries, heads, points]
  std::vector<int64_t> shape;
  std::vector<int64_t> start;

  Attention packed() const { return {value.packed(), location.packed(), attention.packed(), shape, start}; }

  template <class Problem>
  void describe(Problem& problem) const {
    problem.value = value.tensor();
    problem.spatial_shapes = {shape.data(), {1, 2}};
    problem.level_start_index = {start.data(), {1}};
    problem.sampling_locations = as_locations(location);
    problem.attention_weights = as_weights(attention);
  }
};

void attend(const Attention& attention, const SparseTensor& output) {
  MultiScaleDeformableAttention problem;
  attention.describe(problem);
  problem.output = output.tensor();
  run_with_workspace(problem, multi_scale_deformable_attention);
}

struct AttentionGrads {
  SparseTensor value, location, attention;
};

void attend_backward(const Attention& attention, const SparseTensor& grad_output,
                     const AttentionGrads& grads) {
  MultiScaleDeformableAttentionBackward problem;
  attention.describe(problem);
  problem.grad_output = grad_output.tensor();
  problem.grad_value = grads.value.tensor();
  problem.grad_sampling_locations = as_locations(grads.location);
  problem.grad_attention_weights = as_weights(grads.attention);
  run_with_workspace(problem, multi_scale_deformable_attention_backward);
}

// Places in the level and around it.
std::vector<double> places(int64_t count, double low, double high) {
  return uniform(count, low, high, 11);
}

class LargeAttention : public Large, public testing::WithParamInterface<int64_t> {};

// Few channels are packed, and sixteen are read where they lie.
INSTANTIATE_TEST_SUITE_P(Channels, LargeAttention, testing::Values(6, 16));

TEST_P(LargeAttention, OfBatchesRowsAndHeadsFarApart) {
  for (DataType type : {DataType::float32, DataType::float64}) {
    const int64_t channels = GetParam();
    const Shape of_value = {2, 60, 3, channels}, of_location = {2, 5, 3, 4}, of_attention = {2, 5, 3, 2};
    const Shape of_output = {2, 5, 3, channels};
    const auto far = [&](const Shape& shape) { return SparseTensor(type, shape, far_strides(shape, 1)); };
    Attention attention{far(of_value), far(of_location), far(of_attention), {6, 10}, {0}};
    attention.value.fill(1);
    attention.location.set(places(element_count(of_location), -0.2, 1.2));
    attention.attention.fill(2);
    const SparseTensor output = far(of_output), expected_output(type, of_output);
    attend(attention, output);
    attend(attention.packed(), expected_output);
    expect_same(output, expected_output, "output");

    SparseTensor grad_output = far(of_output);
    grad_output.fill(3);
    const AttentionGrads grads{far(of_value), far(of_location), far(of_attention)};
    const AttentionGrads expected{{type, of_value}, {type, of_location}, {type, of_attention}};
    attend_backward(attention, grad_output, grads);
    attend_backward(attention.packed(), grad_output.packed(), expected);
    expect_same(grads.value, expected.value, "grad_value");
    expect_same(grads.location, expected.location, "grad_location");
    expect_same(grads.attention, expected.attention, "grad_attention_weight");
  }
}

TEST_F(Large, AttentionOfManyRows) {
  constexpr int64_t kRows = kTwoTo31 + 1000, kLevel = 60;
  Attention attention{{DataType::float16, {1, kRows, 2, 16}},
                      {DataType::float16, {1, 5, 2, 4}},
                      {DataType::float16, {1, 5, 2, 2}},
                      {6, 10},
                      {kRows - kLevel}};
  SparseTensor level = attention.value.part({0, kRows - kLevel, 0, 0}, {1, kLevel, 2, 16});
  level.fill(1);
  attention.location.set(places(40, -0.2, 1.2));
  attention.attention.fill(2);
  const SparseTensor output(DataType::float16, {1, 5, 2, 16}), expected(DataType::float16, {1, 5, 2, 16});
  attend(attention, output);
  attend({level.packed(), attention.location, attention.attention, {6, 10}, {0}}, expected);
  expect_same(output, expected, "output");
}

TEST_F(Large, AttentionGradOfManyElements) {
  require_memory(int64_t{6} << 30);
  if (IsSkipped()) return;
  constexpr DataType kType = DataType::bfloat16;
  constexpr int64_t kRows = (int64_t{1} << 22) + 1000, kHeads = 8, kChannels = 64, kLevel = 60;
  static_assert(kRows * kHeads * kChannels > kTwoTo31);
  const Shape of_location = {1, 5, kHeads, 4}, of_attention = {1, 5, kHeads, 2};
  const Shape of_level = {1, kLevel, kHeads, kChannels}, first = {0, kRows - kLevel, 0, 0};
  Attention attention{{kType, {1, kRows, kHeads, kChannels}},
                      {kType, of_location},
                      {kType, of_attention},
                      {6, 10},
                      {kRows - kLevel}};
  SparseTensor level = attention.value.part(first, of_level);
  SparseTensor grad_output(kType, {1, 5, kHeads, kChannels});
  level.fill(1);
  attention.location.set(places(element_count(of_location), -0.2, 1.2));
  attention.attention.fill(2);
  grad_output.fill(3);
  const AttentionGrads grads{
      {kType, {1, kRows, kHeads, kChannels}}, {kType, of_location}, {kType, of_attention}};
  const AttentionGrads expected{{kType, of_level}, {kType, of_location}, {kType, of_attention}};
  attend_backward(attention, grad_output, grads);
  attend_backward({level.packed(), attention.location, attention.attention, {6, 10}, {0}}, grad_output,
                  expected);
  expect_same(grads.value.part(first, of_level), expected.value, "grad_value");
  expect_same(grads.location, expected.location, "grad_location");
  expect_same(grads.attention, expected.attention, "grad_attention_weight");
}

// ---- Grid sampling and its gradient

template <class Problem>
Problem describe(Interpolation interpolation, const SparseTensor& input, const SparseTensor& grid) {
  Problem problem;
  problem.input = input.tensor();
  problem.grid = grid.tensor();
  problem.interpolation = interpolation;
  return problem;
}

void sample(Interpolation interpolation, const SparseTensor& input, const SparseTensor& grid,
            const SparseTensor& output) {
  auto problem = describe<GridSampler2D>(interpolation, input, grid);
  problem.output = output.tensor();
  run_with_workspace(problem, grid_sampler_2d);
}

void sample_backward(Interpolation interpolation, const SparseTensor& grad_output, const SparseTensor& input,
                     const SparseTensor& grid, const SparseTensor& input_grad,
                     const SparseTensor& grid_grad) {
  auto problem = describe<GridSampler2DBackward>(interpolation, input, grid);
  problem.grad_output = grad_output.tensor();
  problem.grad_input = input_grad.tensor();
  problem.grad_grid = grid_grad.tensor();
  run_with_workspace(problem, grid_sampler_2d_backward);
}

struct GridCase {
  const char* name;
  DataType type;
  Interpolation interpolation;
  int64_t channels, height, width, points;
  size_t contiguous_axes;  // of the images
};

class LargeGrid : public Large, public testing::WithParamInterface<GridCase> {};

// Many samples are vectorised over channels, few over samples.
INSTANTIATE_TEST_SUITE_P(
    Cases, LargeGrid,
    testing::Values(
        GridCase{"by_channels", DataType::float32, Interpolation::bilinear, 20, 5, 6, 16, 0},
        GridCase{"by_channels_far_rows", DataType::float32, Interpolation::bicubic, 3, 5, 6, 16, 1},
        GridCase{"by_channels_bfloat16", DataType::bfloat16, Interpolation::bicubic, 5, 5, 6, 16, 0},
        GridCase{"points_in_lanes", DataType::float32, Interpolation::bilinear, 3, 20, 16, 3, 0},
        GridCase{"points_in_lanes_far_rows", DataType::float32, Interpolation::bilinear, 3, 20, 16, 3, 1},
        GridCase{"points_in_lanes_far_channels", DataType::float32, Interpolation::bilinear, 3, 20, 16, 3, 2},
        GridCase{"points_in_lanes_half", DataType::float16, Interpolation::bilinear, 3, 20, 16, 3, 0},
        GridCase{"points_in_lanes_double", DataType::float64, Interpolation::bilinear, 3, 5, 6, 16, 0}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(LargeGrid, OfPixelsFarApart) {
  const auto [name, type, interpolation, channels, height, width, points, contiguous_axes] = GetParam();
  const Shape of_input = {2, channels, height, width}, of_grid = {2, 2, points, 2};
  const Shape of_output = {2, channels, 2, points};
  const auto far = [type = type](const Shape& shape, size_t axes) {
    return SparseTensor(type, shape, far_strides(shape, axes));
  };
  SparseTensor input = far(of_input, contiguous_axes), grid = far(of_grid, 0);
  input.fill(1);
  grid.set(places(element_count(of_grid), -1.1, 1.1));
  const SparseTensor output = far(of_output, contiguous_axes), expected_output(type, of_output);
  sample(interpolation, input, grid, output);
  sample(interpolation, input.packed(), grid.packed(), expected_output);
  expect_same(output, expected_output, "output");

  SparseTensor grad_output = far(of_output, contiguous_axes);
  grad_output.fill(2);
  const SparseTensor input_grad = far(of_input, contiguous_axes), grid_grad = far(of_grid, 0);
  const SparseTensor expected_input_grad(type, of_input), expected_grid_grad(type, of_grid);
  sample_backward(interpolation, grad_output, input, grid, input_grad, grid_grad);
  sample_backward(interpolation, grad_output.packed(), input.packed(), grid.packed(), expected_input_grad,
                  expected_grid_grad);
  expect_same(input_grad, expected_input_grad, "input_grad");
  expect_same(grid_grad, expected_grid_grad, "grid_grad");
}

// Points between the last `part` pixels of an axis of `size`, in quarters of a pixel. Both are powers of two, so that
// the coordinates are exact, and those in an axis of `part` pixels mean the same points.
std::vector<double> last_places(int64_t count, double size, double part) {
  std::vector<double> coordinates;
  for (int64_t i = 0; i < count; ++i) {
    const double place = static_cast<double>(i * 7 % (4 * static_cast<int64_t>(part) - 4)) / 4;
    coordinates.push_back((2 * (size - part + place) + 1) / size - 1);
  }
  return coordinates;
}

// A plane of 2^32 pixels.
TEST_F(Large, GridSamplerOfManyPixels) {
  constexpr int64_t kSide = 1 << 16, kPart = 16, kPoints = 40;
  for (DataType type : {DataType::float32, DataType::float64}) {
    const SparseTensor input(type, {1, 2, kSide, kSide});
    SparseTensor last = input.part({0, 0, kSide - kPart, kSide - kPart}, {1, 2, kPart, kPart});
    last.fill(1);
    SparseTensor grid(type, {1, 1, kPoints, 2}), grid_of_last(type, {1, 1, kPoints, 2});
    grid.set(last_places(2 * kPoints, kSide, kPart));
    grid_of_last.set(last_places(2 * kPoints, kPart, kPart));
    const SparseTensor output(type, {1, 2, 1, kPoints}), expected(type, {1, 2, 1, kPoints});
    sample(Interpolation::bilinear, input, grid, output);
    sample(Interpolation::bilinear, last.packed(), grid_of_last, expected);
    expect_same(output, expected, "output");
  }
}

// Vectors of channels take a sample for each 8 pixels. All but the last samples lie in the middle of the image and bring
// zeros.
TEST_F(Large, GridSamplerBackwardOfManyElements) {
  require_memory(int64_t{7} << 30);
  if (IsSkipped()) return;
  constexpr DataType kType = DataType::bfloat16;
  constexpr int64_t kSide = 1 << 12, kChannels = 144, kPart = 16, kPoints = 64;
  constexpr int64_t kRows = kSide / 8;
  static_assert(kChannels * kSide * kSide > kTwoTo31);
  const Shape of_part = {1, kChannels, kPart, kPart}, first = {0, 0, kSide - kPart, kSide - kPart};
  const SparseTensor input(kType, {1, kChannels, kSide, kSide}), grid(kType, {1, kRows, kSide, 2});
  const SparseTensor grad_output(kType, {1, kChannels, kRows, kSide});
  SparseTensor last = input.part(first, of_part);
  SparseTensor last_points = grid.part({0, kRows - 1, kSide - kPoints, 0}, {1, 1, kPoints, 2});
  SparseTensor last_grad = grad_output.part({0, 0, kRows - 1, kSide - kPoints}, {1, kChannels, 1, kPoints});
  last.fill(1);
  last_grad.fill(2);
  // bfloat16 has no place in between but the last pixel's, whose coordinate rounds to 1.
  last_points.set(std::vector<double>(2 * kPoints, 1.0));
  SparseTensor grid_of_last(kType, {1, 1, kPoints, 2});
  grid_of_last.set(std::vector<double>(2 * kPoints, 1.0));
  const SparseTensor input_grad(kType, {1, kChannels, kSide, kSide}), grid_grad(kType, {1, kRows, kSide, 2});
  const SparseTensor expected_input_grad(kType, of_part), expected_grid_grad(kType, {1, 1, kPoints, 2});
  sample_backward(Interpolation::bilinear, grad_output, input, grid, input_grad, grid_grad);
  sample_backward(Interpolation::bilinear, last_grad.packed(), last.packed(), grid_of_last,
                  expected_input_grad, expected_grid_grad);
  expect_same(input_grad.part(first, of_part), expected_input_grad, "input_grad");
  // Coordinates go from -1 to 1 in images of any size, and so gradients with respect to them grow with it.
  std::vector<double> scaled = expected_grid_grad.values();
  for (double& value : scaled) value *= kSide / kPart;
  EXPECT_EQ(grid_grad.part({0, kRows - 1, kSide - kPoints, 0}, {1, 1, kPoints, 2}).values(), scaled);
}

// ---- Three dimensions

// The three results.
struct Volumes {
  SparseTensor output, input_grad, grid_grad;
};

Volumes sample_volumes(const SparseTensor& input, const SparseTensor& grid, const SparseTensor& grad_output) {
  const DataType type = input.type();
  const auto like = [&](const SparseTensor& tensor) {
    const Shape shape = {tensor.size(0), tensor.size(1), tensor.size(2), tensor.size(3), tensor.size(4)};
    const Shape strides = {tensor.stride(0), tensor.stride(1), tensor.stride(2), tensor.stride(3),
                           tensor.stride(4)};
    return SparseTensor(type, shape, strides);
  };
  Volumes results{like(grad_output), like(input), like(grid)};
  GridSampler3DBackward backward;
  backward.input = input.tensor();
  backward.grid = grid.tensor();
  GridSampler3D forward;
  static_cast<GridSampling&>(forward) = backward;
  forward.output = results.output.tensor();
  run_with_workspace(forward, grid_sampler_3d);
  backward.grad_output = grad_output.tensor();
  backward.grad_input = results.input_grad.tensor();
  backward.grad_grid = results.grid_grad.tensor();
  run_with_workspace(backward, grid_sampler_3d_backward);
  return results;
}

TEST_F(Large, GridSampler3DOfVoxelsFarApart) {
  for (DataType type : {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64}) {
    for (int64_t channels : {2, 20}) {
      for (size_t contiguous_axes : {0, 1, 3}) {
        SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(type) << ", channels " << channels
                                        << ", contiguous axes " << contiguous_axes);
        const Shape of_input = {1, channels, 3, 4, 5}, of_grid = {1, 2, 3, 8, 3};
        const Shape of_output = {1, channels, 2, 3, 8};
        const auto far = [type](const Shape& shape, size_t axes) {
          return SparseTensor(type, shape, far_strides(shape, axes));
        };
        SparseTensor input = far(of_input, contiguous_axes), grid = far(of_grid, 0);
        SparseTensor grad_output = far(of_output, contiguous_axes);
        input.fill(1);
        grad_output.fill(2);
        grid.set(places(element_count(of_grid), -1.1, 1.1));
        const Volumes actual = sample_volumes(input, grid, grad_output);
        const Volumes expected = sample_volumes(input.packed(), grid.packed(), grad_output.packed());
        expect_same(actual.output, expected.output, "output");
        expect_same(actual.input_grad, expected.input_grad, "input_grad");
        expect_same(actual.grid_grad, expected.grid_grad, "grid_grad");
      }
    }
  }
}

// A channel of 2^33 voxels.
TEST_F(Large, GridSampler3DOfManyVoxels) {
  constexpr int64_t kSide = 1 << 11, kPart = 16, kPoints = 40;
  for (DataType type : {DataType::float32, DataType::float64}) {
    const SparseTensor input(type, {1, 2, kSide, kSide, kSide});
    SparseTensor last =
        input.part({0, 0, kSide - kPart, kSide - kPart, kSide - kPart}, {1, 2, kPart, kPart, kPart});
    last.fill(1);
    SparseTensor grid(type, {1, 1, 1, kPoints, 3}), grid_of_last(type, {1, 1, 1, kPoints, 3});
    grid.set(last_places(3 * kPoints, kSide, kPart));
    grid_of_last.set(last_places(3 * kPoints, kPart, kPart));
    const auto sampled = [type](const SparseTensor& volume, const SparseTensor& at) {
      SparseTensor output(type, {1, 2, 1, 1, kPoints});
      GridSampler3D problem;
      problem.input = volume.tensor();
      problem.grid = at.tensor();
      problem.output = output.tensor();
      run_with_workspace(problem, grid_sampler_3d);
      return output;
    };
    expect_same(sampled(input, grid), sampled(last.packed(), grid_of_last), "output");
  }
}

}  // namespace
}  // namespace aclgrad::test
