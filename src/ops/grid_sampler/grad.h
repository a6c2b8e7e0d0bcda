// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The two implementations of the gradient of volumes, see volume.h.
#pragma once

#include "ops/grid_sampler/implementations.h"

namespace aclgrad::ops::grid_sampler {

size_t grad_by_channels_workspace_size(const GridSampler3DBackward& problem);
void grad_by_channels(const GridSampler3DBackward& problem, void* workspace);

size_t grad_by_samples_workspace_size(const GridSampler3DBackward& problem);
void grad_by_samples(const GridSampler3DBackward& problem, void* workspace);

}  // namespace aclgrad::ops::grid_sampler
