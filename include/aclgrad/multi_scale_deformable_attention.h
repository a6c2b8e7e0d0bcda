// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Multi-scale deformable attention (MSDA) and its gradient: the C++ interface. See aclgrad/types.h, too.
//
// Each query q of head m takes P samples from each of L levels (feature maps of different sizes) that lie
// one after the other in the rows of `value`, and sums the samples v with attention weights A:
//
//   output[b, q, m, c] = sum over l, p of A[b, q, m, l, p] * v(b, m, l, sampling_locations[b, q, m, l, p])[c]
//
// A location (x, y) lies at pixel (x * width - 0.5, y * height - 0.5), and v interpolates bilinearly between
// the four pixels around it; those outside the level count as zero. A sample that is not strictly between -1
// and the level's size on both axes, NaN included, does not count at all. With w the bilinear weights and G
// the gradient of output:
//
//   grad_value[b, pixel, m, c]             = sum over the samples beside the pixel of w * A * G[b, q, m, c]
//   grad_attention_weights[b, q, m, l, p]  = sum over c of G * v
//   grad_sampling_locations[b, q, m, l, p] = sum over c of A * G * (width * dv/dx, height * dv/dy)
//
// The gradient of the gradient, the double backward, gets the gradients with respect to these three results, and computes
// those with respect to grad_output, value, sampling_locations and attention_weights. With T the sum over all elements of
// grad_grad_value * grad_value, plus the same for the other two results,
//
//   grad_grad_output = dT/dgrad_output, grad_value = dT/dvalue, ...
//
// The derivatives are those of the formulas above. Which pixels a sample lies between, and whether it counts, has
// derivative 0.
//
// Pixel (y, x) of level l is row level_start_index[l] + y * width + x of value. These two index arrays may
// hold anything: a pixel whose row is outside [0, rows) counts as zero, and so does a level without height or
// width. Levels may overlap.
//
// Types: float32, float16, bfloat16 or float64, the same for all tensors but the index arrays. All arithmetic
// is in float, the coordinates included; results are rounded once, to nearest even. grad_value is summed in
// the order of the queries, for few heads in up to 8 pieces of them that are then added. With float64 all
// arithmetic is in double; that is for checks of gradients, and not fast.
// Deterministic: bitwise the same results for any number of threads, any strides and every instruction set with fused
// multiply-add.
// On a CUDA GPU the bits of grad_value differ from run to run, unless the launch is deterministic; all else has the same.
// Unless it is deterministic, terms and sums of grad_value below 2^-126 (subnormal) count as zero there, except in double.
// Source: the two documents of aclnnMultiScaleDeformableAttentionGrad.
#pragma once

#include "aclgrad/types.h"

namespace aclgrad {

// What the operator and its gradient share. All extents are at least 1. The axes after `heads` lie side by side.
struct MultiScaleDeformableSampling {
  ConstTensor value;               // [batches, rows of all levels, heads, channels]
  ConstTensor spatial_shapes;      // [levels, 2]: height, width; int32 or int64, contiguous
  ConstTensor level_start_index;   // [levels], int32 or int64, contiguous
  ConstTensor sampling_locations;  // [batches, queries, heads, levels, samples, 2]: x, y
  ConstTensor attention_weights;   // [batches, queries, heads, levels, samples]

  constexpr int64_t batches() const { return value.size(0); }
  constexpr int64_t rows() const { return value.size(1); }
  constexpr int64_t heads() const { return value.size(2); }
  constexpr int64_t channels() const { return value.size(3); }
  constexpr int64_t queries() const { return sampling_locations.size(1); }
  constexpr int64_t levels() const { return sampling_locations.size(3); }
  constexpr int64_t samples() const { return sampling_locations.size(4); }  // of each level
};

struct MultiScaleDeformableAttention : MultiScaleDeformableSampling {
  Tensor output;  // [batches, queries, heads, channels]
};

struct MultiScaleDeformableAttentionBackward : MultiScaleDeformableSampling {
  ConstTensor grad_output;         // [batches, queries, heads, channels]
  Tensor grad_value;               // as value, if wanted
  Tensor grad_sampling_locations;  // as sampling_locations, if wanted
  Tensor grad_attention_weights;   // as attention_weights, if wanted
};

// On the CPU only.
struct MultiScaleDeformableAttentionDoubleBackward : MultiScaleDeformableSampling {
  ConstTensor grad_output;  // [batches, queries, heads, channels]

  // Each may be left out, and is zero then.
  ConstTensor grad_grad_value;               // as value
  ConstTensor grad_grad_sampling_locations;  // as sampling_locations
  ConstTensor grad_grad_attention_weights;   // as attention_weights

  Tensor grad_grad_output;         // as grad_output, if wanted
  Tensor grad_value;               // as value, if wanted
  Tensor grad_sampling_locations;  // as sampling_locations, if wanted
  Tensor grad_attention_weights;   // as attention_weights, if wanted
};

// Bytes of workspace that the operator needs. They follow from types, shapes and what is wanted.
ACLGRAD_API size_t workspace_size(const MultiScaleDeformableAttention& problem);
ACLGRAD_API size_t workspace_size(const MultiScaleDeformableAttentionBackward& problem);
ACLGRAD_API size_t workspace_size(const MultiScaleDeformableAttentionDoubleBackward& problem);

ACLGRAD_API void multi_scale_deformable_attention(const MultiScaleDeformableAttention& problem,
                                                  const WorkspaceView& workspace);
ACLGRAD_API void multi_scale_deformable_attention_backward(
    const MultiScaleDeformableAttentionBackward& problem, const WorkspaceView& workspace);
ACLGRAD_API void multi_scale_deformable_attention_double_backward(
    const MultiScaleDeformableAttentionDoubleBackward& problem, const WorkspaceView& workspace);

// The operator and its gradient on a CUDA GPU. They throw std::exception where CUDA refuses, or the library was built
// without CUDA.
namespace cuda {

ACLGRAD_API size_t workspace_size(const MultiScaleDeformableAttention& problem, const CudaLaunch& on);
ACLGRAD_API size_t workspace_size(const MultiScaleDeformableAttentionBackward& problem, const CudaLaunch& on);
ACLGRAD_API void multi_scale_deformable_attention(const MultiScaleDeformableAttention& problem,
                                                  const WorkspaceView& workspace, const CudaLaunch& on);
ACLGRAD_API void multi_scale_deformable_attention_backward(
    const MultiScaleDeformableAttentionBackward& problem, const WorkspaceView& workspace,
    const CudaLaunch& on);

}  // namespace cuda

}  // namespace aclgrad
