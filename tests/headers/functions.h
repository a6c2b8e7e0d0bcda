// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The exact type of every public function but the operators', which their descriptions state. HAS_TYPE(function, type) is
// what c11.c and cxx11.cpp make of it.
#include "acl/acl.h"
#include "acl/acl_base.h"
#include "acl/acl_base_mdl.h"
#include "acl/acl_base_rt.h"
#include "acl/acl_op.h"
#include "acl/acl_op_compiler.h"
#include "acl/acl_rt.h"
#include "acl/error_codes/ge_error_codes.h"
#include "acl/error_codes/rt_error_codes.h"
#include "aclnn/acl_meta.h"
#include "aclnn/aclnn_base.h"
#include "aclnn/opdev/op_errno.h"
#include "aclnnop/aclnn_util.h"
#include "hccl/hccl.h"
#include "hccl/hccl_comm_resource.h"
#include "hccl/hccl_types.h"
#include "securec.h"

// Process / device / context
HAS_TYPE(aclInit, aclError(const char*));
HAS_TYPE(aclFinalize, aclError());
HAS_TYPE(aclFinalizeReference, aclError(uint64_t*));
HAS_TYPE(aclnnInit, aclnnStatus(const char*));
HAS_TYPE(aclnnFinalize, aclnnStatus());
HAS_TYPE(aclrtSetDevice, aclError(int32_t));
HAS_TYPE(aclrtResetDevice, aclError(int32_t));
HAS_TYPE(aclrtResetDeviceForce, aclError(int32_t));
HAS_TYPE(aclrtGetDevice, aclError(int32_t*));
HAS_TYPE(aclrtGetDeviceCount, aclError(uint32_t*));
HAS_TYPE(aclrtGetDeviceInfo, aclError(uint32_t, aclrtDevAttr, int64_t*));
HAS_TYPE(aclrtGetRunMode, aclError(aclrtRunMode*));
HAS_TYPE(aclrtSynchronizeDevice, aclError());
HAS_TYPE(aclrtSynchronizeDeviceWithTimeout, aclError(int32_t));
HAS_TYPE(aclrtCreateContext, aclError(aclrtContext*, int32_t));
HAS_TYPE(aclrtDestroyContext, aclError(aclrtContext));
HAS_TYPE(aclrtSetCurrentContext, aclError(aclrtContext));
HAS_TYPE(aclrtGetCurrentContext, aclError(aclrtContext*));
HAS_TYPE(aclrtCtxSetSysParamOpt, aclError(aclSysParamOpt, int64_t));
HAS_TYPE(aclrtCtxGetSysParamOpt, aclError(aclSysParamOpt, int64_t*));
HAS_TYPE(aclrtSetSysParamOpt, aclError(aclSysParamOpt, int64_t));
HAS_TYPE(aclrtGetSysParamOpt, aclError(aclSysParamOpt, int64_t*));

// Streams and events
HAS_TYPE(aclrtCreateStream, aclError(aclrtStream*));
HAS_TYPE(aclrtCreateStreamWithConfig, aclError(aclrtStream*, uint32_t, uint32_t));
HAS_TYPE(aclrtDestroyStream, aclError(aclrtStream));
HAS_TYPE(aclrtDestroyStreamForce, aclError(aclrtStream));
HAS_TYPE(aclrtSynchronizeStream, aclError(aclrtStream));
HAS_TYPE(aclrtSynchronizeStreamWithTimeout, aclError(aclrtStream, int32_t));
HAS_TYPE(aclrtStreamQuery, aclError(aclrtStream, aclrtStreamStatus*));
HAS_TYPE(aclrtStreamWaitEvent, aclError(aclrtStream, aclrtEvent));
HAS_TYPE(aclrtSetStreamFailureMode, aclError(aclrtStream, uint64_t));
HAS_TYPE(aclrtCreateEvent, aclError(aclrtEvent*));
HAS_TYPE(aclrtCreateEventWithFlag, aclError(aclrtEvent*, uint32_t));
HAS_TYPE(aclrtCreateEventExWithFlag, aclError(aclrtEvent*, uint32_t));
HAS_TYPE(aclrtDestroyEvent, aclError(aclrtEvent));
HAS_TYPE(aclrtRecordEvent, aclError(aclrtEvent, aclrtStream));
HAS_TYPE(aclrtResetEvent, aclError(aclrtEvent, aclrtStream));
HAS_TYPE(aclrtQueryEvent, aclError(aclrtEvent, aclrtEventStatus*));
HAS_TYPE(aclrtQueryEventStatus, aclError(aclrtEvent, aclrtEventRecordedStatus*));
HAS_TYPE(aclrtQueryEventWaitStatus, aclError(aclrtEvent, aclrtEventWaitStatus*));
HAS_TYPE(aclrtSynchronizeEvent, aclError(aclrtEvent));
HAS_TYPE(aclrtSynchronizeEventWithTimeout, aclError(aclrtEvent, int32_t));
HAS_TYPE(aclrtEventElapsedTime, aclError(float*, aclrtEvent, aclrtEvent));

