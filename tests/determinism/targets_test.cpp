// The same bits on every instruction set that has fused multiply-add: each operator is run on each instruction set of
// this processor, and the hash of its results is compared with one value for all processors.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstring>
#include <memory>
#include <random>

#include "base/data_type.h"
#include "ops/grid_sampler_2d/problem.h"
#include "ops/grouped_bias_add/problem.h"
#include "ops/multi_scale_deformable_attention/problem.h"
#include "ops/nsa_compress/problem.h"
#include "support/test_tensor.h"

namespace aclgrad::test {
namespace {

using Bytes = std::vector<std::byte>;

// Random elements of a type. The values are whole multiples of 2^-10, so that every processor makes the same ones.
Bytes data(int64_t count, DataType type, double low, double high, uint32_t seed) {
  std::mt19937 engine(seed);
  Bytes bytes(static_cast<size_t>(count) * size_of(type));
  const auto steps = static_cast<uint32_t>((high - low) * 1024);
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(low + static_cast<double>(engine() % steps) / 1024);
    visit_float_type(type, [&]<class T>(T) {
      const T element = from_float<T>(value);
      std::memcpy(&bytes[static_cast<size_t>(i) * sizeof(T)], &element, sizeof(T));
    });
  }
  return bytes;
}

// Scratch memory on the boundary that the operators ask for.
class Workspace {
 public:
  explicit Workspace(size_t bytes) : memory_(bytes + 64) {}
  void* get() {
    void* first = memory_.data();
    size_t space = memory_.size();
    return std::align(64, memory_.size() - 64, first, space);
  }

