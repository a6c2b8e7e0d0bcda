// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Key compression of native sparse attention, the forward partner of aclnnNsaCompressGrad.
#ifndef ACLGRAD_ACLNNOP_ACLNN_NSA_COMPRESS_H
#define ACLGRAD_ACLNNOP_ACLNN_NSA_COMPRESS_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Phase 1. Mathematics, sizes and parameters as in aclnn_nsa_compress_grad.h, except that actSeqLenOptional
/// must have entries, that layoutOptional must be given, and that compressStride may equal compressBlockSize,
/// strict or not.
///   output  out, [windows of all sequences, N, D]; without any window [0, N, D]
///
/// 161001  input, weight or output is null
/// 161002  data type, number of axes, empty input or weight, sizes that disagree, attribute, or sequence ends
///
/// Deterministic on every device.
ACL_FUNC_VISIBILITY aclnnStatus aclnnNsaCompressGetWorkspaceSize(
    const aclTensor* input, const aclTensor* weight, const aclIntArray* actSeqLenOptional,
    char* layoutOptional, int64_t compressBlockSize, int64_t compressStride, int64_t actSeqLenType,
    aclTensor* output, uint64_t* workspaceSize, aclOpExecutor** executor);

/// Phase 2, see aclnn/aclnn_base.h.
ACL_FUNC_VISIBILITY aclnnStatus aclnnNsaCompress(void* workspace, uint64_t workspaceSize,
                                                 aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
