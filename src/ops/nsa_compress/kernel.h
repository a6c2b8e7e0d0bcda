// As base/kernel.h says.
#pragma once

#include "aclgrad/nsa_compress.h"
#include "base/kernel.h"

namespace aclgrad::ops::nsa_compress {

size_t kernel_workspace_size(const NsaCompress& problem);
size_t kernel_workspace_size(const NsaCompressBackward& problem);

double kernel_nanoseconds(const NsaCompress& problem);
double kernel_nanoseconds(const NsaCompressBackward& problem);

void run_kernel(const NsaCompress& problem, void* workspace);
void run_kernel(const NsaCompressBackward& problem, void* workspace);

}  // namespace aclgrad::ops::nsa_compress

namespace aclgrad {  // where argument-dependent lookup finds them

using ops::nsa_compress::kernel_nanoseconds;
using ops::nsa_compress::kernel_workspace_size;
using ops::nsa_compress::run_kernel;

}  // namespace aclgrad
