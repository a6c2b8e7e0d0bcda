// The door of the C++ interface: every function looks at its problem before it computes, and refuses what no kernel can
// run on with the name of the field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/grid_sampler/problem.h"
#include "ops/grouped_bias_add/problem.h"
#include "ops/multi_scale_deformable_attention/problem.h"
#include "ops/nsa_compress/problem.h"
#include "support/workspace.h"

namespace aclgrad::test {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

// One name for the functions of all operators.
void run(const GridSampler2D& problem, void* workspace) {
  grid_sampler_2d(problem, workspace);
}
void run(const GridSampler2DBackward& problem, void* workspace) {
  grid_sampler_2d_backward(problem, workspace);
}
void run(const GridSampler3D& problem, void* workspace) {
  grid_sampler_3d(problem, workspace);
}
void run(const GridSampler3DBackward& problem, void* workspace) {
  grid_sampler_3d_backward(problem, workspace);
}
void run(const MultiScaleDeformableAttention& problem, void* workspace) {
  multi_scale_deformable_attention(problem, workspace);
}
void run(const MultiScaleDeformableAttentionGrad& problem, void* workspace) {
  multi_scale_deformable_attention_grad(problem, workspace);
}
void run(const NsaCompress& problem, void* workspace) {
  nsa_compress(problem, workspace);
}
void run(const NsaCompressGrad& problem, void* workspace) {
  nsa_compress_grad(problem, workspace);
}
void run(const GroupedBiasAddGrad& problem, void* workspace) {
  grouped_bias_add_grad(problem, workspace);
}

void run_on_gpu(const GridSampler2D& problem, void* workspace) {
  cuda::grid_sampler_2d(problem, workspace, {});
}
void run_on_gpu(const GridSampler2DBackward& problem, void* workspace) {
  cuda::grid_sampler_2d_backward(problem, workspace, {});
}
void run_on_gpu(const GridSampler3D& problem, void* workspace) {
  cuda::grid_sampler_3d(problem, workspace, {});
}
void run_on_gpu(const GridSampler3DBackward& problem, void* workspace) {
  cuda::grid_sampler_3d_backward(problem, workspace, {});
}
void run_on_gpu(const MultiScaleDeformableAttention& problem, void* workspace) {
  cuda::multi_scale_deformable_attention(problem, workspace, {});
}
void run_on_gpu(const MultiScaleDeformableAttentionGrad& problem, void* workspace) {
  cuda::multi_scale_deformable_attention_grad(problem, workspace, {});
}
void run_on_gpu(const NsaCompress& problem, void* workspace) {
  cuda::nsa_compress(problem, workspace, {});
}
void run_on_gpu(const NsaCompressGrad& problem, void* workspace) {
  cuda::nsa_compress_grad(problem, workspace, {});
}
void run_on_gpu(const GroupedBiasAddGrad& problem, void* workspace) {
  cuda::grouped_bias_add_grad(problem, workspace, {});
}

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
void expect_checked(const std::string& operator_name, const Problem& right,
                    const std::vector<Mistake<Problem>>& sizes,
                    const std::vector<Mistake<Problem>>& tensors) {
  Workspace workspace(workspace_size(right));
  EXPECT_GE(serial_nanoseconds(right), 0);
  for (const Mistake<Problem>& mistake : sizes) {
    Problem wrong = right;
    mistake.make(wrong);
    expect_refused(operator_name, mistake.field, [&] { workspace_size(wrong); });
    expect_refused(operator_name, mistake.field, [&] { serial_nanoseconds(wrong); });
    expect_refused(operator_name, mistake.field, [&] { cuda::workspace_size(wrong, {}); });
    expect_refused(operator_name, mistake.field, [&] { run(wrong, workspace.data()); });
    expect_refused(operator_name, mistake.field, [&] { run_on_gpu(wrong, workspace.data()); });
  }
  for (const Mistake<Problem>& mistake : tensors) {
    Problem wrong = right;
    mistake.make(wrong);
    EXPECT_EQ(workspace_size(wrong), workspace_size(right)) << mistake.field;
    expect_refused(operator_name, mistake.field, [&] { run(wrong, workspace.data()); });
    expect_refused(operator_name, mistake.field, [&] { run_on_gpu(wrong, workspace.data()); });
  }
  if (workspace_size(right) > 0) {
    expect_refused(operator_name, "workspace", [&] { run(right, nullptr); });
    expect_refused(operator_name, "workspace",
                   [&] { run(right, static_cast<std::byte*>(workspace.data()) + 8); });
  }
  EXPECT_NO_THROW(run(right, workspace.data()));
}

// Memory of a tensor, long enough for all problems here.
struct Elements {
  alignas(64) float values[4096] = {};

