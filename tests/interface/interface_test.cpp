// The door of the C++ interface: every function looks at its problem before it computes, and refuses what no kernel can
// run on with the name of the field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "aclgrad/grid_sampler.h"
#include "aclgrad/grouped_bias_add.h"
#include "aclgrad/multi_scale_deformable_attention.h"
#include "aclgrad/nsa_compress.h"

namespace aclgrad::test {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

void expect_refused(const std::string& operator_name, const std::string& field,
                    const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << operator_name << " takes a wrong " << field;
  } catch (const std::invalid_argument& error) {
    const std::string start = operator_name + "." + field + ": expected ";
    EXPECT_THAT(error.what(), testing::StartsWith(start));
    EXPECT_THAT(error.what(), testing::HasSubstr(", got "));
  } catch (const std::exception& error) {
    ADD_FAILURE() << operator_name << " with a wrong " << field << ": " << error.what();
  }
}

template <class Problem>
struct Mistake {
  const char* field;
  void (*make)(Problem&);
};

// That the problem is right, and wrong with any of the mistakes. Those in `sizes` leave no workspace to speak of.
template <class Problem>
void expect_checked(const std::string& operator_name, void (*run)(const Problem&, const WorkspaceView&),
                    void (*run_on_gpu)(const Problem&, const WorkspaceView&, const CudaLaunch&),
                    const Problem& right, const std::vector<Mistake<Problem>>& sizes,
                    const std::vector<Mistake<Problem>>& tensors) {
  const size_t bytes = workspace_size(right);
  const Workspace memory(bytes);
  const WorkspaceView workspace = memory;
  for (const Mistake<Problem>& mistake : sizes) {
    Problem wrong = right;
    mistake.make(wrong);
    expect_refused(operator_name, mistake.field, [&] { workspace_size(wrong); });
    expect_refused(operator_name, mistake.field, [&] { cuda::workspace_size(wrong, {}); });
    expect_refused(operator_name, mistake.field, [&] { run(wrong, workspace); });
    expect_refused(operator_name, mistake.field, [&] { run_on_gpu(wrong, workspace, {}); });
  }
  for (const Mistake<Problem>& mistake : tensors) {
    Problem wrong = right;
    mistake.make(wrong);
    EXPECT_EQ(workspace_size(wrong), bytes) << mistake.field;
    expect_refused(operator_name, mistake.field, [&] { run(wrong, workspace); });
    expect_refused(operator_name, mistake.field, [&] { run_on_gpu(wrong, workspace, {}); });
  }
  if (bytes > 0) {
    expect_refused(operator_name, "workspace.bytes", [&] { run(right, {workspace.data, bytes - 1}); });
    expect_refused(operator_name, "workspace.data", [&] { run(right, {nullptr, bytes}); });
    expect_refused(operator_name, "workspace.data", [&] {
      run(right, {static_cast<std::byte*>(workspace.data) + 8, bytes});
    });
  }
  EXPECT_NO_THROW(run(right, workspace));
}

// Memory of a tensor, long enough for all problems here.
struct Elements {
  alignas(64) float values[4096] = {};
};

void* unaligned(const void* address) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(address)) + 1;
}

// ---- Grid sampler

Elements input, grid, grad_output, output, grad_input, grad_grid;

template <class Problem>
Problem sampling() {
  Problem problem;
  problem.input = {input.values, {2, 3, 4, 5}};
  problem.grid = {grid.values, {2, 6, 7, 2}};
  return problem;
}

// With extents of 0, and without addresses.
template <class Problem>
Problem empty_sampling() {
  Problem problem;
  problem.input = {nullptr, DataType::float32, {0, 0, 0, 0}};
  problem.grid = {nullptr, DataType::float32, {0, 0, 0, 2}};
  return problem;
}

