// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Grid sampling in two and three dimensions and its gradient: the C++ interface. See aclgrad/types.h, too. The first
// part is about images; the last paragraph is about volumes.
//
// Every sample reads one position of the image, between pixels. A grid coordinate x from -1 to 1 lies at pixel
//
//   (x + 1) / 2 * (W - 1)      with align_corners,
//   ((x + 1) * W - 1) / 2      without,
//
// and y alike with H, each operation rounded to the arithmetic type. With taps t and their weights w, a product of one
// weight for each axis,
//
//   output[n, c, i, j]     = sum over t of w(t) * input[n, c, t]
//   grad_input[n, c, t]    = sum over the samples (i, j) that read t of w(t) * grad_output[n, c, i, j]
//   grad_grid[n, i, j, :]  = sum over c and t of dw(t)/d(x, y) * input[n, c, t] * grad_output[n, c, i, j]
//
// bilinear  2 x 2 taps around the sample.
// nearest   the nearest pixel, ties to even. grad_grid is zero.
// bicubic   4 x 4 taps, convolution with A = -0.75.
//
// Padding says what a position outside of the image reads. Bilinear and nearest pad the sample, bicubic each tap.
// zeros       nothing.
// border      the nearest pixel of the border. From the border on, grad_grid is zero (not for bicubic).
// reflection  the image mirrored at the centres of its outermost pixels with align_corners, else at their outer edges.
//
// A finite coordinate of any size is no special case: border and reflection bring it to a pixel, forward and backward.
// A sample whose position in pixels is NaN or infinite:
//
//   interpolation      padding       output               gradients
//   bilinear, nearest  zeros         zero                 none
//   bilinear, nearest  border        NaN: at 0;           NaN: none;
//                                    infinity: at the     infinity: those of a sample at the border
//                                    border
//   bilinear, nearest  reflection    at 0                 none
//   bicubic            any           NaN                  none
//
// "At 0": along the axis of that coordinate the sample lies at pixel 0. "None": the sample adds nothing to grad_input, and
// its grad_grid is zero. No grid makes a kernel access other memory.
//
// Positions are rounded to the arithmetic type, and mirrored without a further rounding error. From 2^24 pixels on (double:
// 2^53) the neighbours of a bicubic tap are the same number: all taps of an axis read one pixel, and grad_grid is zero.
//
// Types: all tensors float32, float16, bfloat16 or float64. Arithmetic is in float, for float64 in double; results are
// rounded once, to nearest, ties to even. grad_input adds up in the order of the samples; grad_grid adds up over 16 channels or
// fewer at a time.
// Deterministic: bitwise the same results for any number of threads, any strides and any instruction set with fused
// multiply-add.
// On a CUDA GPU grad_input may differ from run to run, unless the launch is deterministic; all else is bitwise reproducible.
// Unless it is deterministic, terms and sums of grad_input below 2^-126 (subnormal) count as zero there, except in double.
// Source: the document of aclnnGridSampler2DBackward.
//
// Second derivatives: where the gradient is itself differentiated, v and u are the gradients with respect to
// its results grad_input and grad_grid. With dw(t) = dw(t)/d(x, y) . u(n, i, j, :),
//
//   grad_grad_output[n, c, i, j] = sum over t of w(t) * v[n, c, t] + dw(t) * input[n, c, t]
//   grad_input[n, c, t]          = sum over the samples (i, j) that read t of dw(t) * grad_output[n, c, i, j]
//   grad_grid[n, i, j, :]        = sum over c and t of (dw(t)/d(x, y) * v[n, c, t]
//                                      + d(dw(t))/d(x, y) * input[n, c, t]) * grad_output[n, c, i, j]
//
// Rounding down, clipping, mirroring and the choice of the nearest pixel have derivative zero. A sample that contributes
// nothing to the gradients contributes nothing here. Along an axis on which a sample is clipped u counts as zero. On CPUs
// only.
//
// Three dimensions: a grid has coordinates (x, y, z), and z lies at voxels of the depth D as x and y do at those of W and
// H. A bilinear (trilinear) sample has 2 x 2 x 2 taps, a nearest one reads the nearest voxel; there is no bicubic.
// Paddings, positions that are not finite, types, rounding, determinism and second derivatives are as above.
#pragma once

#include "aclgrad/types.h"

namespace aclgrad {

enum class Interpolation : int32_t { bilinear = 0, nearest = 1, bicubic = 2 };
enum class Padding : int32_t { zeros = 0, border = 1, reflection = 2 };

// What forward operator and gradient have in common. Any extent may be 0, but the forward operator needs a pixel for what
// it samples. Any strides of at least 0; images may have their channels last.
struct GridSampling {
  ConstTensor input;  // [N, C, H, W]; H and W at most 2^30 - 128
  ConstTensor grid;   // [N, Ho, Wo, 2] as (x, y)
  Interpolation interpolation = Interpolation::bilinear;
  Padding padding = Padding::zeros;
  bool align_corners = false;
};

struct GridSampler2D : GridSampling {
  Tensor output;  // [N, C, Ho, Wo]
};

struct GridSampler2DBackward : GridSampling {
  ConstTensor grad_output;  // [N, C, Ho, Wo]
  Tensor grad_input;        // as input, if wanted
  Tensor grad_grid;         // as grid, if wanted
};

// The gradient of GridSampler2DBackward. grad_grad_input and grad_grad_grid count as zero where they are left out.
struct GridSampler2DDoubleBackward : GridSampling {
  ConstTensor grad_output;      // [N, C, Ho, Wo]
  ConstTensor grad_grad_input;  // v, as input
  ConstTensor grad_grad_grid;   // u, as grid
  Tensor grad_grad_output;      // as grad_output, if wanted
  Tensor grad_input;            // as input, if wanted
  Tensor grad_grid;             // as grid, if wanted
};

// The same of volumes: input [N, C, D, H, W], grid [N, Do, Ho, Wo, 3] as (x, y, z), output [N, C, Do, Ho, Wo]. D, H and W
// are at most 2^30 - 128, and there is no bicubic interpolation.
struct GridSampler3D : GridSampling {
  Tensor output;
};

struct GridSampler3DBackward : GridSampling {
  ConstTensor grad_output;
  Tensor grad_input;
  Tensor grad_grid;
};

struct GridSampler3DDoubleBackward : GridSampling {
  ConstTensor grad_output;
  ConstTensor grad_grad_input;
  ConstTensor grad_grad_grid;
  Tensor grad_grad_output;
  Tensor grad_input;
  Tensor grad_grid;
};

// Bytes of workspace that the operator needs. They follow from types, shapes, strides and what is wanted.
ACLGRAD_API size_t workspace_size(const GridSampler2D& problem);
ACLGRAD_API size_t workspace_size(const GridSampler2DBackward& problem);
ACLGRAD_API size_t workspace_size(const GridSampler2DDoubleBackward& problem);
ACLGRAD_API size_t workspace_size(const GridSampler3D& problem);
ACLGRAD_API size_t workspace_size(const GridSampler3DBackward& problem);
ACLGRAD_API size_t workspace_size(const GridSampler3DDoubleBackward& problem);

ACLGRAD_API void grid_sampler_2d(const GridSampler2D& problem, const WorkspaceView& workspace);
ACLGRAD_API void grid_sampler_2d_backward(const GridSampler2DBackward& problem,
                                          const WorkspaceView& workspace);
ACLGRAD_API void grid_sampler_2d_double_backward(const GridSampler2DDoubleBackward& problem,
                                                 const WorkspaceView& workspace);
ACLGRAD_API void grid_sampler_3d(const GridSampler3D& problem, const WorkspaceView& workspace);
ACLGRAD_API void grid_sampler_3d_backward(const GridSampler3DBackward& problem,
                                          const WorkspaceView& workspace);
ACLGRAD_API void grid_sampler_3d_double_backward(const GridSampler3DDoubleBackward& problem,
                                                 const WorkspaceView& workspace);

// The same on a CUDA GPU, but for second derivatives. They throw std::exception where CUDA refuses, or the library was
// built without CUDA.
namespace cuda {

ACLGRAD_API size_t workspace_size(const GridSampler2D& problem, const CudaLaunch& on);
ACLGRAD_API size_t workspace_size(const GridSampler2DBackward& problem, const CudaLaunch& on);
ACLGRAD_API size_t workspace_size(const GridSampler3D& problem, const CudaLaunch& on);
ACLGRAD_API size_t workspace_size(const GridSampler3DBackward& problem, const CudaLaunch& on);
ACLGRAD_API void grid_sampler_2d(const GridSampler2D& problem, const WorkspaceView& workspace,
                                 const CudaLaunch& on);
ACLGRAD_API void grid_sampler_2d_backward(const GridSampler2DBackward& problem,
                                          const WorkspaceView& workspace, const CudaLaunch& on);
ACLGRAD_API void grid_sampler_3d(const GridSampler3D& problem, const WorkspaceView& workspace,
                                 const CudaLaunch& on);
ACLGRAD_API void grid_sampler_3d_backward(const GridSampler3DBackward& problem,
                                          const WorkspaceView& workspace, const CudaLaunch& on);

}  // namespace cuda

}  // namespace aclgrad
