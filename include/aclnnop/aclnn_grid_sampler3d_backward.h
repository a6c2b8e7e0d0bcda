// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Gradient of three-dimensional grid sampling: what aclnn_grid_sampler2d_backward.h is to images, for volumes.
#ifndef ACLGRAD_ACLNNOP_ACLNN_GRID_SAMPLER3D_BACKWARD_H
#define ACLGRAD_ACLNNOP_ACLNN_GRID_SAMPLER3D_BACKWARD_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Phase 1. The forward operator aclnnGridSampler3D reads `input` at the samples of `grid`. A coordinate x
/// from -1 to 1 lies at voxel (x + 1) / 2 * (W - 1) with alignCorners, else at ((x + 1) * W - 1) / 2; y alike
/// with H, and z with D. With interpolation weights w:
///   output[n,c,i,j,k] = sum over taps of w * input[n,c,tap]
///   inputGrad[tap]    = sum of w * gradOutput over the samples that read it
///   gridGrad          = sum over c and taps of dw/d(x, y, z) * input * gradOutput; zero for nearest
/// A coordinate that is not finite contributes nothing, except that border padding moves an infinity to the
/// border. A finite coordinate of any size is padded like any other.
///
///   gradOutput         [N, C, Do, Ho, Wo]
///   input              [N, C, D, H, W]; D, H and W not 0
///   grid               [N, Do, Ho, Wo, 3], (x, y, z)
///   interpolationMode  0 trilinear, 1 nearest (ties to even)
///   paddingMode        samples outside: 0 count as zero, 1 move to the border, 2 are reflected
///   alignCorners       whether -1 and 1 mean the centres of the outermost voxels, or their outer faces
///   outputMask         {inputGrad, gridGrad}: what is false is neither computed nor written
///   inputGrad          out, as input
///   gridGrad           out, as grid
/// All tensors share one data type: FLOAT, FLOAT16, BFLOAT16 or DOUBLE. Where the format of input is NDHWC, the
/// axes of input, gradOutput and inputGrad are [N, D, H, W, C]; not with DOUBLE. Other formats have no effect.
///
/// 161001  a tensor is null, masked off or not
/// 161002  data type, format, mode, number of axes, sizes that disagree, or a mask without two entries
/// A null mask computes nothing and succeeds before the tensors are looked at; {false, false} succeeds after
/// the checks. Empty tensors succeed; outputs that are asked for and not empty are set to zero.
///
/// On a GPU deterministic only with ACL_OPT_DETERMINISTIC.
ACL_FUNC_VISIBILITY aclnnStatus aclnnGridSampler3DBackwardGetWorkspaceSize(
    const aclTensor* gradOutput, const aclTensor* input, const aclTensor* grid, int64_t interpolationMode,
    int64_t paddingMode, bool alignCorners, const aclBoolArray* outputMask, aclTensor* inputGrad,
    aclTensor* gridGrad, uint64_t* workspaceSize, aclOpExecutor** executor);

/// Phase 2, see aclnn/aclnn_base.h.
ACL_FUNC_VISIBILITY aclnnStatus aclnnGridSampler3DBackward(void* workspace, uint64_t workspaceSize,
                                                           aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
