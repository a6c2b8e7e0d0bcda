// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Tensors, scalars, arrays and executors: what the aclnn operators take.
///
/// Objects made here are descriptions in host memory: creating one copies the sizes and values it is given,
/// but never touches or owns device memory. A handle must live until phase 2 of the operator has returned,
/// not until the stream has run. Functions that return aclnnStatus return ACLNN_ERR_PARAM_NULLPTR (161001)
/// for a null pointer (but destroying null succeeds), and ACLNN_ERR_PARAM_INVALID (161002) for a handle that
/// was destroyed or never made. Functions that create an object return null after a failure.
#ifndef ACLGRAD_ACLNN_ACL_META_H
#define ACLGRAD_ACLNN_ACL_META_H

#include <stdint.h>
#include <stdlib.h>
#ifdef __cplusplus  // C++ programs find the names in std, too
#include <cstdint>
#include <cstdlib>
#endif

#include "acl/acl_base.h"
#include "opdev/op_errno.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t aclnnStatus;  ///< ACLNN_SUCCESS, or one of the codes in opdev/op_errno.h.
static const aclnnStatus OK = 0;

typedef struct aclOpExecutor aclOpExecutor;
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;

// ---- Tensors ----

/// A view of device memory. Element (i, j, ...) is element offset + i*stride[0] + j*stride[1] + ... of the
/// storage; `offset` and strides count elements.
///
/// viewDims     sizes of the view; may be null only for viewDimsNum 0, which is a scalar
/// stride       null: row-major without gaps; 0, of inputs alone, repeats an element along an axis
/// storageDims  sizes of the memory behind the view, often the same as viewDims
/// tensorData   start of that memory, not of the view; may be null, to be set later
///
/// Null for null sizes with a positive count, or when out of memory. Whether an operator takes the data type,
/// format and shape is checked in its phase 1. End with aclDestroyTensor, or through a list.
ACL_FUNC_VISIBILITY aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum,
                                               aclDataType dataType, const int64_t* stride, int64_t offset,
                                               aclFormat format, const int64_t* storageDims,
                                               uint64_t storageDimsNum, void* tensorData);

/// Describes an existing tensor anew; a null address keeps the old one.
ACL_FUNC_VISIBILITY aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims,
                                              uint64_t viewDimsNum, aclDataType dataType,
                                              const int64_t* stride, int64_t offset, aclFormat format,
                                              const int64_t* storageDims, uint64_t storageDimsNum,
                                              void* tensorDataAddr);

/// Frees the handle; the device memory stays.
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyTensor(const aclTensor* tensor);

// The arrays that these three hand out are new[]-allocated: the caller must delete[] them, also where their
// length is 0.
ACL_FUNC_VISIBILITY aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims,
                                                uint64_t* viewDimsNum);
ACL_FUNC_VISIBILITY aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue,
                                                  uint64_t* stridesNum);
ACL_FUNC_VISIBILITY aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims,
                                                   uint64_t* storageDimsNum);

/// In elements.
ACL_FUNC_VISIBILITY aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset);
/// Format of the view.
ACL_FUNC_VISIBILITY aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format);
ACL_FUNC_VISIBILITY aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType);

/// Changes or reads where the storage starts, outside an executor: before phase 1 or after phase 2.
ACL_FUNC_VISIBILITY aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr);
ACL_FUNC_VISIBILITY aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr);

// ---- Scalars and arrays: copies of host values; size 0 is allowed ----

/// Copies one value of `dataType`.
ACL_FUNC_VISIBILITY aclScalar* aclCreateScalar(void* value, aclDataType dataType);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyScalar(const aclScalar* scalar);

ACL_FUNC_VISIBILITY aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyIntArray(const aclIntArray* array);
ACL_FUNC_VISIBILITY aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size);

ACL_FUNC_VISIBILITY aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyFloatArray(const aclFloatArray* array);
ACL_FUNC_VISIBILITY aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size);

ACL_FUNC_VISIBILITY aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyBoolArray(const aclBoolArray* array);
ACL_FUNC_VISIBILITY aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size);

