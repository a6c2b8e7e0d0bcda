// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The functions that base/kernel.h lists. Those of the CPU take a problem as problem.h has it.
#pragma once

#include "aclgrad/grid_sampler.h"
#include "base/kernel.h"
#include "ops/grid_sampler/problem.h"

namespace aclgrad::ops::grid_sampler {

size_t kernel_workspace_size(const GridSampler2D& problem);
size_t kernel_workspace_size(const GridSampler2DBackward& problem);
size_t kernel_workspace_size(const GridSampler2DDoubleBackward& problem);
size_t kernel_workspace_size(const GridSampler3D& problem);
size_t kernel_workspace_size(const GridSampler3DBackward& problem);
size_t kernel_workspace_size(const GridSampler3DDoubleBackward& problem);

double kernel_nanoseconds(const GridSampler2D& problem);
double kernel_nanoseconds(const GridSampler2DBackward& problem);
double kernel_nanoseconds(const GridSampler3D& problem);
double kernel_nanoseconds(const GridSampler3DBackward& problem);

void run_kernel(const GridSampler2D& problem, void* workspace);
void run_kernel(const GridSampler2DBackward& problem, void* workspace);
void run_kernel(const GridSampler2DDoubleBackward& problem, void* workspace);
void run_kernel(const GridSampler3D& problem, void* workspace);
void run_kernel(const GridSampler3DBackward& problem, void* workspace);
void run_kernel(const GridSampler3DDoubleBackward& problem, void* workspace);

}  // namespace aclgrad::ops::grid_sampler

namespace aclgrad {  // where argument-dependent lookup finds them

class Contract;
// Images of `channels_last` have the axes [N, D, H, W, C].
void check(const GridSampler2D& problem, Contract& contract, bool channels_last = false);
void check(const GridSampler2DBackward& problem, Contract& contract, bool channels_last = false);
void check(const GridSampler2DDoubleBackward& problem, Contract& contract);
void check(const GridSampler3D& problem, Contract& contract, bool channels_last = false);
void check(const GridSampler3DBackward& problem, Contract& contract, bool channels_last = false);
void check(const GridSampler3DDoubleBackward& problem, Contract& contract);

template <class Problem, class Read = ops::grid_sampler::ReadAs<Problem>>
size_t kernel_workspace_size(const Problem& problem) {
  return kernel_workspace_size(Read(problem));
}

template <class Problem, class Read = ops::grid_sampler::ReadAs<Problem>>
double kernel_nanoseconds(const Problem& problem) {
  return kernel_nanoseconds(Read(problem));
}

template <class Problem, class Read = ops::grid_sampler::ReadAs<Problem>>
void run_kernel(const Problem& problem, void* workspace) {
  run_kernel(Read(problem), workspace);
}

}  // namespace aclgrad