// Memory
HAS_TYPE(aclrtMalloc, aclError(void**, size_t, aclrtMemMallocPolicy));
HAS_TYPE(aclrtMallocAlign32, aclError(void**, size_t, aclrtMemMallocPolicy));
HAS_TYPE(aclrtMallocCached, aclError(void**, size_t, aclrtMemMallocPolicy));
HAS_TYPE(aclrtMallocWithCfg, aclError(void**, size_t, aclrtMemMallocPolicy, aclrtMallocConfig*));
HAS_TYPE(aclrtFree, aclError(void*));
HAS_TYPE(aclrtMallocHost, aclError(void**, size_t));
HAS_TYPE(aclrtFreeHost, aclError(void*));
HAS_TYPE(aclrtMemcpy, aclError(void*, size_t, const void*, size_t, aclrtMemcpyKind));
HAS_TYPE(aclrtMemcpyAsync, aclError(void*, size_t, const void*, size_t, aclrtMemcpyKind, aclrtStream));
HAS_TYPE(aclrtMemcpy2d, aclError(void*, size_t, const void*, size_t, size_t, size_t, aclrtMemcpyKind));
HAS_TYPE(aclrtMemcpy2dAsync,
         aclError(void*, size_t, const void*, size_t, size_t, size_t, aclrtMemcpyKind, aclrtStream));
HAS_TYPE(aclrtMemset, aclError(void*, size_t, int32_t, size_t));
HAS_TYPE(aclrtMemsetAsync, aclError(void*, size_t, int32_t, size_t, aclrtStream));
HAS_TYPE(aclrtGetMemInfo, aclError(aclrtMemAttr, size_t*, size_t*));

// Misc
HAS_TYPE(aclGetRecentErrMsg, const char*());
HAS_TYPE(aclrtGetSocName, const char*());
HAS_TYPE(aclrtGetVersion, aclError(int32_t*, int32_t*, int32_t*));
HAS_TYPE(aclDataTypeSize, size_t(aclDataType));
HAS_TYPE(aclFloat16ToFloat, float(aclFloat16));
HAS_TYPE(aclFloatToFloat16, aclFloat16(float));
HAS_TYPE(aclrtPeekAtLastError, aclError(aclrtLastErrLevel));
HAS_TYPE(aclrtGetLastError, aclError(aclrtLastErrLevel));
HAS_TYPE(aclrtLaunchCallback, aclError(aclrtCallback, void*, aclrtCallbackBlockType, aclrtStream));
HAS_TYPE(aclrtSubscribeReport, aclError(uint64_t, aclrtStream));
HAS_TYPE(aclrtProcessReport, aclError(int32_t));
HAS_TYPE(aclrtUnSubscribeReport, aclError(uint64_t, aclrtStream));

// Meta objects
HAS_TYPE(aclCreateTensor, aclTensor*(const int64_t*, uint64_t, aclDataType, const int64_t*, int64_t,
                                     aclFormat, const int64_t*, uint64_t, void*));
HAS_TYPE(aclDestroyTensor, aclnnStatus(const aclTensor*));
HAS_TYPE(aclInitTensor, aclnnStatus(aclTensor*, const int64_t*, uint64_t, aclDataType, const int64_t*,
                                    int64_t, aclFormat, const int64_t*, uint64_t, void*));
