// The kernels behind problem.h. They trust their problem, which whoever calls them has checked. Times are those on one thread.
#pragma once

#include "ops/nsa_compress/problem.h"

namespace aclgrad::ops::nsa_compress {

size_t kernel_workspace_size(const NsaCompress& problem);
size_t kernel_workspace_size(const NsaCompressGrad& problem);

double kernel_nanoseconds(const NsaCompress& problem);
double kernel_nanoseconds(const NsaCompressGrad& problem);

void run_kernel(const NsaCompress& problem, void* workspace);
void run_kernel(const NsaCompressGrad& problem, void* workspace);

// On a CUDA GPU.
size_t kernel_workspace_size(const NsaCompress& problem, const CudaLaunch& on);
size_t kernel_workspace_size(const NsaCompressGrad& problem, const CudaLaunch& on);

void run_kernel(const NsaCompress& problem, void* workspace, const CudaLaunch& on);
void run_kernel(const NsaCompressGrad& problem, void* workspace, const CudaLaunch& on);

}  // namespace aclgrad::ops::nsa_compress

namespace aclgrad {  // where argument-dependent lookup finds them

using ops::nsa_compress::kernel_nanoseconds;
using ops::nsa_compress::kernel_workspace_size;
using ops::nsa_compress::run_kernel;

}  // namespace aclgrad