template <class Problem>
std::vector<Mistake<Problem>> wrong_sampling_sizes() {
  return {
      {"input.type", [](Problem& p) { p.input.type = DataType::int32; }},
      {"input.type", [](Problem& p) { p.input.type = static_cast<DataType>(-77); }},
      {"interpolation", [](Problem& p) { p.interpolation = static_cast<Interpolation>(3); }},
      {"padding", [](Problem& p) { p.padding = static_cast<Padding>(-1); }},
      {"input.shape", [](Problem& p) { p.input = {}; }},
      {"input.shape", [](Problem& p) { p.input.shape[0] = p.input.shape[1] = int64_t{1} << 40; }},
      {"input.shape", [](Problem& p) { p.input.shape[1] = kHuge; }},
      {"input.shape[0]", [](Problem& p) { p.input.shape[0] = -1; }},
      {"input.shape[2]", [](Problem& p) { p.input.shape[2] = -4; }},
      {"input.shape[3]", [](Problem& p) { p.input.shape[3] = int64_t{1} << 30; }},
      {"input.strides", [](Problem& p) { p.input.strides = {1}; }},
      {"input.strides[0]", [](Problem& p) { p.input.strides[0] = -60; }},
      {"input.strides[3]", [](Problem& p) { p.input.strides[3] = kHuge; }},
      {"grid.type", [](Problem& p) { p.grid.type = DataType::float16; }},
      {"grid.shape", [](Problem& p) { p.grid.shape[1] = p.grid.shape[2] = int64_t{1} << 40; }},
      {"grid.shape",
       [](Problem& p) {
         p.grid.shape = {2, 42, 2};
       }},
      {"grid.shape[0]", [](Problem& p) { p.grid.shape[0] = 3; }},
      {"grid.shape[1]", [](Problem& p) { p.grid.shape[1] = -6; }},
      {"grid.shape[2]", [](Problem& p) { p.grid.shape[2] = -7; }},
      {"grid.shape[3]", [](Problem& p) { p.grid.shape[3] = 3; }},
      {"grid.strides[1]", [](Problem& p) { p.grid.strides[1] = -1; }},
  };
}

template <class Problem>
std::vector<Mistake<Problem>> wrong_sampled_tensors() {
  return {
      {"input.data", [](Problem& p) { p.input.data = nullptr; }},
      {"input.data", [](Problem& p) { p.input.data = unaligned(p.input.data); }},
      {"grid.data", [](Problem& p) { p.grid.data = nullptr; }},
  };
}

TEST(CppInterface, ChecksGridSampler2D) {
  using P = GridSampler2D;
  auto problem = sampling<P>();
  problem.output = {output.values, {2, 3, 6, 7}};
  auto sizes = wrong_sampling_sizes<P>();
  sizes.push_back({"input.shape[2]", [](P& p) { p.input.shape[2] = 0; }});
  sizes.push_back({"input.shape[3]", [](P& p) { p.input.shape[3] = 0; }});
  sizes.push_back({"output.type", [](P& p) { p.output.type = DataType::float64; }});
  sizes.push_back({"output.shape", [](P& p) { p.output = {}; }});
  sizes.push_back({"output.shape[1]", [](P& p) { p.output.shape[1] = int64_t{1} << 40; }});
  sizes.push_back({"output.strides[1]", [](P& p) { p.output.strides[1] = 0; }});
  auto tensors = wrong_sampled_tensors<P>();
  tensors.push_back({"output.data", [](P& p) { p.output.data = nullptr; }});
  expect_checked("grid_sampler_2d", grid_sampler_2d, cuda::grid_sampler_2d, problem, sizes, tensors);

  auto empty = empty_sampling<P>();
  empty.output = {nullptr, DataType::float32, {0, 0, 0, 0}};
  EXPECT_EQ(workspace_size(empty), 0u);
  EXPECT_NO_THROW(grid_sampler_2d(empty, {}));
}

