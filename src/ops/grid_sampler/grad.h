// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The two implementations of the gradient, see layout.h.
#pragma once

#include "ops/grid_sampler/layout.h"

namespace aclgrad::ops::grid_sampler {

size_t grad_by_channels_workspace_size(const Sampling& sampling);
void grad_by_channels(const Sampling& sampling, void* workspace);
size_t grad_by_channels_workspace_size(const GridSampler3DBackward& problem);
void grad_by_channels(const GridSampler3DBackward& problem, void* workspace);

size_t grad_by_samples_workspace_size(const Sampling& sampling);
void grad_by_samples(const Sampling& sampling, void* workspace);
size_t grad_by_samples_workspace_size(const GridSampler3DBackward& problem);
void grad_by_samples(const GridSampler3DBackward& problem, void* workspace);

}  // namespace aclgrad::ops::grid_sampler