  operator void*() { return values; }
  operator const void*() const { return values; }
};

void* unaligned(const void* address) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(address)) + 1;
}

// ---- Grid sampler

Elements input, grid, grad_output, output, input_grad, grid_grad;

template <class Problem>
Problem sampling() {
  Problem problem;
  problem.batch = 2, problem.channels = 3, problem.height = 4, problem.width = 5;
  problem.output_height = 6, problem.output_width = 7;
  problem.input = input, problem.grid = grid;
  problem.input_strides = {60, 20, 5, 1};
  problem.grid_strides = {84, 14, 2, 1};
  return problem;
}

template <class Problem>
std::vector<Mistake<Problem>> wrong_sampling_sizes() {
  return {
      {"type", [](Problem& p) { p.type = DataType::int32; }},
      {"type", [](Problem& p) { p.type = static_cast<DataType>(-77); }},
      {"interpolation", [](Problem& p) { p.interpolation = static_cast<Interpolation>(3); }},
      {"padding", [](Problem& p) { p.padding = static_cast<Padding>(-1); }},
      {"batch", [](Problem& p) { p.batch = -1; }},
      {"channels", [](Problem& p) { p.channels = kHuge; }},
      {"height", [](Problem& p) { p.height = -4; }},
      {"width", [](Problem& p) { p.width = int64_t{1} << 30; }},
      {"output_height", [](Problem& p) { p.output_height = -6; }},
      {"output_width", [](Problem& p) { p.output_width = -7; }},
      {"input", [](Problem& p) { p.batch = p.channels = int64_t{1} << 40; }},
      {"grid", [](Problem& p) { p.output_height = p.output_width = int64_t{1} << 40; }},
      {"output", [](Problem& p) { p.channels = p.output_width = int64_t{1} << 40; }},
      {"input_strides[0]", [](Problem& p) { p.input_strides[0] = -60; }},
      {"input_strides[3]", [](Problem& p) { p.input_strides[3] = kHuge; }},
      {"grid_strides[1]", [](Problem& p) { p.grid_strides[1] = -1; }},
  };
}

template <class Problem>
std::vector<Mistake<Problem>> wrong_sampled_tensors() {
  return {
      {"input", [](Problem& p) { p.input = nullptr; }},
      {"input", [](Problem& p) { p.input = unaligned(p.input); }},
      {"grid", [](Problem& p) { p.grid = nullptr; }},
  };
}

TEST(CppInterface, ChecksGridSampler2D) {
  using P = GridSampler2D;
  auto problem = sampling<P>();
  problem.output = output;
  problem.output_strides = {126, 42, 7, 1};
  auto sizes = wrong_sampling_sizes<P>();
  sizes.push_back({"height", [](P& p) { p.height = 0; }});
  sizes.push_back({"width", [](P& p) { p.width = 0; }});
  auto tensors = wrong_sampled_tensors<P>();
  tensors.push_back({"output", [](P& p) { p.output = nullptr; }});
  sizes.push_back({"output_strides[1]", [](P& p) { p.output_strides[1] = 0; }});
  expect_checked("grid_sampler_2d", problem, sizes, tensors);

  P empty;
  EXPECT_EQ(workspace_size(empty), 0u);
  EXPECT_NO_THROW(run(empty, nullptr));
}