TEST(CppInterface, ChecksGridSampler2DBackward) {
  using P = GridSampler2DBackward;
  auto problem = sampling<P>();
  problem.grad_output = {grad_output.values, {2, 3, 6, 7}};
  problem.grad_input = {grad_input.values, problem.input.shape};
  problem.grad_grid = {grad_grid.values, problem.grid.shape};
  auto sizes = wrong_sampling_sizes<P>();
  sizes.push_back({"grad_output.shape[2]", [](P& p) { p.grad_output.shape[2] = 5; }});
  sizes.push_back({"grad_output.strides[2]", [](P& p) { p.grad_output.strides[2] = -7; }});
  sizes.push_back({"grad_input.type", [](P& p) { p.grad_input.type = DataType::float64; }});
  sizes.push_back({"grad_input.shape[1]", [](P& p) { p.grad_input.shape[1] = 4; }});
  sizes.push_back({"grad_input.strides[0]", [](P& p) { p.grad_input.strides[0] = 0; }});
  sizes.push_back({"grad_grid.shape[3]", [](P& p) { p.grad_grid.shape[3] = 1; }});
  sizes.push_back({"grad_grid.strides[3]", [](P& p) { p.grad_grid.strides[3] = 0; }});
  auto tensors = wrong_sampled_tensors<P>();
  tensors.push_back({"grad_output.data", [](P& p) { p.grad_output.data = unaligned(p.grad_output.data); }});
  tensors.push_back({"grad_input.data", [](P& p) { p.grad_input.data = nullptr; }});
  tensors.push_back({"grad_grid.data", [](P& p) { p.grad_grid.data = nullptr; }});
  expect_checked("grid_sampler_2d_backward", grid_sampler_2d_backward, cuda::grid_sampler_2d_backward,
                 problem, sizes, tensors);

  problem.grad_input = problem.grad_grid = {};
  EXPECT_NO_THROW(grid_sampler_2d_backward(problem, {}));
  auto empty = empty_sampling<P>();
  empty.grad_output = {nullptr, DataType::float32, {0, 0, 0, 0}};
  EXPECT_EQ(workspace_size(empty), 0u);
  EXPECT_NO_THROW(grid_sampler_2d_backward(empty, {}));
}

// ---- Grid sampler of volumes

template <class Problem>
Problem volume_sampling() {
  Problem problem;
  problem.input = {input.values, {2, 3, 2, 4, 5}};
  problem.grid = {grid.values, {2, 3, 2, 7, 3}};
  return problem;
}

template <class Problem>
std::vector<Mistake<Problem>> wrong_volume_sizes() {
  return {
      {"input.type", [](Problem& p) { p.input.type = DataType::int32; }},
      {"input.shape",
       [](Problem& p) {
         p.input.shape = {2, 3, 4, 5};
       }},
      {"input.shape", [](Problem& p) { p.input.shape[0] = p.input.shape[1] = int64_t{1} << 40; }},
      {"input.shape[0]", [](Problem& p) { p.input.shape[0] = -1; }},
      {"input.shape[2]", [](Problem& p) { p.input.shape[2] = int64_t{1} << 30; }},
      {"input.shape[3]", [](Problem& p) { p.input.shape[3] = -4; }},
      {"input.shape[4]", [](Problem& p) { p.input.shape[4] = int64_t{1} << 30; }},
      {"input.strides[4]", [](Problem& p) { p.input.strides[4] = kHuge; }},
      {"interpolation", [](Problem& p) { p.interpolation = Interpolation::bicubic; }},
      {"padding", [](Problem& p) { p.padding = static_cast<Padding>(3); }},
      {"grid.type", [](Problem& p) { p.grid.type = DataType::float16; }},
      {"grid.shape", [](Problem& p) { p.grid.shape[1] = p.grid.shape[3] = int64_t{1} << 40; }},
      {"grid.shape[0]", [](Problem& p) { p.grid.shape[0] = 1; }},
      {"grid.shape[1]", [](Problem& p) { p.grid.shape[1] = -3; }},
      {"grid.shape[4]", [](Problem& p) { p.grid.shape[4] = 2; }},
      {"grid.strides[1]", [](Problem& p) { p.grid.strides[1] = -1; }},
  };
}

TEST(CppInterface, ChecksGridSampler3D) {
  using P = GridSampler3D;
  auto problem = volume_sampling<P>();
  problem.output = {output.values, {2, 3, 3, 2, 7}};
  auto sizes = wrong_volume_sizes<P>();
  sizes.push_back({"input.shape[2]", [](P& p) { p.input.shape[2] = 0; }});
  sizes.push_back({"input.shape[4]", [](P& p) { p.input.shape[4] = 0; }});
  sizes.push_back({"output.shape[2]", [](P& p) { p.output.shape[2] = 2; }});
  sizes.push_back({"output.strides[1]", [](P& p) { p.output.strides[1] = 0; }});
  auto tensors = wrong_sampled_tensors<P>();
  tensors.push_back({"output.data", [](P& p) { p.output.data = nullptr; }});
  expect_checked("grid_sampler_3d", grid_sampler_3d, cuda::grid_sampler_3d, problem, sizes, tensors);

  P empty;
  empty.output = {nullptr, DataType::float32, {0, 0, 0, 0, 0}};
  empty.input = empty.output;
  empty.grid = {nullptr, DataType::float32, {0, 0, 0, 0, 3}};
  EXPECT_EQ(workspace_size(empty), 0u);
  EXPECT_NO_THROW(grid_sampler_3d(empty, {}));
}

