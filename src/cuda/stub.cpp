// Stands in for everything that needs CUDA where the library is built without it.
#include <stdexcept>

#include "ops/grid_sampler_2d/kernel.h"
#include "ops/grouped_bias_add/kernel.h"
#include "ops/multi_scale_deformable_attention/kernel.h"
#include "ops/nsa_compress/kernel.h"
#include "runtime/cuda_device.h"
#include "tensor/view_cuda.h"

namespace aclgrad {
namespace {

[[noreturn]] void refuse() {
  throw std::runtime_error("This library was built without CUDA.");
}

}  // namespace

int cuda_device_count() noexcept {
  return 0;
}

Device& cuda_device(int) {
  refuse();
}

void on_cuda_device(int, const std::function<void()>&) {
  refuse();
}

void pack(const TensorView&, void*, const CudaLaunch&) {
  refuse();
}
void unpack(const void*, const TensorView&, const CudaLaunch&) {
  refuse();
}
void fill_zero(const TensorView&, const CudaLaunch&) {
  refuse();
}

namespace cuda {

size_t kernel_workspace_size(const MultiScaleDeformableAttention&, const CudaLaunch&) {
  refuse();
}
size_t kernel_workspace_size(const MultiScaleDeformableAttentionGrad&, const CudaLaunch&) {
  refuse();
}
size_t kernel_workspace_size(const NsaCompress&, const CudaLaunch&) {
  refuse();
}
size_t kernel_workspace_size(const NsaCompressGrad&, const CudaLaunch&) {
  refuse();
}
size_t kernel_workspace_size(const GridSampler2D&, const CudaLaunch&) {
  refuse();
}
size_t kernel_workspace_size(const GridSampler2DBackward&, const CudaLaunch&) {
  refuse();
}
size_t kernel_workspace_size(const GroupedBiasAddGrad&, const CudaLaunch&) {
  refuse();
}

void run_kernel(const MultiScaleDeformableAttention&, void*, const CudaLaunch&) {
  refuse();
}
void run_kernel(const MultiScaleDeformableAttentionGrad&, void*, const CudaLaunch&) {
  refuse();
}
void run_kernel(const NsaCompress&, void*, const CudaLaunch&) {
  refuse();
}
void run_kernel(const NsaCompressGrad&, void*, const CudaLaunch&) {
  refuse();
}
void run_kernel(const GridSampler2D&, void*, const CudaLaunch&) {
  refuse();
}
void run_kernel(const GridSampler2DBackward&, void*, const CudaLaunch&) {
  refuse();
}
void run_kernel(const GroupedBiasAddGrad&, void*, const CudaLaunch&) {
  refuse();
}

}  // namespace cuda
}  // namespace aclgrad
