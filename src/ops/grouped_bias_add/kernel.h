// The kernels behind problem.h. They trust their problem, which whoever calls them has checked. Times are those on one thread.
#pragma once

#include "ops/grouped_bias_add/problem.h"

namespace aclgrad::ops::grouped_bias_add {

size_t kernel_workspace_size(const GroupedBiasAddGrad& problem);

double kernel_nanoseconds(const GroupedBiasAddGrad& problem);

void run_kernel(const GroupedBiasAddGrad& problem, void* workspace);

// On a CUDA GPU.
size_t kernel_workspace_size(const GroupedBiasAddGrad& problem, const CudaLaunch& on);

void run_kernel(const GroupedBiasAddGrad& problem, void* workspace, const CudaLaunch& on);

}  // namespace aclgrad::ops::grouped_bias_add

namespace aclgrad {  // where argument-dependent lookup finds them

using ops::grouped_bias_add::kernel_nanoseconds;
using ops::grouped_bias_add::kernel_workspace_size;
using ops::grouped_bias_add::run_kernel;

}  // namespace aclgrad