TEST(CppInterface, ChecksGridSampler3DBackward) {
  using P = GridSampler3DBackward;
  auto problem = volume_sampling<P>();
  problem.grad_output = {grad_output.values, {2, 3, 3, 2, 7}};
  problem.grad_input = {grad_input.values, problem.input.shape};
  problem.grad_grid = {grad_grid.values, problem.grid.shape};
  auto sizes = wrong_volume_sizes<P>();
  sizes.push_back({"grad_output.strides[2]", [](P& p) { p.grad_output.strides[2] = -7; }});
  sizes.push_back({"grad_input.shape[2]", [](P& p) { p.grad_input.shape[2] = 3; }});
  sizes.push_back({"grad_input.strides[0]", [](P& p) { p.grad_input.strides[0] = 0; }});
  sizes.push_back({"grad_grid.strides[4]", [](P& p) { p.grad_grid.strides[4] = 0; }});
  auto tensors = wrong_sampled_tensors<P>();
  tensors.push_back({"grad_output.data", [](P& p) { p.grad_output.data = unaligned(p.grad_output.data); }});
  tensors.push_back({"grad_input.data", [](P& p) { p.grad_input.data = nullptr; }});
  tensors.push_back({"grad_grid.data", [](P& p) { p.grad_grid.data = nullptr; }});
  expect_checked("grid_sampler_3d_backward", grid_sampler_3d_backward, cuda::grid_sampler_3d_backward,
                 problem, sizes, tensors);

  problem.grad_input = problem.grad_grid = {};
  EXPECT_NO_THROW(grid_sampler_3d_backward(problem, {}));
  P empty;
  empty.input = empty.grad_output = {nullptr, DataType::float32, {0, 0, 0, 0, 0}};
  empty.grid = {nullptr, DataType::float32, {0, 0, 0, 0, 3}};
  EXPECT_EQ(workspace_size(empty), 0u);
  EXPECT_NO_THROW(grid_sampler_3d_backward(empty, {}));
}

// ---- Multi-scale deformable attention

Elements value, locations, weights, grad_value, grad_locations, grad_weights;
int64_t spatial_shapes[] = {3, 4, 1, 2};
int32_t level_start_index[] = {0, 12};

template <class Problem>
Problem attention() {
  Problem problem;
  problem.value = {value.values, {2, 14, 3, 8}};
  problem.spatial_shapes = {spatial_shapes, {2, 2}};
  problem.level_start_index = {level_start_index, {2}};
  problem.sampling_locations = {locations.values, {2, 5, 3, 2, 4, 2}};
  problem.attention_weights = {weights.values, {2, 5, 3, 2, 4}};
  return problem;
}

