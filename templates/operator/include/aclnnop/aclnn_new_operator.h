// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Gradient of an elementwise product with respect to one of its factors.
#ifndef ACLGRAD_ACLNNOP_ACLNN_NEW_OPERATOR_H
#define ACLGRAD_ACLNNOP_ACLNN_NEW_OPERATOR_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Phase 1. The forward operator is y[r,c] = x[r,c] * other[r,c]; its gradient with respect to x is
///   out[r,c] = gradOutput[r,c] * other[r,c]
///
///   gradOutput  [R, C]
///   other       [R, C]
///   out         out, [R, C]
/// All share one data type: FLOAT, FLOAT16, BFLOAT16 or DOUBLE.
///
/// 161001  a tensor is null
/// 161002  data type, number of axes, or sizes that disagree
/// Empty tensors succeed.
///
/// Deterministic on every device.
ACL_FUNC_VISIBILITY aclnnStatus aclnnNewOperatorGetWorkspaceSize(const aclTensor* gradOutput,
                                                                 const aclTensor* other, aclTensor* out,
                                                                 uint64_t* workspaceSize,
                                                                 aclOpExecutor** executor);

/// Phase 2, see aclnn/aclnn_base.h.
ACL_FUNC_VISIBILITY aclnnStatus aclnnNewOperator(void* workspace, uint64_t workspaceSize,
                                                 aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
