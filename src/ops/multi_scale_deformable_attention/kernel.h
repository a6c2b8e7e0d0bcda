// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The kernel behind the C and the C++ interface; base/kernel.h says what each function must do.
#pragma once

#include "aclgrad/multi_scale_deformable_attention.h"
#include "base/kernel.h"

ACLGRAD_DECLARE_KERNEL(multi_scale_deformable_attention, MultiScaleDeformableAttention)
ACLGRAD_DECLARE_KERNEL(multi_scale_deformable_attention, MultiScaleDeformableAttentionBackward)
ACLGRAD_DECLARE_KERNEL(multi_scale_deformable_attention, MultiScaleDeformableAttentionDoubleBackward)

namespace aclgrad::ops::multi_scale_deformable_attention {

// Whether a gradient is wanted for which the samples are taken again.
template <class Problem>
constexpr bool wants_samples(const Problem& problem) {
  return problem.grad_sampling_locations.defined() || problem.grad_attention_weights.defined();
}

// In double precision, of problems of float64: plain loops without workspace, for whoever checks gradients by differences.
void run_in_double(const MultiScaleDeformableAttention& problem);
void run_in_double(const MultiScaleDeformableAttentionBackward& problem);
void run_in_double(const MultiScaleDeformableAttentionDoubleBackward& problem);

// Query rows [N, Q, M * C] as [N, Q, M, C]. Where channels do not lie side by side, the rows get packed.
template <class Void>
void split_heads(BasicTensor<Void>& rows, int64_t heads) {
  if (rows.shape.rank() == 4) return;
  const int64_t channels = heads == 0 ? 0 : rows.size(2) / heads;
  rows.shape = {rows.size(0), rows.size(1), heads, channels};
  rows.strides = {rows.stride(0), rows.stride(1), channels, 1};
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention
