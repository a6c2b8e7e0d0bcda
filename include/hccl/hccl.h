/// The three communicator calls that single-device programs make. There is no communication behind them: a
/// communicator of one device has a name, no more.
#ifndef ACLGRAD_HCCL_HCCL_H
#define ACLGRAD_HCCL_HCCL_H

#include "acl/acl.h"
#include "hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The communicator of one device, stored in `comms`. Null pointer: HCCL_E_PTR; ndev 0: HCCL_E_PARA; more than one
/// device: HCCL_E_NOT_SUPPORT. End it with HcclCommDestroy.
ACL_FUNC_VISIBILITY HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms);

/// Writes the group's name, at most 128 bytes with its end mark. Null pointer: HCCL_E_PTR.
ACL_FUNC_VISIBILITY HcclResult HcclGetCommName(HcclComm comm, char* commName);

/// Null: HCCL_E_PTR.
ACL_FUNC_VISIBILITY HcclResult HcclCommDestroy(HcclComm comm);

#ifdef __cplusplus
}
#endif

#endif
