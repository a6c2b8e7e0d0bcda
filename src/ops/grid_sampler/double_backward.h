// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The implementations of the gradient's gradient for bilinear and bicubic interpolation, see layout.h.
#pragma once

#include "ops/grid_sampler/layout.h"

namespace aclgrad::ops::grid_sampler {

size_t double_backward_by_channels_workspace_size(const DoubleBackward& sampling);
void double_backward_by_channels(const DoubleBackward& sampling, void* workspace);

size_t double_backward_by_samples_workspace_size(const DoubleBackward& sampling);
void double_backward_by_samples(const DoubleBackward& sampling, void* workspace);

}  // namespace aclgrad::ops::grid_sampler
