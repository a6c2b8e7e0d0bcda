// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Two-dimensional grid sampling, the forward partner of aclnnGridSampler2DBackward.
#ifndef ACLGRAD_ACLNNOP_ACLNN_GRID_SAMPLER2D_H
#define ACLGRAD_ACLNNOP_ACLNN_GRID_SAMPLER2D_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Phase 1. Mathematics and parameters as in aclnn_grid_sampler2d_backward.h.
///   out  out, [N, C, Ho, Wo]
/// All tensors share one data type: FLOAT, FLOAT16, BFLOAT16 or DOUBLE, the last not with bicubic. A
/// coordinate that is not finite gives NaN with bicubic; else 0 with zeros padding, and with the others the
/// position of pixel 0 along its axis, except that border padding moves an infinity to the border.
///
/// 161001  a tensor is null
/// 161002  data type, mode, number of axes, or sizes that disagree
/// Empty tensors succeed.
///
/// Deterministic on every device.
ACL_FUNC_VISIBILITY aclnnStatus aclnnGridSampler2DGetWorkspaceSize(
    const aclTensor* input, const aclTensor* grid, int64_t interpolationMode, int64_t paddingMode,
    bool alignCorners, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);

/// Phase 2, see aclnn/aclnn_base.h.
ACL_FUNC_VISIBILITY aclnnStatus aclnnGridSampler2D(void* workspace, uint64_t workspaceSize,
                                                   aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
