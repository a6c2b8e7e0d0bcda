// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Gradient of the key compression of native sparse attention, from the document
/// "aclnnNsaCompressGrad".
#ifndef ACLGRAD_ACLNNOP_ACLNN_NSA_COMPRESS_GRAD_H
#define ACLGRAD_ACLNNOP_ACLNN_NSA_COMPRESS_GRAD_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Phase 1. The forward operator aclnnNsaCompress slides a window of B = compressBlockSize tokens over each
/// sequence in steps of compressStride and sums each window with weights:
///   output[k,n,d] = sum over j < B of weight[j,n] * input[start_k + j, n, d]
/// A sequence of n >= B tokens has (n - B) / compressStride + 1 windows, a shorter one none. The gradients:
///   inputGrad[t,n,d] = sum over windows k that cover t of weight[t - start_k, n] * outputGrad[k,n,d]
///   weightGrad[j,n]  = sum over k and d of outputGrad[k,n,d] * input[start_k + j, n, d]
/// A token that no window covers gets an exact zero.
///
/// Sizes: T tokens of all sequences together, N heads, D channels of a head.
///   outputGrad         [windows of all sequences, N, D]
///   input              [T, N, D]
///   weight             [B, N]
///   actSeqLenOptional  the ends of the sequences, non-decreasing, the last is T; null or empty: one sequence
///   compressBlockSize  a positive multiple of 16
///   compressStride     a positive multiple of 16, at most compressBlockSize (strict: less)
///   actSeqLenType      0
///   layoutOptional     "TND", or null for the same
///   inputGradOut       out, as input
///   weightGradOut      out, as weight
/// All tensors share one data type, FLOAT16 or BFLOAT16; none may be empty. D is a multiple of 16.
///
/// 161001  outputGrad, input, weight or an output is null
/// 161002  data type, number of axes, empty tensor, sizes that disagree, attribute, or sequence ends
///
/// Deterministic on every device.
ACL_FUNC_VISIBILITY aclnnStatus aclnnNsaCompressGradGetWorkspaceSize(
    const aclTensor* outputGrad, const aclTensor* input, const aclTensor* weight,
    const aclIntArray* actSeqLenOptional, int64_t compressBlockSize, int64_t compressStride,
    int64_t actSeqLenType, char* layoutOptional, const aclTensor* inputGradOut,
    const aclTensor* weightGradOut, uint64_t* workspaceSize, aclOpExecutor** executor);

/// Phase 1 with the ends of the sequences on the device: actSeqLenOptional is INT64 with one axis. They are
/// read when the operator runs; what is wrong with them then comes out at the next synchronise, as 507015.
/// Phase 2 is aclnnNsaCompressGrad.
ACL_FUNC_VISIBILITY aclnnStatus aclnnNsaCompressGradTensorGetWorkspaceSize(
    const aclTensor* outputGrad, const aclTensor* input, const aclTensor* weight,
    const aclTensor* actSeqLenOptional, int64_t compressBlockSize, int64_t compressStride,
    int64_t actSeqLenType, char* layoutOptional, const aclTensor* inputGradOut,
    const aclTensor* weightGradOut, uint64_t* workspaceSize, aclOpExecutor** executor);

/// Phase 2, see aclnn/aclnn_base.h.
ACL_FUNC_VISIBILITY aclnnStatus aclnnNsaCompressGrad(void* workspace, uint64_t workspaceSize,
                                                     aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
