/// Types of the collective-communication interface.
#ifndef ACLGRAD_HCCL_HCCL_TYPES_H
#define ACLGRAD_HCCL_HCCL_TYPES_H

typedef enum HcclResult {
  HCCL_SUCCESS = 0,
  HCCL_E_PARA = 1,
  HCCL_E_PTR = 2,
  HCCL_E_MEMORY = 3,
  HCCL_E_INTERNAL = 4,
  HCCL_E_NOT_SUPPORT = 5,
} HcclResult;

typedef void* HcclComm;

#endif
