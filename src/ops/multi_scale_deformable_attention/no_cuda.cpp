#include "cuda/not_built.h"
#include "ops/multi_scale_deformable_attention/kernel.h"

namespace aclgrad::ops::multi_scale_deformable_attention {

size_t kernel_workspace_size(const MultiScaleDeformableAttention&, const CudaLaunch&) {
  refuse_cuda();
}

void run_kernel(const MultiScaleDeformableAttention&, void*, const CudaLaunch&) {
  refuse_cuda();
}

size_t kernel_workspace_size(const MultiScaleDeformableAttentionGrad&, const CudaLaunch&) {
  refuse_cuda();
}

void run_kernel(const MultiScaleDeformableAttentionGrad&, void*, const CudaLaunch&) {
  refuse_cuda();
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention
