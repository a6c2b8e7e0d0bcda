// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Multi-scale deformable attention, the forward partner of
/// aclnnMultiScaleDeformableAttentionGrad.
#ifndef ACLGRAD_ACLNNOP_ACLNN_MULTI_SCALE_DEFORMABLE_ATTN_FUNCTION_H
#define ACLGRAD_ACLNNOP_ACLNN_MULTI_SCALE_DEFORMABLE_ATTN_FUNCTION_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Phase 1. Mathematics, sizes and tensors as in aclnn_multi_scale_deformable_attention_grad.h. The outer
/// sum is over the levels, the inner one over the samples of a level.
///   levelStartIndex  may have more than L entries
///   output           out, [bs, Q, M*C] or [bs, Q, M, C]
/// The five float tensors share one data type: FLOAT, FLOAT16 or BFLOAT16.
///
/// Limits: C a multiple of 8 and at most 256, L, M, P <= 16; strict: also Q >= 32.
///
/// 161001  any tensor is null
/// 161002  data type, number of axes, limit, sizes that disagree, or format FRACTAL_NZ
/// An empty input succeeds with workspace 0; an output that is not empty is set to zero.
///
/// Deterministic on every device.
ACL_FUNC_VISIBILITY aclnnStatus aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(
    const aclTensor* value, const aclTensor* spatialShape, const aclTensor* levelStartIndex,
    const aclTensor* location, const aclTensor* attnWeight, aclTensor* output, uint64_t* workspaceSize,
    aclOpExecutor** executor);

/// Phase 2, see aclnn/aclnn_base.h.
ACL_FUNC_VISIBILITY aclnnStatus aclnnMultiScaleDeformableAttnFunction(void* workspace, uint64_t workspaceSize,
                                                                      aclOpExecutor* executor,
                                                                      aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