HAS_TYPE(aclCreateScalar, aclScalar*(void*, aclDataType));
HAS_TYPE(aclDestroyScalar, aclnnStatus(const aclScalar*));
HAS_TYPE(aclCreateIntArray, aclIntArray*(const int64_t*, uint64_t));
HAS_TYPE(aclDestroyIntArray, aclnnStatus(const aclIntArray*));
HAS_TYPE(aclCreateFloatArray, aclFloatArray*(const float*, uint64_t));
HAS_TYPE(aclDestroyFloatArray, aclnnStatus(const aclFloatArray*));
HAS_TYPE(aclCreateBoolArray, aclBoolArray*(const bool*, uint64_t));
HAS_TYPE(aclDestroyBoolArray, aclnnStatus(const aclBoolArray*));
HAS_TYPE(aclCreateTensorList, aclTensorList*(const aclTensor* const*, uint64_t));
HAS_TYPE(aclDestroyTensorList, aclnnStatus(const aclTensorList*));
HAS_TYPE(aclCreateScalarList, aclScalarList*(const aclScalar* const*, uint64_t));
HAS_TYPE(aclDestroyScalarList, aclnnStatus(const aclScalarList*));
HAS_TYPE(aclGetViewShape, aclnnStatus(const aclTensor*, int64_t**, uint64_t*));
HAS_TYPE(aclGetViewStrides, aclnnStatus(const aclTensor*, int64_t**, uint64_t*));
HAS_TYPE(aclGetViewOffset, aclnnStatus(const aclTensor*, int64_t*));
HAS_TYPE(aclGetStorageShape, aclnnStatus(const aclTensor*, int64_t**, uint64_t*));
HAS_TYPE(aclGetFormat, aclnnStatus(const aclTensor*, aclFormat*));
HAS_TYPE(aclGetDataType, aclnnStatus(const aclTensor*, aclDataType*));
HAS_TYPE(aclGetIntArraySize, aclnnStatus(const aclIntArray*, uint64_t*));
HAS_TYPE(aclGetFloatArraySize, aclnnStatus(const aclFloatArray*, uint64_t*));
HAS_TYPE(aclGetBoolArraySize, aclnnStatus(const aclBoolArray*, uint64_t*));
HAS_TYPE(aclGetTensorListSize, aclnnStatus(const aclTensorList*, uint64_t*));
HAS_TYPE(aclGetScalarListSize, aclnnStatus(const aclScalarList*, uint64_t*));
HAS_TYPE(aclSetRawTensorAddr, aclnnStatus(aclTensor*, void*));
HAS_TYPE(aclGetRawTensorAddr, aclnnStatus(const aclTensor*, void**));

// Executor
HAS_TYPE(aclSetAclOpExecutorRepeatable, aclnnStatus(aclOpExecutor*));
HAS_TYPE(aclDestroyAclOpExecutor, aclnnStatus(aclOpExecutor*));
HAS_TYPE(aclDestroyOpExecutor, aclnnStatus(aclOpExecutor*));
HAS_TYPE(aclSetTensorAddr, aclnnStatus(aclOpExecutor*, const size_t, aclTensor*, void*));
HAS_TYPE(aclSetInputTensorAddr, aclnnStatus(aclOpExecutor*, const size_t, aclTensor*, void*));
HAS_TYPE(aclSetOutputTensorAddr, aclnnStatus(aclOpExecutor*, const size_t, aclTensor*, void*));
HAS_TYPE(aclSetDynamicTensorAddr, aclnnStatus(aclOpExecutor*, size_t, const size_t, aclTensorList*, void*));
HAS_TYPE(aclSetDynamicInputTensorAddr,
         aclnnStatus(aclOpExecutor*, size_t, const size_t, aclTensorList*, void*));
HAS_TYPE(aclSetDynamicOutputTensorAddr,
         aclnnStatus(aclOpExecutor*, size_t, const size_t, aclTensorList*, void*));
HAS_TYPE(aclDumpOpTensors, aclnnStatus(const char*, const char*, aclTensor**, size_t, size_t, aclrtStream));
HAS_TYPE(AclSetTensorAddr, aclnnStatus(aclOpExecutor*, const size_t, aclTensor*, void*));
HAS_TYPE(AclSetInputTensorAddr, aclnnStatus(aclOpExecutor*, const size_t, aclTensor*, void*));
HAS_TYPE(AclSetOutputTensorAddr, aclnnStatus(aclOpExecutor*, const size_t, aclTensor*, void*));
HAS_TYPE(AclSetDynamicTensorAddr, aclnnStatus(aclOpExecutor*, size_t, const size_t, aclTensorList*, void*));
HAS_TYPE(AclSetDynamicInputTensorAddr,
         aclnnStatus(aclOpExecutor*, size_t, const size_t, aclTensorList*, void*));
HAS_TYPE(AclSetDynamicOutputTensorAddr,
         aclnnStatus(aclOpExecutor*, size_t, const size_t, aclTensorList*, void*));

