// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Tensor descriptions of the older single-operator interface. The aclnn operators use aclTensor instead.
#ifndef ACLGRAD_ACL_ACL_BASE_MDL_H
#define ACLGRAD_ACL_ACL_BASE_MDL_H

#include "acl_base_rt.h"
#include "error_codes/ge_error_codes.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclTensorDesc aclTensorDesc;

/// Copies `numDims` sizes from `dims`. Null for null `dims` with numDims > 0, a negative numDims, or when out
/// of memory. End with aclDestroyTensorDesc.
ACL_FUNC_VISIBILITY aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims,
                                                       aclFormat format);

/// Null is ignored.
ACL_FUNC_VISIBILITY void aclDestroyTensorDesc(const aclTensorDesc* desc);

/// ACL_DT_UNDEFINED for null.
ACL_FUNC_VISIBILITY aclDataType aclGetTensorDescType(const aclTensorDesc* desc);

/// ACL_FORMAT_UNDEFINED for null.
ACL_FUNC_VISIBILITY aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc);

/// Bytes of all elements; 0 for null, and where a size is negative or size_t cannot hold the bytes.
ACL_FUNC_VISIBILITY size_t aclGetTensorDescSize(const aclTensorDesc* desc);

/// Product of the sizes, 1 without dimensions; 0 for null, and where a size is negative or size_t cannot hold the
/// product.
ACL_FUNC_VISIBILITY size_t aclGetTensorDescElementCount(const aclTensorDesc* desc);

/// 0 for null.
ACL_FUNC_VISIBILITY size_t aclGetTensorDescNumDims(const aclTensorDesc* desc);

/// Null argument or `index` out of range: ACL_ERROR_INVALID_PARAM.
ACL_FUNC_VISIBILITY aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize);

#ifdef __cplusplus
}
#endif

#endif
