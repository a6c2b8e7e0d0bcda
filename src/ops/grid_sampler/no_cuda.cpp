#include "cuda/not_built.h"
#include "ops/grid_sampler/kernel.h"

namespace aclgrad::ops::grid_sampler {

size_t kernel_workspace_size(const GridSampler2D&, const CudaLaunch&) {
  refuse_cuda();
}

void run_kernel(const GridSampler2D&, void*, const CudaLaunch&) {
  refuse_cuda();
}

size_t kernel_workspace_size(const GridSampler2DBackward&, const CudaLaunch&) {
  refuse_cuda();
}

void run_kernel(const GridSampler2DBackward&, void*, const CudaLaunch&) {
  refuse_cuda();
}

size_t kernel_workspace_size(const GridSampler3D&, const CudaLaunch&) {
  refuse_cuda();
}

void run_kernel(const GridSampler3D&, void*, const CudaLaunch&) {
  refuse_cuda();
}

size_t kernel_workspace_size(const GridSampler3DBackward&, const CudaLaunch&) {
  refuse_cuda();
}

void run_kernel(const GridSampler3DBackward&, void*, const CudaLaunch&) {
  refuse_cuda();
}

}  // namespace aclgrad::ops::grid_sampler
