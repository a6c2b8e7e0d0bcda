// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// What kernels that communicate by themselves ask for. There are none here: every call returns HCCL_E_NOT_SUPPORT, and
/// aclGetRecentErrMsg says so. Programs declare these functions themselves, so that hccl.h does not.
#ifndef ACLGRAD_HCCL_HCCL_COMM_RESOURCE_H
#define ACLGRAD_HCCL_HCCL_COMM_RESOURCE_H

#include "acl/acl.h"
#include "hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY HcclResult HcclCreateComResource(const char* commName, uint32_t streamMode,
                                                     void** commContext);
ACL_FUNC_VISIBILITY HcclResult HcclAllocComResourceByTiling(HcclComm comm, void* stream, void* mc2Tiling,
                                                            void** commContext);
ACL_FUNC_VISIBILITY HcclResult HcclGetAicpuOpStreamNotify(const char* commName, aclrtStream* opStream,
                                                          void** aicpuNotify);

#ifdef __cplusplus
}
#endif

#endif