template <class Problem>
std::vector<Mistake<Problem>> wrong_attention_sizes() {
  return {
      {"value.type", [](Problem& p) { p.value.type = DataType::int64; }},
      {"value.shape", [](Problem& p) { p.value = {}; }},
      {"value.shape", [](Problem& p) { p.value.shape[1] = p.value.shape[3] = int64_t{1} << 40; }},
      {"value.shape[0]", [](Problem& p) { p.value.shape[0] = 0; }},
      {"value.shape[1]", [](Problem& p) { p.value.shape[1] = -14; }},
      {"value.shape[2]", [](Problem& p) { p.value.shape[2] = 0; }},
      {"value.shape[3]", [](Problem& p) { p.value.shape[3] = 0; }},
      {"value.strides[0]", [](Problem& p) { p.value.strides[0] = -1; }},
      {"value.strides[2]", [](Problem& p) { p.value.strides[2] = kHuge; }},
      {"value.strides[3]", [](Problem& p) { p.value.strides[3] = 2; }},
      {"spatial_shapes.type", [](Problem& p) { p.spatial_shapes.type = DataType::float32; }},
      {"spatial_shapes.shape[0]", [](Problem& p) { p.spatial_shapes.shape[0] = 3; }},
      {"spatial_shapes.shape[1]", [](Problem& p) { p.spatial_shapes.shape[1] = 1; }},
      {"level_start_index.type", [](Problem& p) { p.level_start_index.type = DataType::float64; }},
      {"level_start_index.shape[0]", [](Problem& p) { p.level_start_index.shape[0] = 1; }},
      {"level_start_index.strides[0]", [](Problem& p) { p.level_start_index.strides[0] = 2; }},
      {"sampling_locations.type", [](Problem& p) { p.sampling_locations.type = DataType::float16; }},
      {"sampling_locations.shape",
       [](Problem& p) {
         p.sampling_locations.shape = {2, 5, 3, 8, 2};
       }},
      {"sampling_locations.shape", [](Problem& p) { p.sampling_locations.shape[1] = kHuge; }},
      {"sampling_locations.shape",
       [](Problem& p) { p.sampling_locations.shape[3] = p.sampling_locations.shape[4] = int64_t{1} << 30; }},
      {"sampling_locations.shape[0]", [](Problem& p) { p.sampling_locations.shape[0] = 1; }},
      {"sampling_locations.shape[1]", [](Problem& p) { p.sampling_locations.shape[1] = 0; }},
      {"sampling_locations.shape[3]", [](Problem& p) { p.sampling_locations.shape[3] = 0; }},
      {"sampling_locations.shape[4]", [](Problem& p) { p.sampling_locations.shape[4] = -1; }},
      {"sampling_locations.shape[5]", [](Problem& p) { p.sampling_locations.shape[5] = 3; }},
      {"sampling_locations.strides[1]", [](Problem& p) { p.sampling_locations.strides[1] = -48; }},
      {"sampling_locations.strides[3]", [](Problem& p) { p.sampling_locations.strides[3] = 16; }},
      {"attention_weights.shape[4]", [](Problem& p) { p.attention_weights.shape[4] = 3; }},
      {"attention_weights.strides[1]", [](Problem& p) { p.attention_weights.strides[1] = -48; }},
  };
}

template <class Problem>
std::vector<Mistake<Problem>> wrong_attention_tensors() {
  return {
      {"value.data", [](Problem& p) { p.value.data = nullptr; }},
      {"spatial_shapes.data", [](Problem& p) { p.spatial_shapes.data = nullptr; }},
      {"level_start_index.data", [](Problem& p) { p.level_start_index.data = unaligned(level_start_index); }},
      {"sampling_locations.data",
       [](Problem& p) { p.sampling_locations.data = unaligned(p.sampling_locations.data); }},
      {"attention_weights.data", [](Problem& p) { p.attention_weights.data = nullptr; }},
  };
}

TEST(CppInterface, ChecksMultiScaleDeformableAttention) {
  using P = MultiScaleDeformableAttention;
  auto problem = attention<P>();
  problem.output = {output.values, {2, 5, 3, 8}};
  auto sizes = wrong_attention_sizes<P>();
  sizes.push_back({"output.shape", [](P& p) { p.output = {}; }});
  sizes.push_back({"output.shape[1]", [](P& p) { p.output.shape[1] = 6; }});
  sizes.push_back({"output.strides[2]", [](P& p) { p.output.strides[2] = 0; }});
  auto tensors = wrong_attention_tensors<P>();
  tensors.push_back({"output.data", [](P& p) { p.output.data = nullptr; }});
  expect_checked("multi_scale_deformable_attention", multi_scale_deformable_attention,
                 cuda::multi_scale_deformable_attention, problem, sizes, tensors);
}

