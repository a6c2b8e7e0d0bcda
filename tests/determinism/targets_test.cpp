// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The same bits on every instruction set that has fused multiply-add: each operator is run on each instruction set of
// this processor. All cases must have the same results there, and the hash of some is compared with one value for all
// processors.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cmath>
#include <random>

#include "aclgrad/grid_sampler.h"
#include "aclgrad/multi_scale_deformable_attention.h"
#include "aclgrad/nsa_compress.h"
#include "support/operator.h"

namespace aclgrad::test {
namespace {

using Bytes = std::vector<std::byte>;

// Random values: whole multiples of 2^-10, so that every processor makes the same ones.
std::vector<double> data(int64_t count, double low, double high, uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<double> values(static_cast<size_t>(count));
  const auto steps = static_cast<uint32_t>((high - low) * 1024);
  for (double& value : values) value = static_cast<float>(low + static_cast<double>(engine() % steps) / 1024);
  return values;
}

TensorValue random_tensor(const Shape& shape, DataType type, double low, double high, uint32_t seed) {
  return {shape, type, data(element_count(shape), low, high, seed)};
}

// FNV-1a.
class Hash {
 public:
  void add(const Bytes& bytes) {
    for (std::byte byte : bytes) value_ = (value_ ^ static_cast<uint64_t>(byte)) * 0x100000001B3u;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325u;
};

// Of all outputs.
void add_results(const Operator& of, const std::vector<Value>& values, Hash& hash) {
  const Arguments arguments(values);
  EXPECT_EQ(of.run(arguments), OK);
  for (size_t index : of.indices_of(Role::output)) hash.add(arguments.tensor(index).bytes());
}

uint64_t grouped_bias(DataType type) {
  Hash hash;
  add_results(operator_named("aclnnGroupedBiasAddGrad"),
              {random_tensor({1100, 37}, type, -5, 5, 1), TensorValue{{2}, DataType::int64, {30, 1100}},
               TensorValue{{2, 37}, type}},
              hash);
  return hash.value();
}

Bytes bytes_of(int64_t count, DataType type, double low, double high, uint32_t seed) {
  return TestTensor({count}, type, Layout::contiguous, data(count, low, high, seed)).bytes();
}

// The C++ interface takes any number of channels, and float.
uint64_t nsa(DataType type) {
  constexpr int64_t kTokens = 300, kHeads = 3, kChannels = 40;
  constexpr int64_t kBlock = 32;
  const aclgrad::Shape of_tokens = {kTokens, kHeads, kChannels}, of_weight = {kBlock, kHeads};
  const Bytes input = bytes_of(kTokens * kHeads * kChannels, type, -2, 2, 2);
  const Bytes weight = bytes_of(kBlock * kHeads, type, -1, 1, 3);
  NsaCompressBackward problem;
  problem.input = {input.data(), type, of_tokens};
  problem.weight = {weight.data(), type, of_weight};
  problem.stride = 16;
  const aclgrad::Shape of_windows = {count_windows(problem), kHeads, kChannels};
  const Bytes output_grad = bytes_of(of_windows[0] * kHeads * kChannels, type, -2, 2, 4);
  Bytes input_grad(input.size());
  Bytes weight_grad(weight.size());
  Bytes output(output_grad.size());
  problem.grad_output = {output_grad.data(), type, of_windows};
  problem.grad_input = {input_grad.data(), type, of_tokens};
  problem.grad_weight = {weight_grad.data(), type, of_weight};
  nsa_compress_backward(problem, Workspace(workspace_size(problem)));
  NsaCompress forward;
  static_cast<NsaCompression&>(forward) = problem;
  forward.output = {output.data(), type, of_windows};
  nsa_compress(forward, Workspace(workspace_size(forward)));
  Hash hash;
  for (const Bytes* bytes : {&input_grad, &weight_grad, &output}) hash.add(*bytes);
  return hash.value();
}

uint64_t attention(DataType type, int64_t channels) {
  constexpr int64_t kRows = 12 * 15 + 6 * 7, kHeads = 2, kQueries = 90, kPoints = 3;
  const Shape rows = {1, kRows, kHeads, channels}, samples = {1, kQueries, kHeads, 2, kPoints},
              locations = {1, kQueries, kHeads, 2, kPoints, 2}, queries = {1, kQueries, kHeads * channels};
  const std::vector<Value> sampling = {
      random_tensor(rows, type, -2, 2, 5), TensorValue{{2, 2}, DataType::int64, {12, 15, 6, 7}},
      TensorValue{{2}, DataType::int64, {0, 12 * 15}}, random_tensor(locations, type, -0.1, 1.1, 6),
      random_tensor(samples, type, 0, 1, 7)};
  std::vector<Value> forward = sampling, backward = sampling;
  forward.push_back(TensorValue{queries, type});
  backward.insert(backward.end(), {random_tensor(queries, type, -2, 2, 8), TensorValue{rows, type},
                                   TensorValue{locations, type}, TensorValue{samples, type}});
  Hash hash;
  add_results(operator_named("aclnnMultiScaleDeformableAttnFunction"), forward, hash);
  add_results(operator_named("aclnnMultiScaleDeformableAttentionGrad"), backward, hash);
  return hash.value();
}

// The gradient of the gradient, through the C++ interface.
uint64_t attention_twice(DataType type, int64_t channels) {
  constexpr int64_t kRows = 12 * 15 + 6 * 7, kHeads = 2, kQueries = 90, kPoints = 3;
  const int64_t shapes[] = {12, 15, 6, 7}, starts[] = {0, 12 * 15};
  const aclgrad::Shape rows = {1, kRows, kHeads, channels}, samples = {1, kQueries, kHeads, 2, kPoints},
                       locations = {1, kQueries, kHeads, 2, kPoints, 2},
                       queries = {1, kQueries, kHeads, channels};
  const auto count = [](const aclgrad::Shape& shape) { return element_count({shape.begin(), shape.end()}); };
  uint32_t seed = 5;
  const auto random = [&](const aclgrad::Shape& shape, double low, double high) {
    return bytes_of(count(shape), type, low, high, seed++);
  };
  const Bytes value = random(rows, -2, 2), location = random(locations, -0.1, 1.1),
              weight = random(samples, 0, 1), grad_output = random(queries, -2, 2),
              along_value = random(rows, -2, 2), along_location = random(locations, -2, 2),
              along_weight = random(samples, -2, 2);
  Bytes grad_grad_output(grad_output.size()), grad_value(value.size()), grad_location(location.size()),
      grad_weight(weight.size());
  MultiScaleDeformableAttentionDoubleBackward problem;
  problem.value = {value.data(), type, rows};
  problem.spatial_shapes = {shapes, {2, 2}};
  problem.level_start_index = {starts, {2}};
  problem.sampling_locations = {location.data(), type, locations};
  problem.attention_weights = {weight.data(), type, samples};
  problem.grad_output = {grad_output.data(), type, queries};
  problem.grad_grad_value = {along_value.data(), type, rows};
  problem.grad_grad_sampling_locations = {along_location.data(), type, locations};
  problem.grad_grad_attention_weights = {along_weight.data(), type, samples};
  problem.grad_grad_output = {grad_grad_output.data(), type, queries};
  problem.grad_value = {grad_value.data(), type, rows};
  problem.grad_sampling_locations = {grad_location.data(), type, locations};
  problem.grad_attention_weights = {grad_weight.data(), type, samples};
  multi_scale_deformable_attention_double_backward(problem, Workspace(workspace_size(problem)));
  Hash hash;
  for (const Bytes* bytes : {&grad_grad_output, &grad_value, &grad_location, &grad_weight}) hash.add(*bytes);
  return hash.value();
}

// A point for each pixel, most of them next to the pixels of the point before.
std::vector<double> smooth_grid(int64_t batch, int64_t height, int64_t width) {
  std::vector<double> grid;
  for (int64_t point = 0; point < batch * height * width; ++point) {
    const auto row = static_cast<double>(point / width % height);
    const auto column = static_cast<double>(point % width);
    const double slant = (row - column) / 16;
    grid.push_back((2 * column + slant) / static_cast<double>(width) - 1);
    grid.push_back((2 * row - slant) / static_cast<double>(height) - 1);
  }
  return grid;
}

enum class Interpolation : int64_t { bilinear, nearest, bicubic };
constexpr int64_t kReflection = 2;

uint64_t grid_sampling(DataType type, Interpolation interpolation, const Shape& image, const Shape& sampled,
                       const std::vector<double>& grid) {
  const TensorValue input = random_tensor(image, type, -2, 2, 9),
                    grad_output = random_tensor(sampled, type, -2, 2, 11);
  const TensorValue points{{sampled[0], sampled[2], sampled[3], 2}, type, grid};
  const Value mode = static_cast<int64_t>(interpolation), padding = kReflection, align_corners = int64_t{0};
  Hash hash;
  add_results(operator_named("aclnnGridSampler2D"),
              {input, points, mode, padding, align_corners, TensorValue{sampled, type}}, hash);
  add_results(operator_named("aclnnGridSampler2DBackward"),
              {grad_output, input, points, mode, padding, align_corners, std::vector<bool>{true, true},
               TensorValue{image, type}, TensorValue{points.shape, type}},
              hash);
  return hash.value();
}

uint64_t grid_sampling(DataType type, Interpolation interpolation, int64_t channels) {
  return grid_sampling(type, interpolation, {2, channels, 11, 14}, {2, channels, 9, 13},
                       data(2 * 9 * 13 * 2, -1.2, 1.2, 10));
}

uint64_t smooth_grid_sampling(Interpolation interpolation, int64_t channels) {
  const Shape shape = {2, channels, 20, 70};
  return grid_sampling(DataType::float32, interpolation, shape, shape, smooth_grid(2, 20, 70));
}

// Only the C++ interface has the gradient's gradient. Few samples are vectorised over samples.
uint64_t grid_sampling_twice(DataType type, Interpolation interpolation, int64_t channels, int64_t samples) {
  const aclgrad::Shape image = {2, channels, 11, 14}, points = {2, samples, 13, 2},
                       sampled = {2, channels, samples, 13};
  const int64_t pixels = 2 * channels * 11 * 14, results = 2 * channels * samples * 13;
  const Bytes input = bytes_of(pixels, type, -2, 2, 12), grad_grad_input = bytes_of(pixels, type, -2, 2, 13);
  const Bytes grad_output = bytes_of(results, type, -2, 2, 14);
  const Bytes grid = bytes_of(2 * samples * 13 * 2, type, -1.2, 1.2, 15),
              grad_grad_grid = bytes_of(2 * samples * 13 * 2, type, -0.5, 0.5, 16);
  Bytes grad_grad_output(grad_output.size()), grad_input(input.size()), grad_grid(grid.size());
  GridSampler2DDoubleBackward problem;
  problem.input = {input.data(), type, image};
  problem.grid = {grid.data(), type, points};
  problem.interpolation = static_cast<aclgrad::Interpolation>(interpolation);
  problem.padding = Padding::reflection;
  problem.grad_output = {grad_output.data(), type, sampled};
  problem.grad_grad_input = {grad_grad_input.data(), type, image};
  problem.grad_grad_grid = {grad_grad_grid.data(), type, points};
  problem.grad_grad_output = {grad_grad_output.data(), type, sampled};
  problem.grad_input = {grad_input.data(), type, image};
  problem.grad_grid = {grad_grid.data(), type, points};
  grid_sampler_2d_double_backward(problem, Workspace(workspace_size(problem)));
  Hash hash;
  for (const Bytes* bytes : {&grad_grad_output, &grad_input, &grad_grid}) hash.add(*bytes);
  return hash.value();
}

uint64_t volume_sampling(DataType type, Interpolation interpolation, const Shape& volume,
                         const Shape& sampled, const std::vector<double>& grid) {
  const TensorValue input = random_tensor(volume, type, -2, 2, 12),
                    grad_output = random_tensor(sampled, type, -2, 2, 13);
  const TensorValue points{{sampled[0], sampled[2], sampled[3], sampled[4], 3}, type, grid};
  const Value mode = static_cast<int64_t>(interpolation), padding = int64_t{0}, align_corners = int64_t{0};
  Hash hash;
  add_results(operator_named("aclnnGridSampler3D"),
              {input, points, mode, padding, align_corners, TensorValue{sampled, type}}, hash);
  add_results(operator_named("aclnnGridSampler3DBackward"),
              {grad_output, input, points, mode, padding, align_corners, std::vector<bool>{true, true},
               TensorValue{volume, type}, TensorValue{points.shape, type}},
              hash);
  return hash.value();
}

uint64_t volume_sampling(DataType type, Interpolation interpolation, int64_t channels) {
  return volume_sampling(type, interpolation, {2, channels, 7, 9, 11}, {2, channels, 5, 6, 13},
                         data(2 * 5 * 6 * 13 * 3, -1.2, 1.2, 14));
}

// A point for each voxel, most of them next to the voxels of the point before; some outside.
uint64_t smooth_volume_sampling(DataType type, Interpolation interpolation, int64_t channels) {
  constexpr int64_t kSide = 40;
  constexpr double kSize = kSide;
  std::vector<double> grid;
  for (int64_t point = 0; point < kSide * kSide * kSide; ++point) {
    const auto slice = static_cast<double>(point / kSide / kSide);
    const auto row = static_cast<double>(point / kSide % kSide);
    const auto column = static_cast<double>(point % kSide);
    const double slant = (row - column) / 16, shift = (slice - row) / 8;
    for (double place : {2 * column + shift, 2 * row - slant, 2 * slice + 2 * slant})
      grid.push_back(std::round(1024 * (place / kSize - 1)) / 1024);
  }
  const Shape shape = {1, channels, kSide, kSide, kSide};
  return volume_sampling(type, interpolation, shape, shape, grid);
}

struct Known {
  const char* name;
  uint64_t (*run)();
  uint64_t hash;
};

constexpr DataType kFloat = DataType::float32;
constexpr DataType kDouble = DataType::float64;
constexpr DataType kHalf = DataType::float16;
constexpr DataType kBFloat16 = DataType::bfloat16;

const Known kKnown[] = {
    {"grouped bias, float", [] { return grouped_bias(kFloat); }, 0xA254C7695ADA2248u},
    {"grouped bias, half", [] { return grouped_bias(kHalf); }, 0xB118D00D3EC9A323u},
    {"grouped bias, bfloat16", [] { return grouped_bias(kBFloat16); }, 0x93ECDC248375861Bu},
    {"NSA compress, float", [] { return nsa(kFloat); }, 0xD5F8BF20F856A0DCu},
    {"NSA compress, half", [] { return nsa(kHalf); }, 0x8EF942850BB6101Eu},
    {"NSA compress, bfloat16", [] { return nsa(kBFloat16); }, 0xCB42DE59DACEEBEEu},
    {"deformable attention, float, 32 channels", [] { return attention(kFloat, 32); }, 0xE2536B30D1DE127Bu},
    {"deformable attention, float, 24 channels", [] { return attention(kFloat, 24); }, 0xA3528454623D59DDu},
    {"deformable attention, half, 64 channels", [] { return attention(kHalf, 64); }, 0x67534E316E43A994u},
    {"deformable attention, bfloat16, 16 channels", [] { return attention(kBFloat16, 16); },
     0x6478805789D094E4u},
    {"deformable attention twice, float, 32 channels", [] { return attention_twice(kFloat, 32); },
     0xEFD7E38635D5996Eu},
    {"deformable attention twice, float, 24 channels", [] { return attention_twice(kFloat, 24); },
     0x765DEFA9D761DB1Cu},
    {"deformable attention twice, half, 64 channels", [] { return attention_twice(kHalf, 64); },
     0x25AABA1261EC48F5u},
    {"deformable attention twice, bfloat16, 16 channels", [] { return attention_twice(kBFloat16, 16); },
     0x568D945C13C7493Eu},
    {"grid sampler, float, bilinear, 20 channels",
     [] { return grid_sampling(kFloat, Interpolation::bilinear, 20); }, 0xF9822E199202D77Eu},
    {"grid sampler, float, bilinear, 3 channels",
     [] { return grid_sampling(kFloat, Interpolation::bilinear, 3); }, 0x2B2C0624B27C18C6u},
    {"grid sampler, float, bicubic, 20 channels",
     [] { return grid_sampling(kFloat, Interpolation::bicubic, 20); }, 0x154A65E8C88DBB2Du},
    {"grid sampler, half, bicubic, 3 channels",
     [] { return grid_sampling(kHalf, Interpolation::bicubic, 3); }, 0xAA9AC59FB7B4E74Eu},
    {"grid sampler, float, bilinear, smooth grid, 3 channels",
     [] { return smooth_grid_sampling(Interpolation::bilinear, 3); }, 0x9C62297A03256F24u},
    {"grid sampler, float, nearest, smooth grid, 3 channels",
     [] { return smooth_grid_sampling(Interpolation::nearest, 3); }, 0xE0B6D33B333504C9u},
    {"grid sampler, bfloat16, nearest, 16 channels",
     [] { return grid_sampling(kBFloat16, Interpolation::nearest, 16); }, 0xB41D121655F87DC9u},
    {"grid sampler, second derivatives, float, bilinear, 20 channels",
     [] { return grid_sampling_twice(kFloat, Interpolation::bilinear, 20, 9); }, 0x63615E4CAA411242u},
    {"grid sampler, second derivatives, float, bicubic, 20 channels",
     [] { return grid_sampling_twice(kFloat, Interpolation::bicubic, 20, 9); }, 0x97FB782692CCA52Fu},
    {"grid sampler, second derivatives, half, bicubic, 3 channels",
     [] { return grid_sampling_twice(kHalf, Interpolation::bicubic, 3, 9); }, 0x2957B8112BE08CC4u},
    {"grid sampler, second derivatives, float, bicubic, few samples",
     [] { return grid_sampling_twice(kFloat, Interpolation::bicubic, 3, 1); }, 0xEC8E460B815F5E0Cu},
    {"grid sampler, second derivatives, double, bilinear, 3 channels",
     [] { return grid_sampling_twice(DataType::float64, Interpolation::bilinear, 3, 9); },
     0x813F0E799427C816u},
    {"grid sampler, volumes, float, 1 channel",
     [] { return volume_sampling(kFloat, Interpolation::bilinear, 1); }, 0x7F541A03389E9885u},
    {"grid sampler, volumes, float, 20 channels",
     [] { return volume_sampling(kFloat, Interpolation::bilinear, 20); }, 0x8CBF4D9FEC856744u},
    {"grid sampler, volumes, double, 2 channels",
     [] { return volume_sampling(kDouble, Interpolation::bilinear, 2); }, 0x60C4BD88F2CA39BBu},
    {"grid sampler, volumes, float, smooth grid, 1 channel",
     [] { return smooth_volume_sampling(kFloat, Interpolation::bilinear, 1); }, 0x6989B42E7D89D64Au},
    {"grid sampler, volumes, double, smooth grid, 1 channel",
     [] { return smooth_volume_sampling(kDouble, Interpolation::bilinear, 1); }, 0x01A8996B68FC5D20u},
    {"grid sampler, volumes, half, smooth grid, 3 channels",
     [] { return smooth_volume_sampling(kHalf, Interpolation::bilinear, 3); }, 0x248FEBBCD3B8E825u},
    {"grid sampler, volumes, float, nearest, smooth grid, 3 channels",
     [] { return smooth_volume_sampling(kFloat, Interpolation::nearest, 3); }, 0x717A9E7F19E161BAu},
};

bool has_fused_multiply_add(int64_t target) {
  return target == HWY_AVX2 || target == HWY_AVX3 || target == HWY_NEON;
}

class Targets : public testing::Test {
 protected:
  ~Targets() override { use(0); }

