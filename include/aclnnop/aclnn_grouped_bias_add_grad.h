// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Gradient of a bias that is added to groups of rows, from the document "aclnnGroupedBiasAddGrad".
#ifndef ACLGRAD_ACLNNOP_ACLNN_GROUPED_BIAS_ADD_GRAD_H
#define ACLGRAD_ACLNNOP_ACLNN_GROUPED_BIAS_ADD_GRAD_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Phase 1. Sums the rows of each of G groups:
///   out[g,h] = sum over rows r of group g of gradY[r,h]
///
///   gradY             [R, H] with groupIdxOptional, else [G, rows of a group, H]
///   groupIdxOptional  null, or [G], G <= 2048, INT32 or INT64: the row after the last of each group
///   out               out, [G, H]
/// gradY and out share one data type: FLOAT, FLOAT16 or BFLOAT16. The contents of groupIdxOptional are not
/// checked: ends are clamped to [0, R], an end below its start makes an empty group, rows after the last
/// group are ignored. An empty group gives zeros.
///
/// 161001  gradY or out is null
/// 161002  data type, number of axes, more than 2048 groups in groupIdxOptional, or sizes that disagree
/// An empty gradY succeeds; an out that is not empty is set to zero.
///
/// Deterministic on every device.
ACL_FUNC_VISIBILITY aclnnStatus aclnnGroupedBiasAddGradGetWorkspaceSize(const aclTensor* gradY,
                                                                        const aclTensor* groupIdxOptional,
                                                                        aclTensor* out,
                                                                        uint64_t* workspaceSize,
                                                                        aclOpExecutor** executor);

/// Phase 2, see aclnn/aclnn_base.h.
ACL_FUNC_VISIBILITY aclnnStatus aclnnGroupedBiasAddGrad(void* workspace, uint64_t workspaceSize,
                                                        aclOpExecutor* executor, aclrtStream stream);

/// Phase 1 of the second version, which says what groupIdxOptional holds.
///   groupIdxType  0 the row after the last of each group, as above; 1 the number of rows of each group
///
/// 161002  also, checked last, for any other groupIdxType
ACL_FUNC_VISIBILITY aclnnStatus aclnnGroupedBiasAddGradV2GetWorkspaceSize(
    const aclTensor* gradY, const aclTensor* groupIdxOptional, int64_t groupIdxType, aclTensor* out,
    uint64_t* workspaceSize, aclOpExecutor** executor);

/// Phase 2 of the second version, see aclnn/aclnn_base.h.
ACL_FUNC_VISIBILITY aclnnStatus aclnnGroupedBiasAddGradV2(void* workspace, uint64_t workspaceSize,
                                                          aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
