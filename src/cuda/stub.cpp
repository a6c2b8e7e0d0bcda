// Stands in for everything that needs CUDA where the library is built without it.
#include <stdexcept>

#include "ops/grid_sampler_2d/problem.h"
#include "ops/grouped_bias_add/problem.h"
#include "ops/multi_scale_deformable_attention/problem.h"
#include "ops/nsa_compress/problem.h"
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

size_t workspace_size(const MultiScaleDeformableAttention&, const CudaLaunch&) {
  refuse();
}
size_t workspace_size(const MultiScaleDeformableAttentionGrad&, const CudaLaunch&) {
  refuse();
}
size_t workspace_size(const NsaCompress&, const CudaLaunch&) {
  refuse();
}
size_t workspace_size(const NsaCompressGrad&, const CudaLaunch&) {
  refuse();
}
size_t workspace_size(const GridSampler2D&, const CudaLaunch&) {
  refuse();
}
size_t workspace_size(const GridSampler2DBackward&, const CudaLaunch&) {
  refuse();
}
size_t workspace_size(const GroupedBiasAddGrad&, const CudaLaunch&) {
  refuse();
}

void multi_scale_deformable_attention(const MultiScaleDeformableAttention&, void*, const CudaLaunch&) {
  refuse();
}
void multi_scale_deformable_attention_grad(const MultiScaleDeformableAttentionGrad&, void*,
                                           const CudaLaunch&) {
  refuse();
}
void nsa_compress(const NsaCompress&, void*, const CudaLaunch&) {
  refuse();
}
void nsa_compress_grad(const NsaCompressGrad&, void*, const CudaLaunch&) {
  refuse();
}
void grid_sampler_2d(const GridSampler2D&, void*, const CudaLaunch&) {
  refuse();
}
void grid_sampler_2d_backward(const GridSampler2DBackward&, void*, const CudaLaunch&) {
  refuse();
}
void grouped_bias_add_grad(const GroupedBiasAddGrad&, void*, const CudaLaunch&) {
  refuse();
}

}  // namespace cuda
}  // namespace aclgrad