TEST(CppInterface, ChecksMultiScaleDeformableAttentionBackward) {
  using P = MultiScaleDeformableAttentionBackward;
  auto problem = attention<P>();
  problem.grad_output = {grad_output.values, {2, 5, 3, 8}};
  problem.grad_value = {grad_value.values, problem.value.shape};
  problem.grad_sampling_locations = {grad_locations.values, problem.sampling_locations.shape};
  problem.grad_attention_weights = {grad_weights.values, problem.attention_weights.shape};
  auto sizes = wrong_attention_sizes<P>();
  sizes.push_back({"grad_output.shape[3]", [](P& p) { p.grad_output.shape[3] = 9; }});
  sizes.push_back({"grad_output.strides[0]", [](P& p) { p.grad_output.strides[0] = -1; }});
  sizes.push_back({"grad_value.type", [](P& p) { p.grad_value.type = DataType::bfloat16; }});
  sizes.push_back({"grad_value.shape[1]", [](P& p) { p.grad_value.shape[1] = 13; }});
  sizes.push_back({"grad_value.strides[1]", [](P& p) { p.grad_value.strides[1] = 0; }});
  sizes.push_back(
      {"grad_sampling_locations.strides[0]", [](P& p) { p.grad_sampling_locations.strides[0] = 0; }});
  sizes.push_back(
      {"grad_attention_weights.strides[2]", [](P& p) { p.grad_attention_weights.strides[2] = -8; }});
  auto tensors = wrong_attention_tensors<P>();
  tensors.push_back({"grad_output.data", [](P& p) { p.grad_output.data = nullptr; }});
  tensors.push_back({"grad_value.data", [](P& p) { p.grad_value.data = nullptr; }});
  tensors.push_back({"grad_sampling_locations.data", [](P& p) { p.grad_sampling_locations.data = nullptr; }});
  tensors.push_back({"grad_attention_weights.data", [](P& p) { p.grad_attention_weights.data = nullptr; }});
  expect_checked("multi_scale_deformable_attention_backward", multi_scale_deformable_attention_backward,
                 cuda::multi_scale_deformable_attention_backward, problem, sizes, tensors);
}

// ---- NSA compress

Elements tokens, token_grad, weight, weight_grad, windows, window_grad;
const int64_t right_ends[] = {9, 20};
const int64_t falling_ends[] = {21, 20};

template <class Problem>
Problem compression() {
  Problem problem;
  problem.input = {tokens.values, {20, 3, 16}};
  problem.weight = {weight.values, {4, 3}};
  problem.stride = 2;
  problem.sequence_ends = {right_ends, {2}};
  EXPECT_EQ(count_windows(problem), 3 + 4);
  return problem;
}

// Of them, the ends are looked at where windows are counted, too.
template <class Problem>
std::vector<Mistake<Problem>> wrong_compression_sizes() {
  return {
      {"input.type", [](Problem& p) { p.input.type = DataType::float64; }},
      {"input.shape", [](Problem& p) { p.input = {}; }},
      {"input.shape", [](Problem& p) { p.input.shape[0] = p.input.shape[2] = int64_t{1} << 40; }},
      {"input.shape[0]", [](Problem& p) { p.input.shape[0] = -1; }},
      {"input.shape[1]", [](Problem& p) { p.input.shape[1] = -3; }},
      {"input.shape[2]", [](Problem& p) { p.input.shape[2] = -16; }},
      {"input.strides[0]", [](Problem& p) { p.input.strides[0] = -48; }},
      {"input.strides[1]", [](Problem& p) { p.input.strides[1] = kHuge; }},
      {"input.strides[2]", [](Problem& p) { p.input.strides[2] = 2; }},
      {"weight.type", [](Problem& p) { p.weight.type = DataType::float16; }},
      {"weight.shape", [](Problem& p) { p.weight.shape = {3}; }},
      {"weight.shape[0]", [](Problem& p) { p.weight.shape[0] = 0; }},
      {"weight.shape[1]", [](Problem& p) { p.weight.shape[1] = 4; }},
      {"weight.strides[0]", [](Problem& p) { p.weight.strides[0] = 4; }},
      {"stride", [](Problem& p) { p.stride = 0; }},
      {"sequence_ends.type", [](Problem& p) { p.sequence_ends.type = DataType::int32; }},
      {"sequence_ends.shape[0]", [](Problem& p) { p.sequence_ends.shape[0] = -2; }},
      {"sequence_ends.strides[0]", [](Problem& p) { p.sequence_ends.strides[0] = 2; }},
  };
}

template <class Problem>
std::vector<Mistake<Problem>> wrong_compression_tensors() {
  return {
      {"sequence_ends.data", [](Problem& p) { p.sequence_ends.data = nullptr; }},
      {"sequence_ends", [](Problem& p) { p.sequence_ends.data = falling_ends; }},
      {"input.data", [](Problem& p) { p.input.data = nullptr; }},
      {"weight.data", [](Problem& p) { p.weight.data = unaligned(p.weight.data); }},
  };
}

