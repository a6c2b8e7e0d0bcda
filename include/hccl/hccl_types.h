// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Types of the collective-communication interface.
#ifndef ACLGRAD_HCCL_HCCL_TYPES_H
#define ACLGRAD_HCCL_HCCL_TYPES_H

#include <stdint.h>

typedef enum HcclResult {
  HCCL_SUCCESS = 0,
  HCCL_E_PARA = 1,
  HCCL_E_PTR = 2,
  HCCL_E_MEMORY = 3,
  HCCL_E_INTERNAL = 4,
  HCCL_E_NOT_SUPPORT = 5,
  HCCL_E_NOT_FOUND = 6,
  HCCL_E_UNAVAIL = 7,
  HCCL_E_SYSCALL = 8,
  HCCL_E_TIMEOUT = 9,
  HCCL_E_OPEN_FILE_FAILURE = 10,
} HcclResult;

typedef void* HcclComm;

#define HCCL_COMM_CONFIG_INFO_BYTES 24
#define COMM_NAME_MAX_LENGTH 128
#define UDI_MAX_LENGTH 128
#define HCCL_ROOT_INFO_BYTES 4108

/// What HcclGetRootInfo gives to one rank, and that rank to the others.
typedef struct HcclRootInfoDef {
  char internal[HCCL_ROOT_INFO_BYTES];
} HcclRootInfo;

/// Settings of a communicator, with defaults from HcclCommConfigInit. The name is used here, and nothing else.
typedef struct HcclCommConfigDef {
  char reserved[HCCL_COMM_CONFIG_INFO_BYTES];
  uint32_t hcclBufferSize;  ///< in MiB
  uint32_t hcclDeterministic;
  char hcclCommName[COMM_NAME_MAX_LENGTH];  ///< with its end mark; empty: the library chooses a name
  char hcclUdi[UDI_MAX_LENGTH];
  uint32_t hcclOpExpansionMode;
  uint32_t hcclRdmaTrafficClass;
  uint32_t hcclRdmaServiceLevel;
  uint32_t hcclWorldRankID;
  uint64_t hcclJobID;
} HcclCommConfig;

#endif
