// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Three-dimensional grid sampling, the forward partner of aclnnGridSampler3DBackward.
#ifndef ACLGRAD_ACLNNOP_ACLNN_GRID_SAMPLER3D_H
#define ACLGRAD_ACLNNOP_ACLNN_GRID_SAMPLER3D_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Phase 1. Mathematics and parameters as in aclnn_grid_sampler3d_backward.h.
///   out  out, [N, C, Do, Ho, Wo]
/// All tensors share one data type: FLOAT, FLOAT16, BFLOAT16 or DOUBLE. Coordinates that are not finite count as in
/// aclnn_grid_sampler2d.h. The formats of input and out are ND, NCDHW or NDHWC. Where that of input is NDHWC, the
/// axes of both are [N, D, H, W, C], whatever the format of out says; not with DOUBLE.
///
/// 161001  a tensor is null
/// 161002  data type, format, mode, number of axes, or sizes that disagree; strict: NDHWC other than with
///         FLOAT, mode 0 and a multiple of 4 channels
/// Empty tensors succeed.
///
/// Deterministic on every device.
ACL_FUNC_VISIBILITY aclnnStatus aclnnGridSampler3DGetWorkspaceSize(
    const aclTensor* input, const aclTensor* grid, int64_t interpolationMode, int64_t paddingMode,
    bool alignCorners, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);

/// Phase 2, see aclnn/aclnn_base.h.
ACL_FUNC_VISIBILITY aclnnStatus aclnnGridSampler3D(void* workspace, uint64_t workspaceSize,
                                                   aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
