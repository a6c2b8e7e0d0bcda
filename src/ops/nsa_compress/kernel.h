// The kernels behind problem.h. They trust their problem, which whoever calls them has checked. Times are those on one thread.
#pragma once

#include "ops/nsa_compress/problem.h"

namespace aclgrad {

size_t kernel_workspace_size(const NsaCompress& problem);
size_t kernel_workspace_size(const NsaCompressGrad& problem);

double kernel_nanoseconds(const NsaCompress& problem);
double kernel_nanoseconds(const NsaCompressGrad& problem);

void run_kernel(const NsaCompress& problem, void* workspace);
void run_kernel(const NsaCompressGrad& problem, void* workspace);

namespace cuda {

size_t kernel_workspace_size(const NsaCompress& problem, const CudaLaunch& on);
size_t kernel_workspace_size(const NsaCompressGrad& problem, const CudaLaunch& on);

void run_kernel(const NsaCompress& problem, void* workspace, const CudaLaunch& on);
void run_kernel(const NsaCompressGrad& problem, void* workspace, const CudaLaunch& on);

}  // namespace cuda

}  // namespace aclgrad
