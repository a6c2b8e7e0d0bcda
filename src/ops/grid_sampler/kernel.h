// The kernels behind problem.h. They trust their problem, which whoever calls them has checked. Times are those on one thread.
#pragma once

#include "ops/grid_sampler/problem.h"

namespace aclgrad::ops::grid_sampler {

size_t kernel_workspace_size(const GridSampler2D& problem);
size_t kernel_workspace_size(const GridSampler2DBackward& problem);
size_t kernel_workspace_size(const GridSampler3D& problem);
size_t kernel_workspace_size(const GridSampler3DBackward& problem);

double kernel_nanoseconds(const GridSampler2D& problem);
double kernel_nanoseconds(const GridSampler2DBackward& problem);
double kernel_nanoseconds(const GridSampler3D& problem);
double kernel_nanoseconds(const GridSampler3DBackward& problem);

void run_kernel(const GridSampler2D& problem, void* workspace);
void run_kernel(const GridSampler2DBackward& problem, void* workspace);
void run_kernel(const GridSampler3D& problem, void* workspace);
void run_kernel(const GridSampler3DBackward& problem, void* workspace);

// On a CUDA GPU.
size_t kernel_workspace_size(const GridSampler2D& problem, const CudaLaunch& on);
size_t kernel_workspace_size(const GridSampler2DBackward& problem, const CudaLaunch& on);
size_t kernel_workspace_size(const GridSampler3D& problem, const CudaLaunch& on);
size_t kernel_workspace_size(const GridSampler3DBackward& problem, const CudaLaunch& on);

void run_kernel(const GridSampler2D& problem, void* workspace, const CudaLaunch& on);
void run_kernel(const GridSampler2DBackward& problem, void* workspace, const CudaLaunch& on);
void run_kernel(const GridSampler3D& problem, void* workspace, const CudaLaunch& on);
void run_kernel(const GridSampler3DBackward& problem, void* workspace, const CudaLaunch& on);

}  // namespace aclgrad::ops::grid_sampler

namespace aclgrad {  // where argument-dependent lookup finds them

using ops::grid_sampler::kernel_nanoseconds;
using ops::grid_sampler::kernel_workspace_size;
using ops::grid_sampler::run_kernel;

}  // namespace aclgrad