TEST(CppInterface, ChecksNsaCompress) {
  using P = NsaCompress;
  auto problem = compression<P>();
  problem.output = {windows.values, {7, 3, 16}};
  auto sizes = wrong_compression_sizes<P>();
  sizes.push_back({"output.type", [](P& p) { p.output.type = DataType::bfloat16; }});
  sizes.push_back({"output.shape", [](P& p) { p.output = {}; }});
  sizes.push_back({"output.shape", [](P& p) { p.output.shape[0] = int64_t{1} << 60; }});
  sizes.push_back({"output.shape[0]", [](P& p) { p.output.shape[0] = -1; }});
  sizes.push_back({"output.shape[2]", [](P& p) { p.output.shape[2] = 15; }});
  sizes.push_back({"output.strides[0]", [](P& p) { p.output.strides[0] = 0; }});
  auto tensors = wrong_compression_tensors<P>();
  tensors.push_back({"output.data", [](P& p) { p.output.data = nullptr; }});
  expect_checked("nsa_compress", nsa_compress, cuda::nsa_compress, problem, sizes, tensors);

  ++problem.output.shape[0];
  expect_refused("nsa_compress", "output.shape[0]",
                 [&] { nsa_compress(problem, Workspace(workspace_size(problem))); });
}

TEST(CppInterface, ChecksNsaCompressBackward) {
  using P = NsaCompressBackward;
  auto problem = compression<P>();
  problem.grad_output = {window_grad.values, {7, 3, 16}};
  problem.grad_input = {token_grad.values, {20, 3, 16}};
  problem.grad_weight = {weight_grad.values, {4, 3}};
  auto sizes = wrong_compression_sizes<P>();
  sizes.push_back({"grad_output.shape[1]", [](P& p) { p.grad_output.shape[1] = 2; }});
  sizes.push_back({"grad_output.strides[1]", [](P& p) { p.grad_output.strides[1] = -16; }});
  sizes.push_back({"grad_input.type", [](P& p) { p.grad_input.type = DataType::float16; }});
  sizes.push_back({"grad_input.shape[0]", [](P& p) { p.grad_input.shape[0] = 21; }});
  sizes.push_back({"grad_input.strides[1]", [](P& p) { p.grad_input.strides[1] = 0; }});
  sizes.push_back({"grad_weight.shape[0]", [](P& p) { p.grad_weight.shape[0] = 5; }});
  sizes.push_back({"grad_weight.strides[0]", [](P& p) { p.grad_weight.strides[0] = 4; }});
  auto tensors = wrong_compression_tensors<P>();
  tensors.push_back({"grad_output.data", [](P& p) { p.grad_output.data = nullptr; }});
  tensors.push_back({"grad_input.data", [](P& p) { p.grad_input.data = unaligned(p.grad_input.data); }});
  tensors.push_back({"grad_weight.data", [](P& p) { p.grad_weight.data = nullptr; }});
  expect_checked("nsa_compress_backward", nsa_compress_backward, cuda::nsa_compress_backward, problem, sizes,
                 tensors);

  auto longer = problem;
  ++longer.grad_output.shape[0];
  expect_refused("nsa_compress_backward", "grad_output.shape[0]",
                 [&] { nsa_compress_backward(longer, Workspace(workspace_size(longer))); });

  // Without the gradient of the weights, no element of the input is read.
  problem.grad_weight = {};
  problem.input.data = nullptr;
  EXPECT_NO_THROW(nsa_compress_backward(problem, Workspace(workspace_size(problem))));
}

TEST(CppInterface, ChecksCountWindows) {
  const auto refused = [](const char* field, void (*make)(NsaCompression&)) {
    auto wrong = compression<NsaCompression>();
    make(wrong);
    expect_refused("count_windows", field, [&] { count_windows(wrong); });
  };
  using P = NsaCompression;
  refused("input.shape", [](P& p) { p.input = {}; });
  refused("input.shape[0]", [](P& p) { p.input.shape[0] = -1; });
  refused("weight.shape[0]", [](P& p) { p.weight.shape[0] = 0; });
  refused("stride", [](P& p) { p.stride = 0; });
  refused("sequence_ends.shape[0]", [](P& p) { p.sequence_ends.shape[0] = -1; });
  refused("sequence_ends.data", [](P& p) { p.sequence_ends.data = nullptr; });
  refused("sequence_ends", [](P& p) { p.sequence_ends.data = falling_ends; });
  auto every_token = compression<NsaCompression>();
  every_token.weight.shape[0] = every_token.stride = 1;
  EXPECT_EQ(count_windows(every_token), 20);
}

