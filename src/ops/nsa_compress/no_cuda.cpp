#include "cuda/not_built.h"
#include "ops/nsa_compress/kernel.h"

namespace aclgrad::ops::nsa_compress {

size_t kernel_workspace_size(const NsaCompress&, const CudaLaunch&) {
  refuse_cuda();
}

void run_kernel(const NsaCompress&, void*, const CudaLaunch&) {
  refuse_cuda();
}

size_t kernel_workspace_size(const NsaCompressGrad&, const CudaLaunch&) {
  refuse_cuda();
}

void run_kernel(const NsaCompressGrad&, void*, const CudaLaunch&) {
  refuse_cuda();
}

}  // namespace aclgrad::ops::nsa_compress
