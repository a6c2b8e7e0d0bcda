// The kernels behind problem.h. They trust their problem, which whoever calls them has checked. Times are those on one thread.
#pragma once

#include "ops/multi_scale_deformable_attention/problem.h"

namespace aclgrad::ops::multi_scale_deformable_attention {

size_t kernel_workspace_size(const MultiScaleDeformableAttention& problem);
size_t kernel_workspace_size(const MultiScaleDeformableAttentionGrad& problem);

double kernel_nanoseconds(const MultiScaleDeformableAttention& problem);
double kernel_nanoseconds(const MultiScaleDeformableAttentionGrad& problem);

void run_kernel(const MultiScaleDeformableAttention& problem, void* workspace);
void run_kernel(const MultiScaleDeformableAttentionGrad& problem, void* workspace);

// On a CUDA GPU.
size_t kernel_workspace_size(const MultiScaleDeformableAttention& problem, const CudaLaunch& on);
size_t kernel_workspace_size(const MultiScaleDeformableAttentionGrad& problem, const CudaLaunch& on);

void run_kernel(const MultiScaleDeformableAttention& problem, void* workspace, const CudaLaunch& on);
void run_kernel(const MultiScaleDeformableAttentionGrad& problem, void* workspace, const CudaLaunch& on);

}  // namespace aclgrad::ops::multi_scale_deformable_attention

namespace aclgrad {  // where argument-dependent lookup finds them

using ops::multi_scale_deformable_attention::kernel_nanoseconds;
using ops::multi_scale_deformable_attention::kernel_workspace_size;
using ops::multi_scale_deformable_attention::run_kernel;

}  // namespace aclgrad
