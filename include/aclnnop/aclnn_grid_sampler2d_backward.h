// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Gradient of two-dimensional grid sampling, from the document "aclnnGridSampler2DBackward".
#ifndef ACLGRAD_ACLNNOP_ACLNN_GRID_SAMPLER2D_BACKWARD_H
#define ACLGRAD_ACLNNOP_ACLNN_GRID_SAMPLER2D_BACKWARD_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Phase 1. The forward operator aclnnGridSampler2D reads `input` at the samples of `grid`. A coordinate x
/// from -1 to 1 lies at pixel (x + 1) / 2 * (W - 1) with alignCorners, else at ((x + 1) * W - 1) / 2; y alike
/// with H. With interpolation weights w:
///   output[n,c,i,j] = sum over taps of w * input[n,c,tap]
///   inputGrad[tap]  = sum of w * gradOutput over the samples that read it
///   gridGrad        = sum over c and taps of dw/d(x, y) * input * gradOutput; zero for nearest
/// A coordinate that is not finite contributes nothing, except that border padding moves an infinity to the
/// border with bilinear and nearest, unless its axis has one pixel and corners are aligned. A finite coordinate
/// of any size is padded like any other.
///
///   gradOutput         [N, C, Ho, Wo]
///   input              [N, C, H, W], H and W not 0
///   grid               [N, Ho, Wo, 2], (x, y)
///   interpolationMode  0 bilinear, 1 nearest (ties to even), 2 bicubic (strict: refused)
///   paddingMode        taps outside: 0 count as zero, 1 move to the border, 2 are reflected
///   alignCorners       whether -1 and 1 mean the centres of the outermost pixels, or their outer edges
///   outputMask         {inputGrad, gridGrad}: what is false is neither computed nor written
///   inputGrad          out, as input
///   gridGrad           out, as grid
/// All tensors share one data type: FLOAT, FLOAT16, BFLOAT16 or DOUBLE (strict: not DOUBLE).
///
/// 161001  a tensor is null, masked off or not
/// 161002  data type, mode, number of axes, sizes that disagree, or a mask without two entries
/// A null mask computes nothing and succeeds before the tensors are looked at; {false, false} succeeds after
/// the checks. Empty tensors succeed; outputs that are asked for and not empty are set to zero.
///
/// On a GPU deterministic only with ACL_OPT_DETERMINISTIC.
ACL_FUNC_VISIBILITY aclnnStatus aclnnGridSampler2DBackwardGetWorkspaceSize(
    const aclTensor* gradOutput, const aclTensor* input, const aclTensor* grid, int64_t interpolationMode,
    int64_t paddingMode, bool alignCorners, const aclBoolArray* outputMask, aclTensor* inputGrad,
    aclTensor* gridGrad, uint64_t* workspaceSize, aclOpExecutor** executor);

/// Phase 2, see aclnn/aclnn_base.h.
ACL_FUNC_VISIBILITY aclnnStatus aclnnGridSampler2DBackward(void* workspace, uint64_t workspaceSize,
                                                           aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