// ---- Lists: own their members; destroying a list destroys these too ----

ACL_FUNC_VISIBILITY aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyTensorList(const aclTensorList* array);
ACL_FUNC_VISIBILITY aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size);

ACL_FUNC_VISIBILITY aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyScalarList(const aclScalarList* array);
ACL_FUNC_VISIBILITY aclnnStatus aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size);

// ---- Executors: what phase 1 of an operator hands to phase 2 ----
// A null executor or tensor is ACLNN_ERR_INNER_NULLPTR (561103) here; an executor that is gone, in use by
// another thread or was never made is ACLNN_ERR_INNER (561000).

/// Called between phase 1 and phase 2, keeps the executor from being freed by phase 2, so that phase 2 may
/// run again and again; end with aclDestroyAclOpExecutor. An operator that cannot: ACLNN_ERR_INNER (561000).
ACL_FUNC_VISIBILITY aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor);

/// Frees a repeatable executor. Not an executor: ACLNN_ERR_INNER (561000).
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor);
/// The same, under a name that some programs use. After a phase 2 that freed the executor there is nothing left to
/// free: ACLNN_ERR_INNER (561000).
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyOpExecutor(aclOpExecutor* executor);

// The next phase 2 reads argument `index` at `addr`. Members of a list argument count one by one. A tensor
// that is changed in place is an input and an output, and has one address. The index is out of range, or
// that argument was null in phase 1: ACLNN_ERR_PARAM_INVALID (161002).
/// `index` counts inputs, then outputs.
ACL_FUNC_VISIBILITY aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index,
                                                 aclTensor* tensor, void* addr);
/// `index` counts inputs.
ACL_FUNC_VISIBILITY aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index,
                                                      aclTensor* tensor, void* addr);
/// `index` counts outputs.
ACL_FUNC_VISIBILITY aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index,
                                                       aclTensor* tensor, void* addr);

// The same for member `relativeIndex` of the list that is argument `irIndex`. Past the end of the list:
// 161002.
/// `irIndex` counts inputs, then outputs.
ACL_FUNC_VISIBILITY aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                                        const size_t relativeIndex, aclTensorList* tensors,
                                                        void* addr);
/// `irIndex` counts inputs.
ACL_FUNC_VISIBILITY aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                                             const size_t relativeIndex,
                                                             aclTensorList* tensors, void* addr);
/// `irIndex` counts outputs.
ACL_FUNC_VISIBILITY aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                                              const size_t relativeIndex,
                                                              aclTensorList* tensors, void* addr);

// The same six, with a capital A, as some programs call them.
ACL_FUNC_VISIBILITY aclnnStatus AclSetTensorAddr(aclOpExecutor* executor, const size_t index,
                                                 aclTensor* tensor, void* addr);
ACL_FUNC_VISIBILITY aclnnStatus AclSetInputTensorAddr(aclOpExecutor* executor, const size_t index,
                                                      aclTensor* tensor, void* addr);
ACL_FUNC_VISIBILITY aclnnStatus AclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index,
                                                       aclTensor* tensor, void* addr);
ACL_FUNC_VISIBILITY aclnnStatus AclSetDynamicTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                                        const size_t relativeIndex, aclTensorList* tensors,
                                                        void* addr);
ACL_FUNC_VISIBILITY aclnnStatus AclSetDynamicInputTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                                             const size_t relativeIndex,
                                                             aclTensorList* tensors, void* addr);
ACL_FUNC_VISIBILITY aclnnStatus AclSetDynamicOutputTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                                              const size_t relativeIndex,
                                                              aclTensorList* tensors, void* addr);

/// Would queue a dump of an operator's tensors, inputs first, then outputs. Not supported: always
/// ACL_ERROR_API_NOT_SUPPORT (200001).
ACL_FUNC_VISIBILITY aclnnStatus aclDumpOpTensors(const char* opType, const char* opName, aclTensor** tensors,
                                                 size_t inputTensorNum, size_t outputTensorNum,
                                                 aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