// ---- Grouped bias-add

Elements of_rows, of_groups;
const int32_t ends[] = {3, 7};

TEST(CppInterface, ChecksGroupedBiasAddBackward) {
  using P = GroupedBiasAddBackward;
  P problem;
  problem.grad_output = {of_rows.values, {7, 5}};
  problem.group_idx = {ends, {2}};
  problem.grad_bias = {of_groups.values, {2, 5}};
  const std::vector<Mistake<P>> sizes = {
      {"grad_output.type", [](P& p) { p.grad_output.type = DataType::float64; }},
      {"grad_output.shape", [](P& p) { p.grad_output = {}; }},
      {"grad_output.strides", [](P& p) { p.grad_output.strides = {}; }},
      {"grad_bias.type", [](P& p) { p.grad_bias.type = DataType::bfloat16; }},
      {"grad_bias.shape", [](P& p) { p.grad_bias = {}; }},
      {"grad_bias.shape",
       [](P& p) {
         p.grad_bias.shape = {int64_t{1} << 30, int64_t{1} << 30};
       }},
      {"grad_bias.shape[0]", [](P& p) { p.grad_bias.shape[0] = -1; }},
      {"grad_bias.shape[1]", [](P& p) { p.grad_bias.shape[1] = -4; }},
      {"grad_bias.strides[0]", [](P& p) { p.grad_bias.strides[0] = 6; }},
  };
  const std::vector<Mistake<P>> tensors = {
      {"grad_output.data", [](P& p) { p.grad_output.data = nullptr; }},
      {"grad_output.data", [](P& p) { p.grad_output.data = unaligned(p.grad_output.data); }},
      {"grad_bias.data", [](P& p) { p.grad_bias.data = nullptr; }},
  };
  std::vector<Mistake<P>> grouped_sizes = sizes, grouped_tensors = tensors;
  for (const Mistake<P>& mistake : std::vector<Mistake<P>>{
           {"kind", [](P& p) { p.kind = static_cast<GroupKind>(2); }},
           {"grad_output.shape", [](P& p) { p.grad_output.shape[0] = kHuge; }},
           {"grad_output.shape[1]", [](P& p) { p.grad_output.shape[1] = 4; }},
           {"grad_output.strides[0]", [](P& p) { p.grad_output.strides[0] = -5; }},
           {"grad_output.strides[0]", [](P& p) { p.grad_output.strides[0] = kHuge; }},
           {"grad_output.strides[0]", [](P& p) { p.grad_output.strides[0] = int64_t{1} << 52; }},
           {"grad_output.strides[1]", [](P& p) { p.grad_output.strides[1] = 2; }},
           {"group_idx.shape[0]", [](P& p) { p.group_idx.shape[0] = 3; }},
           {"group_idx.type", [](P& p) { p.group_idx.type = DataType::bfloat16; }},
           {"group_idx.strides[0]", [](P& p) { p.group_idx.strides[0] = 2; }},
       })
    grouped_sizes.push_back(mistake);
  grouped_tensors.push_back({"group_idx.data", [](P& p) { p.group_idx.data = nullptr; }});
  expect_checked("grouped_bias_add_backward", grouped_bias_add_backward, cuda::grouped_bias_add_backward,
                 problem, grouped_sizes, grouped_tensors);

  problem.group_idx = {};
  problem.grad_output = {of_rows.values, {2, 7, 5}};
  std::vector<Mistake<P>> equal_sizes = sizes;
  equal_sizes.push_back({"grad_output.shape", [](P& p) { p.grad_output.shape[1] = kHuge; }});
  equal_sizes.push_back({"grad_output.shape[0]", [](P& p) { p.grad_output.shape[0] = 3; }});
  equal_sizes.push_back({"grad_output.strides[0]", [](P& p) { p.grad_output.strides[0] = -35; }});
  equal_sizes.push_back({"grad_output.strides[1]", [](P& p) { p.grad_output.strides[1] = -5; }});
  expect_checked("grouped_bias_add_backward", grouped_bias_add_backward, cuda::grouped_bias_add_backward,
                 problem, equal_sizes, tensors);
}

}  // namespace
}  // namespace aclgrad::test