TEST(CppInterface, ChecksGridSampler2DBackward) {
  using P = GridSampler2DBackward;
  auto problem = sampling<P>();
  problem.grad_output = grad_output;
  problem.grad_output_strides = {126, 42, 7, 1};
  problem.input_grad = input_grad;
  problem.input_grad_strides = problem.input_strides;
  problem.grid_grad = grid_grad;
  problem.grid_grad_strides = problem.grid_strides;
  auto tensors = wrong_sampled_tensors<P>();
  tensors.push_back({"grad_output", [](P& p) { p.grad_output = unaligned(p.grad_output); }});
  auto sizes = wrong_sampling_sizes<P>();
  sizes.push_back({"grad_output_strides[2]", [](P& p) { p.grad_output_strides[2] = -7; }});
  tensors.push_back({"input_grad", [](P& p) { p.input_grad = nullptr; }});
  sizes.push_back({"input_grad_strides[0]", [](P& p) { p.input_grad_strides[0] = 0; }});
  tensors.push_back({"grid_grad", [](P& p) { p.grid_grad = nullptr; }});
  sizes.push_back({"grid_grad_strides[3]", [](P& p) { p.grid_grad_strides[3] = 0; }});
  expect_checked("grid_sampler_2d_backward", problem, sizes, tensors);

  problem.wants_input_grad = problem.wants_grid_grad = false;
  problem.input_grad = problem.grid_grad = nullptr;
  problem.input_grad_strides = problem.grid_grad_strides = {};
  EXPECT_NO_THROW(run(problem, nullptr));
  P empty;
  EXPECT_EQ(workspace_size(empty), 0u);
  EXPECT_NO_THROW(run(empty, nullptr));
}

// Of volumes, beside what holds for images, too.
template <class Problem>
Problem sampling_3d() {
  Problem problem;
  problem.batch = 2, problem.channels = 3, problem.depth = 2, problem.height = 4, problem.width = 5;
  problem.output_depth = 3, problem.output_height = 6, problem.output_width = 7;
  problem.input = input, problem.grid = grid;
  problem.input_strides = {120, 40, 20, 5, 1};
  problem.grid_strides = {378, 126, 21, 3, 1};
  return problem;
}

template <class Problem>
std::vector<Mistake<Problem>> wrong_sampling_sizes_3d() {
  auto sizes = wrong_sampling_sizes<Problem>();
  sizes.push_back({"interpolation", [](Problem& p) { p.interpolation = Interpolation::bicubic; }});
  sizes.push_back({"depth", [](Problem& p) { p.depth = int64_t{1} << 30; }});
  sizes.push_back({"output_depth", [](Problem& p) { p.output_depth = -1; }});
  sizes.push_back({"input_strides[4]", [](Problem& p) { p.input_strides[4] = -1; }});
  return sizes;
}

TEST(CppInterface, ChecksGridSampler3D) {
  using P = GridSampler3D;
  auto problem = sampling_3d<P>();
  problem.output = output;
  problem.output_strides = {378, 126, 42, 7, 1};
  auto sizes = wrong_sampling_sizes_3d<P>();
  sizes.push_back({"depth", [](P& p) { p.depth = 0; }});
  sizes.push_back({"width", [](P& p) { p.width = 0; }});
  auto tensors = wrong_sampled_tensors<P>();
  tensors.push_back({"output", [](P& p) { p.output = nullptr; }});
  sizes.push_back({"output_strides[2]", [](P& p) { p.output_strides[2] = 0; }});
  expect_checked("grid_sampler_3d", problem, sizes, tensors);

  P empty;
  EXPECT_EQ(workspace_size(empty), 0u);
  EXPECT_NO_THROW(run(empty, nullptr));
}

TEST(CppInterface, ChecksGridSampler3DBackward) {
  using P = GridSampler3DBackward;
  auto problem = sampling_3d<P>();
  problem.grad_output = grad_output;
  problem.grad_output_strides = {378, 126, 42, 7, 1};
  problem.input_grad = input_grad;
  problem.input_grad_strides = problem.input_strides;
  problem.grid_grad = grid_grad;
  problem.grid_grad_strides = problem.grid_strides;
  auto tensors = wrong_sampled_tensors<P>();
  tensors.push_back({"grad_output", [](P& p) { p.grad_output = unaligned(p.grad_output); }});
  auto sizes = wrong_sampling_sizes_3d<P>();
  sizes.push_back({"grad_output_strides[2]", [](P& p) { p.grad_output_strides[2] = -7; }});
  tensors.push_back({"input_grad", [](P& p) { p.input_grad = nullptr; }});
  sizes.push_back({"input_grad_strides[0]", [](P& p) { p.input_grad_strides[0] = 0; }});
  tensors.push_back({"grid_grad", [](P& p) { p.grid_grad = nullptr; }});
  sizes.push_back({"grid_grad_strides[4]", [](P& p) { p.grid_grad_strides[4] = 0; }});
  expect_checked("grid_sampler_3d_backward", problem, sizes, tensors);

  problem.wants_input_grad = problem.wants_grid_grad = false;
  problem.input_grad = problem.grid_grad = nullptr;
  problem.input_grad_strides = problem.grid_grad_strides = {};
  EXPECT_NO_THROW(run(problem, nullptr));
  P empty;
  EXPECT_EQ(workspace_size(empty), 0u);
  EXPECT_NO_THROW(run(empty, nullptr));
}