 private:
  Bytes memory_;
};

Bytes zeros(int64_t count, DataType type) {
  return Bytes(static_cast<size_t>(count) * size_of(type));
}

// FNV-1a.
uint64_t hash(std::initializer_list<const Bytes*> results) {
  uint64_t value = 0xCBF29CE484222325u;
  for (const Bytes* bytes : results) {
    for (std::byte byte : *bytes) value = (value ^ static_cast<uint64_t>(byte)) * 0x100000001B3u;
  }
  return value;
}

uint64_t grouped_bias(DataType type) {
  const Bytes grad_y = data(1100 * 37, type, -5, 5, 1);
  Bytes out = zeros(2 * 37, type);
  const int64_t ends[] = {30, 1100};
  GroupedBiasAddGrad problem;
  problem.type = type;
  problem.kind = GroupedBiasAddGrad::Groups::ends;
  problem.groups = 2;
  problem.rows = 1100;
  problem.columns = problem.row_stride = 37;
  problem.grad_y = grad_y.data();
  problem.group_idx = {ends, DataType::int64};
  problem.out = out.data();
  Workspace workspace(workspace_size(problem));
  grouped_bias_add_grad(problem, workspace.get());
  return hash({&out});
}

uint64_t nsa(DataType type) {
  constexpr int64_t kTokens = 300, kHeads = 3, kChannels = 40;
  NsaCompressGrad problem;
  problem.type = type;
  problem.windows = {kTokens, 32, 16, nullptr, 0};
  problem.window_count = count_windows(problem.windows);
  problem.heads = kHeads;
  problem.channels = kChannels;
  const Bytes input = data(kTokens * kHeads * kChannels, type, -2, 2, 2);
  const Bytes weight = data(32 * kHeads, type, -1, 1, 3);
  const Bytes output_grad = data(problem.window_count * kHeads * kChannels, type, -2, 2, 4);
  Bytes input_grad = zeros(kTokens * kHeads * kChannels, type);
  Bytes weight_grad = zeros(32 * kHeads, type);
  Bytes output = zeros(problem.window_count * kHeads * kChannels, type);
  problem.output_grad = {output_grad.data(), kHeads * kChannels, kChannels};
  problem.input = {input.data(), kHeads * kChannels, kChannels};
  problem.weight = weight.data();
  problem.input_grad = {input_grad.data(), kHeads * kChannels, kChannels};
  problem.weight_grad = weight_grad.data();
  Workspace workspace(workspace_size(problem));
  nsa_compress_grad(problem, workspace.get());
  NsaCompress forward;
  forward.type = type;
  forward.windows = problem.windows;
  forward.window_count = problem.window_count;
  forward.heads = kHeads;
  forward.channels = kChannels;
  forward.input = problem.input;
  forward.weight = problem.weight;
  forward.output = {output.data(), kHeads * kChannels, kChannels};
  Workspace forward_workspace(workspace_size(forward));
  nsa_compress(forward, forward_workspace.get());
  return hash({&input_grad, &weight_grad, &output});
}

uint64_t attention(DataType type, int64_t channels) {
  constexpr int64_t kRows = 12 * 15 + 6 * 7, kHeads = 2, kQueries = 90, kPoints = 3;
  const int64_t shapes[] = {12, 15, 6, 7};
  const int64_t starts[] = {0, 12 * 15};
  const int64_t samples = kQueries * kHeads * 2 * kPoints;
  const Bytes value = data(kRows * kHeads * channels, type, -2, 2, 5);
  const Bytes location = data(samples * 2, type, -0.1, 1.1, 6);
  const Bytes weight = data(samples, type, 0, 1, 7);
  const Bytes grad_output = data(kQueries * kHeads * channels, type, -2, 2, 8);
  Bytes output = zeros(kQueries * kHeads * channels, type);
  Bytes grad_value = zeros(kRows * kHeads * channels, type);
  Bytes grad_location = zeros(samples * 2, type);
  Bytes grad_weight = zeros(samples, type);
  const auto describe = [&](MultiScaleDeformableSampling& sampling) {
    sampling.type = type;
    sampling.batches = 1;
    sampling.rows = kRows;
    sampling.heads = kHeads;
    sampling.channels = channels;
    sampling.queries = kQueries;
    sampling.levels = 2;
    sampling.points = kPoints;
    sampling.value = value.data();
    sampling.value_strides = BlockStrides::contiguous(kRows, kHeads, channels);
    sampling.spatial_shape = {shapes, DataType::int64};
    sampling.level_start_index = {starts, DataType::int64};
    sampling.location = location.data();
    sampling.location_strides = BlockStrides::contiguous(kQueries, kHeads, 2 * kPoints * 2);
    sampling.attention_weight = weight.data();
    sampling.attention_weight_strides = BlockStrides::contiguous(kQueries, kHeads, 2 * kPoints);
  };
  MultiScaleDeformableAttention forward;
  describe(forward);
  forward.output = output.data();
  forward.output_strides = BlockStrides::contiguous(kQueries, kHeads, channels);
  Workspace forward_workspace(workspace_size(forward));
  multi_scale_deformable_attention(forward, forward_workspace.get());
  MultiScaleDeformableAttentionGrad problem;
  describe(problem);
  problem.grad_output = grad_output.data();
  problem.grad_output_strides = forward.output_strides;
  problem.grad_value = grad_value.data();
  problem.grad_value_strides = problem.value_strides;
  problem.grad_location = grad_location.data();
  problem.grad_location_strides = problem.location_strides;
  problem.grad_attention_weight = grad_weight.data();
  problem.grad_attention_weight_strides = problem.attention_weight_strides;
  Workspace workspace(workspace_size(problem));
  multi_scale_deformable_attention_grad(problem, workspace.get());
  return hash({&output, &grad_value, &grad_location, &grad_weight});
}

// A point for each pixel, most of them next to the pixels of the point before.
Bytes smooth_grid(int64_t batch, int64_t height, int64_t width) {
  Bytes bytes = zeros(batch * height * width * 2, DataType::float32);
  auto* to = reinterpret_cast<float*>(bytes.data());
  for (int64_t point = 0; point < batch * height * width; ++point) {
    const auto row = static_cast<double>(point / width % height);
    const auto column = static_cast<double>(point % width);
    const double slant = (row - column) / 16;
    *to++ = static_cast<float>((2 * column + slant) / static_cast<double>(width) - 1);
    *to++ = static_cast<float>((2 * row - slant) / static_cast<double>(height) - 1);
  }
  return bytes;
}

struct ImageSizes {
  int64_t height, width, out_height, out_width;
};

uint64_t grid_sampling(DataType type, Interpolation interpolation, int64_t channels, const ImageSizes& sizes,
                       const Bytes& grid) {
  const int64_t height = sizes.height, width = sizes.width;
  const int64_t out_height = sizes.out_height, out_width = sizes.out_width;
  const Bytes input = data(2 * channels * height * width, type, -2, 2, 9);
  const Bytes grad_output = data(2 * channels * out_height * out_width, type, -2, 2, 11);
  Bytes output = zeros(2 * channels * out_height * out_width, type);
  Bytes input_grad = zeros(2 * channels * height * width, type);
  Bytes grid_grad = zeros(2 * out_height * out_width * 2, type);
  const GridSampling::Strides image_strides = {channels * height * width, height * width, width, 1};
  const GridSampling::Strides output_strides = {channels * out_height * out_width, out_height * out_width,
                                                out_width, 1};
  const auto describe = [&](GridSampling& sampling) {
    sampling.type = type;
    sampling.interpolation = interpolation;
    sampling.padding = Padding::reflection;
    sampling.batch = 2;
    sampling.channels = channels;
    sampling.height = height;
    sampling.width = width;
    sampling.output_height = out_height;
    sampling.output_width = out_width;
    sampling.input = input.data();
    sampling.input_strides = image_strides;
    sampling.grid = grid.data();
    sampling.grid_strides = {out_height * out_width * 2, out_width * 2, 2, 1};
  };
  GridSampler2D forward;
  describe(forward);
  forward.output = output.data();
  forward.output_strides = output_strides;
  Workspace forward_workspace(workspace_size(forward));
  grid_sampler_2d(forward, forward_workspace.get());
  GridSampler2DBackward problem;
  describe(problem);
  problem.grad_output = grad_output.data();
  problem.grad_output_strides = output_strides;
  problem.input_grad = input_grad.data();
  problem.input_grad_strides = image_strides;
  problem.grid_grad = grid_grad.data();
  problem.grid_grad_strides = problem.grid_strides;
  Workspace workspace(workspace_size(problem));
  grid_sampler_2d_backward(problem, workspace.get());
  return hash({&output, &input_grad, &grid_grad});
}

uint64_t grid_sampling(DataType type, Interpolation interpolation, int64_t channels) {
  const ImageSizes sizes = {11, 14, 9, 13};
  return grid_sampling(type, interpolation, channels, sizes,
                       data(2 * sizes.out_height * sizes.out_width * 2, type, -1.2, 1.2, 10));
}

uint64_t smooth_grid_sampling(Interpolation interpolation, int64_t channels) {
  const ImageSizes sizes = {20, 70, 20, 70};
  return grid_sampling(DataType::float32, interpolation, channels, sizes,
                       smooth_grid(2, sizes.height, sizes.width));
}

struct Known {
  const char* name;
  uint64_t (*run)();
  uint64_t hash;
};

constexpr DataType kFloat = DataType::float32;
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
};

bool has_fused_multiply_add(int64_t target) {
  return target == HWY_AVX2 || target == HWY_AVX3 || target == HWY_NEON;
}

TEST(Targets, GiveTheSameBits) {
  int tested = 0;
  const int64_t supported = hwy::SupportedTargets();
  for (int64_t target = 1; target != 0 && target <= supported; target <<= 1) {
    if ((supported & target) == 0 || !has_fused_multiply_add(target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    for (const Known& known : kKnown) {
      EXPECT_EQ(known.run(), known.hash) << known.name << " on " << hwy::TargetName(target);
    }
    ++tested;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  if (tested == 0) GTEST_SKIP() << "this processor has no fused multiply-add";
}

}  // namespace
}  // namespace aclgrad::test
