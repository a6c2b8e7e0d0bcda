// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The kernels behind the C and the C++ interface; base/kernel.h says what each function must do.
#pragma once

#include "aclgrad/grid_sampler.h"
#include "base/kernel.h"

ACLGRAD_DECLARE_KERNEL(grid_sampler, GridSampler2D)
ACLGRAD_DECLARE_KERNEL(grid_sampler, GridSampler2DBackward)
ACLGRAD_DECLARE_KERNEL(grid_sampler, GridSampler2DDoubleBackward)
ACLGRAD_DECLARE_KERNEL(grid_sampler, GridSampler3D)
ACLGRAD_DECLARE_KERNEL(grid_sampler, GridSampler3DBackward)
ACLGRAD_DECLARE_KERNEL(grid_sampler, GridSampler3DDoubleBackward)
