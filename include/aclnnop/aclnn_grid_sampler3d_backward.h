// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Gradient of three-dimensional grid sampling: what aclnn_grid_sampler2d_backward.h is to images, for volumes.
#ifndef ACLGRAD_ACLNNOP_ACLNN_GRID_SAMPLER3D_BACKWARD_H
#define ACLGRAD_ACLNNOP_ACLNN_GRID_SAMPLER3D_BACKWARD_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Phase 1. Mathematics and parameters as in aclnn_grid_sampler2d_backward.h, with voxels for pixels: z lies with D
/// as y with H, and gridGrad is with respect to (x, y, z).
///
///   gradOutput         [N, C, Do, Ho, Wo]
///   input              [N, C, D, H, W]; D, H and W not 0
///   grid               [N, Do, Ho, Wo, 3], (x, y, z)
///   interpolationMode  0 trilinear, 1 nearest (ties to even)
/// All tensors share one data type: FLOAT, FLOAT16, BFLOAT16 or DOUBLE. Where the format of input is NDHWC, the
/// axes of input, gradOutput and inputGrad are [N, D, H, W, C]; not with DOUBLE. Other formats have no effect.
///
/// 161001  a tensor is null, masked off or not
/// 161002  data type, format, mode, number of axes, sizes that disagree, or a mask without two entries
/// Null masks and empty tensors as there.
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
