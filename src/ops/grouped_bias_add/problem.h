// Grouped bias-add gradient: the C++ interface. See aclgrad/types.h, too.
//
// The forward operator adds one bias row to all rows of a group: y[r, h] = x[r, h] + bias[group of r, h]. Its
// gradient with respect to the bias sums the rows of each group:
//
//   out[g, h] = sum over the rows r of group g of grad_y[r, h]
//
// An empty group gives zeros; rows after the last group are ignored.
//
// Types: float32, float16 or bfloat16, the same for grad_y and out. Sums are in float, rounded once to
// nearest even. A sum is taken in blocks of 8, 512 and 8192 rows, so that its error grows with the logarithm
// of the row count. Deterministic: the same bits for any number of threads, any row stride and any
// instruction set; on a CUDA GPU the same bits run after run.
// Source: the document of aclnnGroupedBiasAddGrad, and its V2 for counts.
#pragma once

#include "aclgrad/types.h"

namespace aclgrad {

struct GroupedBiasAddGrad {
  // How `group_idx` names the groups.
  enum class Groups {
    equal,   // no group_idx: every group has `rows` rows
    ends,    // group_idx[g] is the row after the last one of group g; group g starts where group g-1 ends
    counts,  // group_idx[g] is the number of rows of group g
  };

  DataType type = DataType::float32;
  Groups kind = Groups::equal;
  int64_t groups = 0;
  int64_t rows = 0;     // of grad_y in all; with Groups::equal, of each group
  int64_t columns = 0;  // H

  const void* grad_y = nullptr;  // [rows, columns], or [groups, rows, columns] with Groups::equal
  int64_t row_stride = 0;        // elements from one row of grad_y to the next
  int64_t group_stride = 0;      // elements from one group to the next, with Groups::equal

  // [groups]. Any contents are safe: an end below its start is an empty group, and all is clamped to [0,
  // rows].
  IndexArray group_idx;

  void* out = nullptr;  // [groups, columns], contiguous
};

// Bytes of workspace that grouped_bias_add_grad needs; it must be 64-byte aligned.
ACLGRAD_API size_t workspace_size(const GroupedBiasAddGrad& problem);

// Estimate of the time on one thread.
ACLGRAD_API double serial_nanoseconds(const GroupedBiasAddGrad& problem);

ACLGRAD_API void grouped_bias_add_grad(const GroupedBiasAddGrad& problem, void* workspace);

// The same on a CUDA GPU. They throw std::exception where CUDA refuses, or the library was built without CUDA.
namespace cuda {

ACLGRAD_API size_t workspace_size(const GroupedBiasAddGrad& problem, const CudaLaunch& on);
ACLGRAD_API void grouped_bias_add_grad(const GroupedBiasAddGrad& problem, void* workspace,
                                       const CudaLaunch& on);

}  // namespace cuda

}  // namespace aclgrad
