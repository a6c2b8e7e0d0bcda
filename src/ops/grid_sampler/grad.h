// The two implementations of the gradient, see layout.h. Both leave nearest interpolation's grid_grad to their caller.
#pragma once

#include "ops/grid_sampler/kernel.h"

namespace aclgrad::ops::grid_sampler {

size_t grad_by_channels_workspace_size(const GridSampler2DBackward& problem);
void grad_by_channels(const GridSampler2DBackward& problem, void* workspace);
size_t grad_by_channels_workspace_size(const GridSampler3DBackward& problem);
void grad_by_channels(const GridSampler3DBackward& problem, void* workspace);

size_t grad_by_samples_workspace_size(const GridSampler2DBackward& problem);
void grad_by_samples(const GridSampler2DBackward& problem, void* workspace);
size_t grad_by_samples_workspace_size(const GridSampler3DBackward& problem);
void grad_by_samples(const GridSampler3DBackward& problem, void* workspace);

}  // namespace aclgrad::ops::grid_sampler