// ---- Multi-scale deformable attention

Elements value, location, attention_weight, grad_value, grad_location, grad_attention_weight;
int64_t spatial_shape[] = {3, 4, 1, 2};
int32_t level_start_index[] = {0, 12};

template <class Problem>
Problem attention() {
  Problem problem;
  problem.batches = 2, problem.rows = 14, problem.heads = 3, problem.channels = 8;
  problem.queries = 5, problem.levels = 2, problem.points = 4;
  problem.value = value, problem.location = location, problem.attention_weight = attention_weight;
  problem.spatial_shape = {spatial_shape, DataType::int64};
  problem.level_start_index = {level_start_index, DataType::int32};
  problem.value_strides = BlockStrides::contiguous(14, 3, 8);
  problem.location_strides = BlockStrides::contiguous(5, 3, 16);
  problem.attention_weight_strides = BlockStrides::contiguous(5, 3, 8);
  return problem;
}

template <class Problem>
std::vector<Mistake<Problem>> wrong_attention_sizes() {
  return {
      {"type", [](Problem& p) { p.type = DataType::int64; }},
      {"batches", [](Problem& p) { p.batches = 0; }},
      {"rows", [](Problem& p) { p.rows = -14; }},
      {"heads", [](Problem& p) { p.heads = 0; }},
      {"channels", [](Problem& p) { p.channels = 0; }},
      {"queries", [](Problem& p) { p.queries = kHuge; }},
      {"levels", [](Problem& p) { p.levels = 0; }},
      {"points", [](Problem& p) { p.points = -1; }},
      {"value", [](Problem& p) { p.rows = p.channels = int64_t{1} << 40; }},
      {"location", [](Problem& p) { p.levels = p.points = int64_t{1} << 30; }},
      {"output", [](Problem& p) { p.queries = p.channels = int64_t{1} << 28; }},
  };
}

template <class Problem>
std::vector<Mistake<Problem>> wrong_attention_tensors() {
  return {
      {"value", [](Problem& p) { p.value = nullptr; }},
      {"value_strides.batch", [](Problem& p) { p.value_strides.batch = -1; }},
      {"value_strides.head", [](Problem& p) { p.value_strides.head = kHuge; }},
      {"spatial_shape", [](Problem& p) { p.spatial_shape.data = nullptr; }},
      {"spatial_shape.type", [](Problem& p) { p.spatial_shape.type = DataType::float32; }},
      {"level_start_index", [](Problem& p) { p.level_start_index.data = unaligned(level_start_index); }},
      {"location", [](Problem& p) { p.location = unaligned(p.location); }},
      {"location_strides.row", [](Problem& p) { p.location_strides.row = -48; }},
      {"attention_weight", [](Problem& p) { p.attention_weight = nullptr; }},
      {"attention_weight_strides.row", [](Problem& p) { p.attention_weight_strides.row = -48; }},
  };
}

TEST(CppInterface, ChecksMultiScaleDeformableAttention) {
  using P = MultiScaleDeformableAttention;
  auto problem = attention<P>();
  problem.output = output;
  problem.output_strides = BlockStrides::contiguous(5, 3, 8);
  auto tensors = wrong_attention_tensors<P>();
  tensors.push_back({"output", [](P& p) { p.output = nullptr; }});
  tensors.push_back({"output_strides.head", [](P& p) { p.output_strides.head = 0; }});
  expect_checked("multi_scale_deformable_attention", problem, wrong_attention_sizes<P>(), tensors);
}

