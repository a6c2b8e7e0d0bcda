// The kernels behind problem.h. They trust their problem, which whoever calls them has checked. Times are those on one thread.
#pragma once

#include "ops/new_operator/problem.h"

namespace aclgrad::ops::new_operator {

size_t kernel_workspace_size(const NewOperator& problem);

double kernel_nanoseconds(const NewOperator& problem);

void run_kernel(const NewOperator& problem, void* workspace);

// On a CUDA GPU.
size_t kernel_workspace_size(const NewOperator& problem, const CudaLaunch& on);

void run_kernel(const NewOperator& problem, void* workspace, const CudaLaunch& on);

}  // namespace aclgrad::ops::new_operator

namespace aclgrad {  // where argument-dependent lookup finds them

using ops::new_operator::kernel_nanoseconds;
using ops::new_operator::kernel_workspace_size;
using ops::new_operator::run_kernel;

}  // namespace aclgrad