// Legacy TensorDesc / DataBuffer
HAS_TYPE(aclCreateTensorDesc, aclTensorDesc*(aclDataType, int, const int64_t*, aclFormat));
HAS_TYPE(aclDestroyTensorDesc, void(const aclTensorDesc*));
HAS_TYPE(aclGetTensorDescType, aclDataType(const aclTensorDesc*));
HAS_TYPE(aclGetTensorDescFormat, aclFormat(const aclTensorDesc*));
HAS_TYPE(aclGetTensorDescSize, size_t(const aclTensorDesc*));
HAS_TYPE(aclGetTensorDescElementCount, size_t(const aclTensorDesc*));
HAS_TYPE(aclGetTensorDescNumDims, size_t(const aclTensorDesc*));
HAS_TYPE(aclGetTensorDescDimV2, aclError(const aclTensorDesc*, size_t, int64_t*));
HAS_TYPE(aclCreateDataBuffer, aclDataBuffer*(void*, size_t));
HAS_TYPE(aclDestroyDataBuffer, aclError(const aclDataBuffer*));
HAS_TYPE(aclGetDataBufferAddr, void*(const aclDataBuffer*));
HAS_TYPE(aclGetDataBufferSizeV2, size_t(const aclDataBuffer*));
HAS_TYPE(aclopCreateAttr, aclopAttr*());
HAS_TYPE(aclopDestroyAttr, void(const aclopAttr*));
HAS_TYPE(aclopSetModelDir, aclError(const char*));
HAS_TYPE(aclopExecuteV2, aclError(const char*, int, aclTensorDesc**, aclDataBuffer**, int, aclTensorDesc**,
                                  aclDataBuffer**, aclopAttr*, aclrtStream));
HAS_TYPE(aclopCompileAndExecute,
         aclError(const char*, int, const aclTensorDesc* const*, const aclDataBuffer* const*, int,
                  const aclTensorDesc* const*, aclDataBuffer* const*, const aclopAttr*, aclopEngineType,
                  aclopCompileType, const char*, aclrtStream));
HAS_TYPE(aclopCompileAndExecuteV2,
         aclError(const char*, int, aclTensorDesc**, aclDataBuffer**, int, aclTensorDesc**, aclDataBuffer**,
                  aclopAttr*, aclopEngineType, aclopCompileType, const char*, aclrtStream));

// Collective communication
HAS_TYPE(HcclCommInitAll, HcclResult(uint32_t, int32_t*, HcclComm*));
HAS_TYPE(HcclGetCommName, HcclResult(HcclComm, char*));
HAS_TYPE(HcclCommDestroy, HcclResult(HcclComm));
HAS_TYPE(HcclCommInitClusterInfo, HcclResult(const char*, uint32_t, HcclComm*));
HAS_TYPE(HcclCommInitClusterInfoConfig, HcclResult(const char*, uint32_t, HcclCommConfig*, HcclComm*));
HAS_TYPE(HcclGetRootInfo, HcclResult(HcclRootInfo*));
HAS_TYPE(HcclCommInitRootInfo, HcclResult(uint32_t, const HcclRootInfo*, uint32_t, HcclComm*));
HAS_TYPE(HcclCommInitRootInfoConfig,
         HcclResult(uint32_t, const HcclRootInfo*, uint32_t, const HcclCommConfig*, HcclComm*));
HAS_TYPE(HcclCommConfigInit, void(HcclCommConfig*));
HAS_TYPE(HcclCreateComResource, HcclResult(const char*, uint32_t, void**));
HAS_TYPE(HcclAllocComResourceByTiling, HcclResult(HcclComm, void*, void*, void**));
HAS_TYPE(HcclGetAicpuOpStreamNotify, HcclResult(const char*, aclrtStream*, void**));

// Bounds-checked functions
HAS_TYPE(memset_s, errno_t(void*, size_t, int, size_t));
HAS_TYPE(memcpy_s, errno_t(void*, size_t, const void*, size_t));
HAS_TYPE(memmove_s, errno_t(void*, size_t, const void*, size_t));
HAS_TYPE(strcpy_s, errno_t(char*, size_t, const char*));
HAS_TYPE(strncpy_s, errno_t(char*, size_t, const char*, size_t));
HAS_TYPE(strcat_s, errno_t(char*, size_t, const char*));
HAS_TYPE(strncat_s, errno_t(char*, size_t, const char*, size_t));
HAS_TYPE(strtok_s, char*(char*, const char*, char**));
