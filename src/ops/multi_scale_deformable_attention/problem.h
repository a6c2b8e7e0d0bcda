// Multi-scale deformable attention (MSDA) and its gradient: the C++ interface. See aclgrad/types.h, too.
//
// Each query q of head m samples P points from each of L levels (feature maps of different sizes) that lie
// one after the other in the rows of `value`, and sums the samples v with attention weights A:
//
//   output[b, q, m, c] = sum over l, p of A[b, q, m, l, p] * v(b, m, l, location[b, q, m, l, p])[c]
//
// A location (x, y) lies at pixel (x * width - 0.5, y * height - 0.5), and v interpolates bilinearly between
// the four pixels around it; those outside the level count as zero. A point that is not strictly between -1
// and the level's size on both axes, NaN included, does not count at all. With w the bilinear weights and G
// the gradient of output:
//
//   grad_value[b, pixel, m, c]           = sum over the points beside the pixel of w * A * G[b, q, m, c]
//   grad_attention_weight[b, q, m, l, p] = sum over c of G * v
//   grad_location[b, q, m, l, p]         = sum over c of A * G * (width * dv/dx, height * dv/dy)
//
// Pixel (y, x) of level l is row level_start_index[l] + y * width + x of value. These two index arrays may
// hold anything: a pixel whose row is outside [0, rows) counts as zero, and so does a level without height or
// width. Levels may overlap.
//
// Types: float32, float16, bfloat16 or float64, the same for all tensors but the index arrays. All arithmetic
// is in float, the coordinates included; results are rounded once, to nearest even. grad_value is summed in
// the order of the queries, for few heads in up to 8 pieces of them that are then added. With float64 all
// arithmetic is in double; that is for checks of gradients, and not fast.
// Deterministic: the same bits for any number of threads, any strides and every instruction set with fused
// multiply-add.
// On a CUDA GPU the bits of grad_value differ from run to run, unless the launch is deterministic; all else has the same.
// Unless it is deterministic, terms and sums of grad_value below 2^-126 (subnormal) count as zero there, except in double.
// Source: the two documents of aclnnMultiScaleDeformableAttentionGrad.
#pragma once

#include "aclgrad/types.h"

namespace aclgrad {

// Where the contiguous blocks of a tensor [batches, rows or queries, heads, block] lie: elements from one
// block to the next along each axis.
struct BlockStrides {
  int64_t batch = 0;
  int64_t row = 0;
  int64_t head = 0;

  static BlockStrides contiguous(int64_t rows, int64_t heads, int64_t block) {
    BlockStrides strides;
    strides.batch = rows * heads * block;
    strides.row = heads * block;
    strides.head = block;
    return strides;
  }
};

// What the operator and its gradient share. All sizes are at least 1.
struct MultiScaleDeformableSampling {
  DataType type = DataType::float32;
  int64_t batches = 0;
  int64_t rows = 0;  // of value, for all levels
  int64_t heads = 0;
  int64_t channels = 0;
  int64_t queries = 0;
  int64_t levels = 0;
  int64_t points = 0;

  const void* value = nullptr;  // [batches, rows, heads, channels]
  BlockStrides value_strides;
  IndexArray spatial_shape;      // [levels, 2]: height, width
  IndexArray level_start_index;  // [levels]
  const void* location =
      nullptr;  // [batches, queries, heads, levels * points * 2], the last axis being (x, y)
  BlockStrides location_strides;
  const void* attention_weight = nullptr;  // [batches, queries, heads, levels * points]
  BlockStrides attention_weight_strides;
};

struct MultiScaleDeformableAttention : MultiScaleDeformableSampling {
  void* output = nullptr;  // [batches, queries, heads, channels]
  BlockStrides output_strides;
};

struct MultiScaleDeformableAttentionGrad : MultiScaleDeformableSampling {
  const void* grad_output = nullptr;  // [batches, queries, heads, channels]
  BlockStrides grad_output_strides;

  // What is not wanted is neither computed nor written, and its pointer may be null.
  bool wants_grad_value = true;
  bool wants_grad_location = true;
  bool wants_grad_attention_weight = true;
  void* grad_value = nullptr;  // as value
  BlockStrides grad_value_strides;
  void* grad_location = nullptr;  // as location
  BlockStrides grad_location_strides;
  void* grad_attention_weight = nullptr;  // as attention_weight
  BlockStrides grad_attention_weight_strides;

  bool wants_points() const { return wants_grad_location || wants_grad_attention_weight; }
};

// Bytes of workspace that the operator needs; it must be 64-byte aligned. They follow from types, sizes and
// what is wanted; pointers may still be null.
ACLGRAD_API size_t workspace_size(const MultiScaleDeformableAttention& problem);
ACLGRAD_API size_t workspace_size(const MultiScaleDeformableAttentionGrad& problem);

// Estimate of the time on one thread.
ACLGRAD_API double serial_nanoseconds(const MultiScaleDeformableAttention& problem);
ACLGRAD_API double serial_nanoseconds(const MultiScaleDeformableAttentionGrad& problem);

ACLGRAD_API void multi_scale_deformable_attention(const MultiScaleDeformableAttention& problem,
                                                  void* workspace);
ACLGRAD_API void multi_scale_deformable_attention_grad(const MultiScaleDeformableAttentionGrad& problem,
                                                       void* workspace);

// The same on a CUDA GPU. They throw std::exception where CUDA refuses, or the library was built without CUDA.
namespace cuda {

ACLGRAD_API size_t workspace_size(const MultiScaleDeformableAttention& problem, const CudaLaunch& on);
ACLGRAD_API size_t workspace_size(const MultiScaleDeformableAttentionGrad& problem, const CudaLaunch& on);
ACLGRAD_API void multi_scale_deformable_attention(const MultiScaleDeformableAttention& problem,
                                                  void* workspace, const CudaLaunch& on);
ACLGRAD_API void multi_scale_deformable_attention_grad(const MultiScaleDeformableAttentionGrad& problem,
                                                       void* workspace, const CudaLaunch& on);

}  // namespace cuda

}  // namespace aclgrad
