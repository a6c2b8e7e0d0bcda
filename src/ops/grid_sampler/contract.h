// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What grid sampling expects of its problems. Images of `channels_last` have the axes [N, D, H, W, C].
#pragma once

#include "aclgrad/grid_sampler.h"
#include "tensor/contract.h"

namespace aclgrad {

void check(const GridSampler2D& problem, Contract& contract, bool channels_last = false);
void check(const GridSampler2DBackward& problem, Contract& contract, bool channels_last = false);
void check(const GridSampler2DDoubleBackward& problem, Contract& contract);
void check(const GridSampler3D& problem, Contract& contract, bool channels_last = false);
void check(const GridSampler3DBackward& problem, Contract& contract, bool channels_last = false);

}  // namespace aclgrad