TEST(CppInterface, ChecksMultiScaleDeformableAttentionGrad) {
  using P = MultiScaleDeformableAttentionGrad;
  auto problem = attention<P>();
  problem.grad_output = grad_output;
  problem.grad_output_strides = BlockStrides::contiguous(5, 3, 8);
  problem.grad_value = grad_value, problem.grad_value_strides = problem.value_strides;
  problem.grad_location = grad_location, problem.grad_location_strides = problem.location_strides;
  problem.grad_attention_weight = grad_attention_weight;
  problem.grad_attention_weight_strides = problem.attention_weight_strides;
  auto tensors = wrong_attention_tensors<P>();
  tensors.push_back({"grad_output", [](P& p) { p.grad_output = nullptr; }});
  tensors.push_back({"grad_output_strides.batch", [](P& p) { p.grad_output_strides.batch = -1; }});
  tensors.push_back({"grad_value", [](P& p) { p.grad_value = nullptr; }});
  tensors.push_back({"grad_value_strides.row", [](P& p) { p.grad_value_strides.row = 0; }});
  tensors.push_back({"grad_location", [](P& p) { p.grad_location = nullptr; }});
  tensors.push_back({"grad_location_strides.batch", [](P& p) { p.grad_location_strides.batch = 0; }});
  tensors.push_back({"grad_attention_weight", [](P& p) { p.grad_attention_weight = nullptr; }});
  tensors.push_back(
      {"grad_attention_weight_strides.head", [](P& p) { p.grad_attention_weight_strides.head = -8; }});
  expect_checked("multi_scale_deformable_attention_grad", problem, wrong_attention_sizes<P>(), tensors);
}

// ---- NSA compress

Elements tokens, token_grad, weight, weight_grad, windows, window_grad;
const int64_t right_ends[] = {9, 20};
const int64_t falling_ends[] = {21, 20};

template <class Problem>
Problem compression() {
  Problem problem;
  problem.windows.tokens = 20, problem.windows.block = 4, problem.windows.stride = 2;
  problem.windows.sequence_ends = right_ends, problem.windows.sequences = 2;
  problem.window_count = count_windows(problem.windows);
  problem.heads = 3, problem.channels = 16;
  problem.input = {tokens, 48, 16};
  problem.weight = weight;
  return problem;
}

template <class Problem>
std::vector<Mistake<Problem>> wrong_compression_sizes() {
  return {
      {"type", [](Problem& p) { p.type = DataType::float64; }},
      {"windows.tokens", [](Problem& p) { p.windows.tokens = -1; }},
      {"windows.block", [](Problem& p) { p.windows.block = 0; }},
      {"windows.stride", [](Problem& p) { p.windows.stride = 0; }},
      {"windows.sequences", [](Problem& p) { p.windows.sequences = -2; }},
      {"window_count", [](Problem& p) { p.window_count = -1; }},
      {"heads", [](Problem& p) { p.heads = -3; }},
      {"channels", [](Problem& p) { p.channels = -16; }},
      {"input", [](Problem& p) { p.windows.tokens = p.channels = int64_t{1} << 40; }},
      {"output", [](Problem& p) { p.window_count = p.channels = int64_t{1} << 40; }},
      {"weight", [](Problem& p) { p.windows.block = p.heads = int64_t{1} << 40; }},
  };
}

template <class Problem>
std::vector<Mistake<Problem>> wrong_compression_tensors() {
  return {
      {"windows.sequence_ends", [](Problem& p) { p.windows.sequence_ends = nullptr; }},
      {"windows.sequence_ends", [](Problem& p) { p.windows.sequence_ends = falling_ends; }},
      {"window_count", [](Problem& p) { p.window_count += 1; }},
      {"input", [](Problem& p) { p.input.data = nullptr; }},
      {"input.row_stride", [](Problem& p) { p.input.row_stride = -48; }},
      {"input.head_stride", [](Problem& p) { p.input.head_stride = kHuge; }},
      {"weight", [](Problem& p) { p.weight = unaligned(p.weight); }},
  };
}

TEST(CppInterface, ChecksNsaCompress) {
  using P = NsaCompress;
  auto problem = compression<P>();
  problem.output = {windows, 48, 16};
  auto tensors = wrong_compression_tensors<P>();
  tensors.push_back({"output", [](P& p) { p.output.data = nullptr; }});
  tensors.push_back({"output.row_stride", [](P& p) { p.output.row_stride = 0; }});
  expect_checked("nsa_compress", problem, wrong_compression_sizes<P>(), tensors);
}

TEST(CppInterface, ChecksNsaCompressGrad) {
  using P = NsaCompressGrad;
  auto problem = compression<P>();
  problem.output_grad = {window_grad, 48, 16};
  problem.input_grad = {token_grad, 48, 16};
  problem.weight_grad = weight_grad;
  auto tensors = wrong_compression_tensors<P>();
  tensors.push_back({"output_grad", [](P& p) { p.output_grad.data = nullptr; }});
  tensors.push_back({"output_grad.head_stride", [](P& p) { p.output_grad.head_stride = -16; }});
  tensors.push_back({"input_grad", [](P& p) { p.input_grad.data = unaligned(p.input_grad.data); }});
  tensors.push_back({"input_grad.head_stride", [](P& p) { p.input_grad.head_stride = 0; }});
  tensors.push_back({"weight_grad", [](P& p) { p.weight_grad = nullptr; }});
  expect_checked("nsa_compress_grad", problem, wrong_compression_sizes<P>(), tensors);
}

TEST(CppInterface, ChecksCountWindows) {
  const auto count = [](SlidingWindows wrong) { return [wrong] { count_windows(wrong); }; };
  expect_refused("count_windows", "windows.tokens", count({.tokens = -1}));
  expect_refused("count_windows", "windows.block", count({.tokens = 20, .block = 0}));
  expect_refused("count_windows", "windows.stride", count({.tokens = 20, .stride = 0}));
  expect_refused("count_windows", "windows.sequences", count({.tokens = 20, .sequences = -1}));
  expect_refused("count_windows", "windows.sequence_ends", count({.tokens = 20, .sequences = 2}));
  expect_refused("count_windows", "windows.sequence_ends",
                 count({.tokens = 20, .sequence_ends = falling_ends, .sequences = 2}));
  EXPECT_EQ(count_windows({.tokens = 20, .sequence_ends = right_ends, .sequences = 2}), 20);
}

// ---- Grouped bias-add

Elements grad_y, bias_grad;
const int32_t ends[] = {3, 7};

template <class Problem>
std::vector<Mistake<Problem>> wrong_bias_sizes() {
  return {
      {"type", [](Problem& p) { p.type = DataType::float64; }},
      {"kind", [](Problem& p) { p.kind = static_cast<GroupedBiasAddGrad::Groups>(3); }},
      {"groups", [](Problem& p) { p.groups = -1; }},
      {"rows", [](Problem& p) { p.rows = kHuge; }},
      {"columns", [](Problem& p) { p.columns = -4; }},
      {"grad_y", [](Problem& p) { p.rows = p.columns = int64_t{1} << 40; }},
  };
}

TEST(CppInterface, ChecksGroupedBiasAddGrad) {
  using P = GroupedBiasAddGrad;
  P problem;
  problem.kind = P::Groups::ends;
  problem.groups = 2, problem.rows = 7, problem.columns = 5;
  problem.grad_y = grad_y, problem.row_stride = 5;
  problem.group_idx = {ends, DataType::int32};
  problem.out = bias_grad;
  std::vector<Mistake<P>> tensors = {
      {"grad_y", [](P& p) { p.grad_y = nullptr; }},
      {"grad_y", [](P& p) { p.grad_y = unaligned(p.grad_y); }},
      {"row_stride", [](P& p) { p.row_stride = -5; }},
      {"row_stride", [](P& p) { p.row_stride = kHuge; }},
      {"grad_y", [](P& p) { p.row_stride = int64_t{1} << 52; }},
      {"out", [](P& p) { p.out = nullptr; }},
  };
  std::vector<Mistake<P>> grouped = tensors;
  grouped.push_back({"group_idx", [](P& p) { p.group_idx.data = nullptr; }});
  grouped.push_back({"group_idx.type", [](P& p) { p.group_idx.type = DataType::bfloat16; }});
  auto sizes = wrong_bias_sizes<P>();
  sizes.push_back({"out", [](P& p) { p.groups = p.columns = int64_t{1} << 30; }});
  expect_checked("grouped_bias_add_grad", problem, sizes, grouped);

  problem.kind = P::Groups::equal;
  problem.group_idx = {};
  problem.group_stride = 35;
  tensors.push_back({"group_stride", [](P& p) { p.group_stride = -35; }});
  expect_checked("grouped_bias_add_grad", problem, wrong_bias_sizes<P>(), tensors);
}

}  // namespace
}  // namespace aclgrad::test
