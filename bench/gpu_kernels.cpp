// The CUDA kernels of the gradients on contiguous tensors, as plain C functions for bench/aclnn.py. Each returns the bytes of
// workspace that it needs; where `workspace` is null, it does no more than that. -1: it failed.
#include <cstdio>
#include <exception>

#include "ops/grid_sampler/kernel.h"
#include "ops/grouped_bias_add/kernel.h"
#include "ops/multi_scale_deformable_attention/kernel.h"
#include "ops/nsa_compress/kernel.h"

namespace {

using namespace aclgrad;

template <class Problem>
int64_t run(const Problem& problem, void* workspace, const CudaLaunch& on) {
  try {
    if (workspace != nullptr) run_kernel(problem, workspace, on);
    return static_cast<int64_t>(kernel_workspace_size(problem, on));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return -1;
  }
}

GridSampling::Strides contiguous(int64_t a, int64_t b, int64_t c) {
  return {a * b * c, b * c, c, 1};
}

}  // namespace

extern "C" {

// Sizes: batches, rows, heads, channels, queries, levels, points.
int64_t msda_grad(int32_t type, const int64_t* sizes, const void* value, const void* spatial_shape,
                  const void* level_start_index, const void* location, const void* attention_weight,
                  const void* grad_output, void* grad_value, void* grad_location, void* grad_attention_weight,
                  void* workspace, void* stream, bool deterministic) {
  MultiScaleDeformableAttentionGrad problem;
  problem.type = static_cast<DataType>(type);
  problem.batches = sizes[0], problem.rows = sizes[1], problem.heads = sizes[2], problem.channels = sizes[3];
  problem.queries = sizes[4], problem.levels = sizes[5], problem.points = sizes[6];
  const auto blocks = [&](int64_t rows, int64_t block) {
    return BlockStrides::contiguous(rows, problem.heads, block);
  };
  problem.value_strides = problem.grad_value_strides = blocks(problem.rows, problem.channels);
  problem.location_strides = problem.grad_location_strides =
      blocks(problem.queries, 2 * problem.levels * problem.points);
  problem.attention_weight_strides = blocks(problem.queries, problem.levels * problem.points);
  problem.grad_attention_weight_strides = problem.attention_weight_strides;
  problem.grad_output_strides = blocks(problem.queries, problem.channels);
  problem.value = value, problem.location = location, problem.attention_weight = attention_weight;
  problem.spatial_shape = {spatial_shape, DataType::int64};
  problem.level_start_index = {level_start_index, DataType::int64};
  problem.grad_output = grad_output, problem.grad_value = grad_value;
  problem.grad_location = grad_location, problem.grad_attention_weight = grad_attention_weight;
  return run(problem, workspace, {stream, deterministic});
}

// Bilinear, zeros, corners not aligned. Sizes: batch, channels, height, width, output height, output width.
int64_t grid_sampler_grad(int32_t type, const int64_t* sizes, const void* grad_output, const void* input,
                          const void* grid, void* input_grad, void* grid_grad, void* workspace, void* stream,
                          bool deterministic) {
  GridSampler2DBackward problem;
  problem.type = static_cast<DataType>(type);
  problem.batch = sizes[0], problem.channels = sizes[1], problem.height = sizes[2], problem.width = sizes[3];
  problem.output_height = sizes[4], problem.output_width = sizes[5];
  problem.input_strides = problem.input_grad_strides =
      contiguous(problem.channels, problem.height, problem.width);
  problem.grid_strides = problem.grid_grad_strides =
      contiguous(problem.output_height, problem.output_width, 2);
  problem.grad_output_strides = contiguous(problem.channels, problem.output_height, problem.output_width);
  problem.grad_output = grad_output, problem.input = input, problem.grid = grid;
  problem.input_grad = input_grad, problem.grid_grad = grid_grad;
  return run(problem, workspace, {stream, deterministic});
}

// One sequence. Sizes: tokens, heads, channels, block, stride, windows.
int64_t nsa_compress_grad(int32_t type, const int64_t* sizes, const void* output_grad, const void* input,
                          const void* weight, void* input_grad, void* weight_grad, void* workspace,
                          void* stream, bool deterministic) {
  NsaCompressGrad problem;
  problem.type = static_cast<DataType>(type);
  problem.windows.tokens = sizes[0], problem.heads = sizes[1], problem.channels = sizes[2];
  problem.windows.block = sizes[3], problem.windows.stride = sizes[4], problem.window_count = sizes[5];
  const int64_t row = problem.heads * problem.channels;
  problem.output_grad = {output_grad, row, problem.channels};
  problem.input = {input, row, problem.channels};
  problem.weight = weight;
  problem.input_grad = {input_grad, row, problem.channels};
  problem.weight_grad = weight_grad;
  return run(problem, workspace, {stream, deterministic});
}

// Sizes: rows, columns, groups.
int64_t grouped_bias_add_grad(int32_t type, const int64_t* sizes, const void* grad_y, const void* ends,
                              void* out, void* workspace, void* stream, bool deterministic) {
  GroupedBiasAddGrad problem;
  problem.type = static_cast<DataType>(type);
  problem.kind = GroupedBiasAddGrad::Groups::ends;
  problem.rows = sizes[0], problem.columns = problem.row_stride = sizes[1], problem.groups = sizes[2];
  problem.grad_y = grad_y, problem.group_idx = {ends, DataType::int64}, problem.out = out;
  return run(problem, workspace, {stream, deterministic});
}

}  // extern "C"