  // Runs `body` on each instruction set; on none, where this processor has no fused multiply-add.
  template <class Body>
  static void for_each_target(Body&& body) {
    int tested = 0;
    const int64_t supported = hwy::SupportedTargets();
    for (int64_t target = 1; target != 0 && target <= supported; target <<= 1) {
      if ((supported & target) == 0 || !has_fused_multiply_add(target)) continue;
      use(target);
      SCOPED_TRACE(hwy::TargetName(target));
      body();
      ++tested;
    }
    use(0);
    if (tested == 0) GTEST_SKIP() << "this processor has no fused multiply-add";
  }

 private:
  static void use(int64_t target) {  // 0: all
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

TEST_F(Targets, GiveTheSameBits) {
  for_each_target([] {
    for (const Known& known : kKnown) EXPECT_EQ(known.run(), known.hash) << known.name;
  });
}

TEST_F(Targets, GiveTheSameBitsInEveryCase) {
  for (const Operator& of : operators()) {
    for (DataType type : of.types) {
      for (const Case& one : of.cases(type)) {
        std::optional<uint64_t> first;
        for_each_target([&] {
          Hash hash;
          add_results(of, one.arguments, hash);
          EXPECT_EQ(hash.value(), first.value_or(hash.value())) << of.name << " " << one.title;
          first = hash.value();
        });
      }
    }
  }
}

}  // namespace
}  // namespace aclgrad::test
