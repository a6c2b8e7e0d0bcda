// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Multi-scale deformable attention in double precision: plain loops without workspace, for whoever checks
// gradients by differences.
#pragma once

#include "aclgrad/multi_scale_deformable_attention.h"

namespace aclgrad::ops::multi_scale_deformable_attention {

// The problem's type is float64.
void attend_in_double(const MultiScaleDeformableAttention& problem);
void attend_backward_in_double(const MultiScaleDeformableAttentionBackward& problem);
void attend_double_backward_in_double(const MultiScaleDeformableAttentionDoubleBackward& problem);

}  // namespace aclgrad::ops::multi_scale_deformable_attention
