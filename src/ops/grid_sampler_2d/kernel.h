// The kernels behind problem.h. They trust their problem, which whoever calls them has checked. Times are those on one thread.
#pragma once

#include "ops/grid_sampler_2d/problem.h"

namespace aclgrad {

size_t kernel_workspace_size(const GridSampler2D& problem);
size_t kernel_workspace_size(const GridSampler2DBackward& problem);

double kernel_nanoseconds(const GridSampler2D& problem);
double kernel_nanoseconds(const GridSampler2DBackward& problem);

void run_kernel(const GridSampler2D& problem, void* workspace);
void run_kernel(const GridSampler2DBackward& problem, void* workspace);

namespace cuda {

size_t kernel_workspace_size(const GridSampler2D& problem, const CudaLaunch& on);
size_t kernel_workspace_size(const GridSampler2DBackward& problem, const CudaLaunch& on);

void run_kernel(const GridSampler2D& problem, void* workspace, const CudaLaunch& on);
void run_kernel(const GridSampler2DBackward& problem, void* workspace, const CudaLaunch& on);

}  // namespace cuda

}  // namespace aclgrad
