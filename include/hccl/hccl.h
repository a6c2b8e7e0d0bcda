// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// The communicator calls that single-device programs make. There is no communication behind them: a communicator of one
/// device has a name, no more. A null pointer is answered with HCCL_E_PTR; aclGetRecentErrMsg says more about a failure.
#ifndef ACLGRAD_HCCL_HCCL_H
#define ACLGRAD_HCCL_HCCL_H

#include <string.h>

#include "acl/acl.h"
#include "hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The communicator of one device, stored in `comms`. ndev 0: HCCL_E_PARA; more than one device: HCCL_E_NOT_SUPPORT. End
/// it with HcclCommDestroy.
ACL_FUNC_VISIBILITY HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms);

/// The communicator of the one device that the rank table in the JSON file `clusterInfo` lists, stored in `comm`. A file
/// that cannot be read: HCCL_E_OPEN_FILE_FAILURE; one without a server_list, or a rank other than 0: HCCL_E_PARA; more
/// than one device: HCCL_E_NOT_SUPPORT. End it with HcclCommDestroy.
ACL_FUNC_VISIBILITY HcclResult HcclCommInitClusterInfo(const char* clusterInfo, uint32_t rank,
                                                       HcclComm* comm);

/// The same with settings. HcclCommConfigInit has not set them first, or the name has no end mark: HCCL_E_PARA.
ACL_FUNC_VISIBILITY HcclResult HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank,
                                                             HcclCommConfig* config, HcclComm* comm);

/// Writes what HcclCommInitRootInfo takes. It means nothing to other processes.
ACL_FUNC_VISIBILITY HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo);

/// The communicator of one rank, stored in `comm`. nRanks 0, a rank other than 0, or a rootInfo that is not from
/// HcclGetRootInfo: HCCL_E_PARA; more than one rank: HCCL_E_NOT_SUPPORT. End it with HcclCommDestroy.
ACL_FUNC_VISIBILITY HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo,
                                                    uint32_t rank, HcclComm* comm);

/// The same with settings, as HcclCommInitClusterInfoConfig has them.
ACL_FUNC_VISIBILITY HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo,
                                                          uint32_t rank, const HcclCommConfig* config,
                                                          HcclComm* comm);

/// Sets the defaults, to be changed before the communicator is made.
static inline void HcclCommConfigInit(HcclCommConfig* config) {
  if (config == NULL) return;
  memset(config, 0, sizeof *config);
  memset(config->reserved, 0xF0, 4);  // marks the settings as initialised
  config->hcclBufferSize = 200;
}

/// Writes the group's name, at most 128 bytes with its end mark.
ACL_FUNC_VISIBILITY HcclResult HcclGetCommName(HcclComm comm, char* commName);

ACL_FUNC_VISIBILITY HcclResult HcclCommDestroy(HcclComm comm);

#ifdef __cplusplus
}
#endif

#endif
