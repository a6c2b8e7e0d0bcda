// The kernels behind problem.h. They trust their problem, which whoever calls them has checked. Times are those on one thread.
#pragma once

#include "ops/grouped_bias_add/problem.h"

namespace aclgrad {

size_t kernel_workspace_size(const GroupedBiasAddGrad& problem);

double kernel_nanoseconds(const GroupedBiasAddGrad& problem);

void run_kernel(const GroupedBiasAddGrad& problem, void* workspace);

namespace cuda {

size_t kernel_workspace_size(const GroupedBiasAddGrad& problem, const CudaLaunch& on);

void run_kernel(const GroupedBiasAddGrad& problem, void* workspace, const CudaLaunch& on);

}  // namespace cuda

}  // namespace aclgrad
