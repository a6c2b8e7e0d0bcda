// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of the grouped bias-add: the C++ interface. See aclgrad/types.h, too.
//
// The forward operator adds one bias row to all rows of a group: y[r, h] = x[r, h] + bias[group of r, h]. Its
// gradient with respect to the bias sums the rows of each group:
//
//   grad_bias[g, h] = sum over the rows r of group g of grad_output[r, h]
//
// An empty group gives zeros; rows after the last group are ignored. The gradient of the gradient, the double backward,
// gives each row what its group has:
//
//   grad_grad_output[r, h] = grad_grad_bias[group of r, h]
//
// Rows after the last group get zeros, and rows of several groups, as a decreasing end makes them, the sum.
//
// Types: float32, float16 or bfloat16, the same for grad_output and grad_bias; for the double backward float64,
// too. Sums are in float, rounded once to nearest even. A sum is taken in blocks of 8, 512 and 8192 rows, so
// that its error grows with the logarithm of the row count.
// Deterministic: bitwise the same results for any number of threads, any row stride and any instruction set; on a
// CUDA GPU bitwise the same run after run.
// Source: the document of aclnnGroupedBiasAddGrad. Counts are those of V2, which has no document.
#pragma once

#include "aclgrad/types.h"

namespace aclgrad {

// What an entry of group_idx says of its group.
enum class GroupKind : int32_t {
  ends = 0,    // the row after its last one; it starts where the group before ends
  counts = 1,  // the number of its rows
};

struct GroupedBiasAddBackward {
  // [rows, columns], or without group_idx [groups, rows of each group, columns]. The columns lie side by side.
  ConstTensor grad_output;

  // [groups], int32 or int64, contiguous. Any contents are safe: an end below its start is an empty group, and all is
  // clamped to [0, rows].
  ConstTensor group_idx;
  GroupKind kind = GroupKind::ends;

  Tensor grad_bias;  // [groups, columns], contiguous

  constexpr bool has_equal_groups() const { return !group_idx.defined(); }
  constexpr int64_t groups() const { return grad_bias.size(0); }
  constexpr int64_t columns() const { return grad_bias.size(1); }

  // Of each group, where they are equal.
  constexpr int64_t rows() const { return has_equal_groups() ? grad_output.size(1) : grad_output.size(0); }
};

// On the CPU only.
struct GroupedBiasAddDoubleBackward {
  ConstTensor grad_grad_bias;  // [groups, columns], contiguous
  ConstTensor group_idx;       // [groups], as above; without it all groups have as many rows
  GroupKind kind = GroupKind::ends;

  // [rows, columns], or without group_idx [groups, rows of each group, columns]. The columns lie side by side.
  Tensor grad_grad_output;

  constexpr bool has_equal_groups() const { return !group_idx.defined(); }
  constexpr int64_t groups() const { return grad_grad_bias.size(0); }
  constexpr int64_t columns() const { return grad_grad_bias.size(1); }

  // Of each group, where they are equal.
  constexpr int64_t rows() const {
    return has_equal_groups() ? grad_grad_output.size(1) : grad_grad_output.size(0);
  }
};

// Bytes of workspace that the operator needs.
ACLGRAD_API size_t workspace_size(const GroupedBiasAddBackward& problem);
ACLGRAD_API size_t workspace_size(const GroupedBiasAddDoubleBackward& problem);

ACLGRAD_API void grouped_bias_add_backward(const GroupedBiasAddBackward& problem,
                                           const WorkspaceView& workspace);
ACLGRAD_API void grouped_bias_add_double_backward(const GroupedBiasAddDoubleBackward& problem,
                                                  const WorkspaceView& workspace);

// The gradient on a CUDA GPU. They throw std::exception where CUDA refuses, or the library was built without CUDA.
namespace cuda {

ACLGRAD_API size_t workspace_size(const GroupedBiasAddBackward& problem, const CudaLaunch& on);
ACLGRAD_API void grouped_bias_add_backward(const GroupedBiasAddBackward& problem,
                                           const WorkspaceView& workspace, const CudaLaunch& on);

}  // namespace cuda

}  // namespace aclgrad
