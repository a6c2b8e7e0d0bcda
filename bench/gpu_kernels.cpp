// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
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

}  // namespace

extern "C" {

// Sizes: batches, rows, heads, channels, queries, levels, points.
int64_t msda_grad(int32_t type, const int64_t* sizes, const void* value, const void* spatial_shape,
                  const void* level_start_index, const void* location, const void* attention_weight,
                  const void* grad_output, void* grad_value, void* grad_location, void* grad_attention_weight,
                  void* workspace, void* stream, bool deterministic) {
  const auto float_type = static_cast<DataType>(type);
  const int64_t batches = sizes[0], rows = sizes[1], heads = sizes[2], channels = sizes[3];
  const int64_t queries = sizes[4], levels = sizes[5], samples = sizes[6];
  const Shape of_value = {batches, rows, heads, channels};
  const Shape of_locations = {batches, queries, heads, levels, samples, 2};
  const Shape of_weights = {batches, queries, heads, levels, samples};
  MultiScaleDeformableAttentionBackward problem;
  problem.value = {value, float_type, of_value};
  problem.spatial_shapes = {spatial_shape, DataType::int64, {levels, 2}};
  problem.level_start_index = {level_start_index, DataType::int64, {levels}};
  problem.sampling_locations = {location, float_type, of_locations};
  problem.attention_weights = {attention_weight, float_type, of_weights};
  problem.grad_output = {grad_output, float_type, {batches, queries, heads, channels}};
  problem.grad_value = {grad_value, float_type, of_value};
  problem.grad_sampling_locations = {grad_location, float_type, of_locations};
  problem.grad_attention_weights = {grad_attention_weight, float_type, of_weights};
  return run(problem, workspace, {stream, deterministic});
}

// Bilinear, zeros, corners not aligned. Sizes: batch, channels, height, width, output height, output width.
int64_t grid_sampler_grad(int32_t type, const int64_t* sizes, const void* grad_output, const void* input,
                          const void* grid, void* grad_input, void* grad_grid, void* workspace, void* stream,
                          bool deterministic) {
  const auto float_type = static_cast<DataType>(type);
  const Shape of_input = {sizes[0], sizes[1], sizes[2], sizes[3]},
              of_grid = {sizes[0], sizes[4], sizes[5], 2};
  GridSampler2DBackward problem;
  problem.input = {input, float_type, of_input};
  problem.grid = {grid, float_type, of_grid};
  problem.grad_output = {grad_output, float_type, {sizes[0], sizes[1], sizes[4], sizes[5]}};
  problem.grad_input = {grad_input, float_type, of_input};
  problem.grad_grid = {grad_grid, float_type, of_grid};
  return run(problem, workspace, {stream, deterministic});
}

// One sequence. Sizes: tokens, heads, channels, block, stride, windows.
int64_t nsa_compress_grad(int32_t type, const int64_t* sizes, const void* grad_output, const void* input,
                          const void* weight, void* grad_input, void* grad_weight, void* workspace,
                          void* stream, bool deterministic) {
  const auto float_type = static_cast<DataType>(type);
  const Shape of_tokens = {sizes[0], sizes[1], sizes[2]}, of_weight = {sizes[3], sizes[1]};
  NsaCompressBackward problem;
  problem.input = {input, float_type, of_tokens};
  problem.weight = {weight, float_type, of_weight};
  problem.stride = sizes[4];
  problem.grad_output = {grad_output, float_type, {sizes[5], sizes[1], sizes[2]}};
  problem.grad_input = {grad_input, float_type, of_tokens};
  problem.grad_weight = {grad_weight, float_type, of_weight};
  return run(problem, workspace, {stream, deterministic});
}

// Sizes: rows, columns, groups.
int64_t grouped_bias_add_grad(int32_t type, const int64_t* sizes, const void* grad_output, const void* ends,
                              void* grad_bias, void* workspace, void* stream, bool deterministic) {
  const int64_t rows = sizes[0], columns = sizes[1], groups = sizes[2];
  const auto float_type = static_cast<DataType>(type);
  GroupedBiasAddBackward problem;
  problem.grad_output = {grad_output, float_type, {rows, columns}};
  problem.group_idx = {ends, DataType::int64, {groups}};
  problem.grad_bias = {grad_bias, float_type, {groups, columns}};
  return run(problem, workspace, {stream, deterministic});
}

}  // extern "C"
