#include "cuda/not_built.h"
#include "ops/grouped_bias_add/kernel.h"

namespace aclgrad::ops::grouped_bias_add {

size_t kernel_workspace_size(const GroupedBiasAddGrad&, const CudaLaunch&) {
  refuse_cuda();
}

void run_kernel(const GroupedBiasAddGrad&, void*, const CudaLaunch&) {
  refuse_cuda();
}

}  // namespace aclgrad::ops::grouped_bias_add
