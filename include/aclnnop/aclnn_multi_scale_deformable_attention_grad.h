// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Gradient of multi-scale deformable attention, from the documents "aclnnMultiScaleDeformableAttentionGrad"
/// and "MultiScaleDeformableAttentionGrad".
#ifndef ACLGRAD_ACLNNOP_ACLNN_MULTI_SCALE_DEFORMABLE_ATTENTION_GRAD_H
#define ACLGRAD_ACLNNOP_ACLNN_MULTI_SCALE_DEFORMABLE_ATTENTION_GRAD_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Phase 1. The forward operator is aclnnMultiScaleDeformableAttnFunction: each query q of head m takes P
/// samples from each of L levels, by bilinear interpolation with weights w over the corners inside the level:
///   output[b,q,m,c] = sum over l, p of attnWeight[b,q,m,l,p] * sum over corners of w * value[b,corner,m,c]
/// A sampling location (x, y) of level (H, W) lies at pixel (x*W - 0.5, y*H - 0.5). One that is not strictly
/// between -1 and the level's size on both axes, NaN included, contributes nothing. The gradients:
///   gradValue[corner] = sum of w * attnWeight * gradOutput
///   gradAttnWeight    = sum over c of gradOutput * sum over corners of w * value
///   gradLocation      = sum over c of attnWeight * gradOutput * (W * dv/dx, H * dv/dy), v interpolated
///
/// Sizes: bs batches, S rows of value, M heads, C channels, Q queries, L levels, P points.
///   value            [bs, S, M, C]
///   spatialShape     [L, 2]               INT32 or INT64, rows (H, W)
///   levelStartIndex  [L]                  INT32 or INT64, first row of each level in value
///   location         [bs, Q, M, L, P, 2]  (x, y), 0 to 1 inside the level
///   attnWeight       [bs, Q, M, L, P]
///   gradOutput       [bs, Q, M, C] or [bs, Q, M*C]
///   gradValue        out, as value
///   gradLocation     out, as location
///   gradAttnWeight   out, as attnWeight
/// All but the two integer tensors share one data type: FLOAT, FLOAT16 or BFLOAT16. The contents of
/// spatialShape and levelStartIndex are not checked: corners whose row is outside [0, S) are skipped.
///
/// Limits: C a multiple of 8 and at most 256, Q < 500000, L, M, P <= 16; strict: also L < 10, bs <= 32,
/// C + P + L <= 512.
///
/// 161001  any tensor is null
/// 161002  data type, number of axes, limit, sizes that disagree, or format FRACTAL_NZ
/// An empty input succeeds with workspace 0; outputs that are not empty are set to zero.
///
/// On a GPU deterministic only with ACL_OPT_DETERMINISTIC.
ACL_FUNC_VISIBILITY aclnnStatus aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(
    const aclTensor* value, const aclTensor* spatialShape, const aclTensor* levelStartIndex,
    const aclTensor* location, const aclTensor* attnWeight, const aclTensor* gradOutput, aclTensor* gradValue,
    aclTensor* gradLocation, aclTensor* gradAttnWeight, uint64_t* workspaceSize, aclOpExecutor** executor);

/// Phase 2, see aclnn/aclnn_base.h.
ACL_FUNC_VISIBILITY aclnnStatus aclnnMultiScaleDeformableAttentionGrad(void* workspace,
                                                                       uint64_t workspaceSize,
                                                                       aclOpExecutor* executor,
                                                                       aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
