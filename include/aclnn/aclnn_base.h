// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// What every aclnn operator shares.
///
/// An operator is two functions. Phase 1, aclnnXGetWorkspaceSize, checks the arguments, says how many bytes
/// of device memory the computation needs and makes an executor; nothing runs yet and no stream is needed.
/// Phase 2, aclnnX, takes that memory and queues the work on a stream, without waiting for it.
///
/// Phase 1 returns the first of these that applies, then what the operator's own header lists:
///   161001  workspaceSize or executor is null
/// It also returns 161002 if a tensor or array was destroyed or never made, or if a tensor's view leaves its
/// storage, and 561101 if there is no memory for the executor. After a failure there is no executor and
/// nothing to free. aclGetRecentErrMsg names the argument, what was expected and what came.
///
/// Phase 2 returns the first of these that applies, the same for all operators:
///   561103  executor is null
///   561000  executor was used up, is in use by another thread, or was never made
///   161002  executor is one of another operator, which can still run it
///   161001  memory is needed and workspace is null
///   161002  workspaceSize is smaller than phase 1 said
///   161001  a tensor that is read or written has no data
///   361001  the runtime refused, such as a thread without a context, a stream of another context, or a host out of
///           memory
/// The first three leave the executor as it is; success and the other failures free it unless it was made
/// repeatable (aclSetAclOpExecutorRepeatable). The workspace and the data must stay until the stream has run
/// the operator; the handles may go when phase 2 has returned. A null stream is the default stream of the
/// thread's context. Failures while it runs come out at the next synchronise.
///
/// Tensors may have any strides and offset of at least 0, but each element of an output has memory of its own. What
/// lies between the elements is not written. Formats do not change how the sizes are read, except NDHWC of the 3-D
/// grid sampler. FLOAT16 and BFLOAT16 are widened to float first, sums are in float, and results are rounded once,
/// to nearest, ties to even; DOUBLE is computed in double. With ACLGRAD_STRICT=1 in the environment a call is
/// refused if any edition of the documents refuses it ("strict" in the headers).
///
/// The calling thread needs 256 KiB of stack, and so do the threads of streams (`ulimit -s`).
///
/// On the CPU results are bitwise reproducible for any number of threads, run after run. On a GPU that holds for
/// operators that say so, and for all when ACL_OPT_DETERMINISTIC is 1 (see aclrtSetSysParamOpt).
#ifndef ACLGRAD_ACLNN_ACLNN_BASE_H
#define ACLGRAD_ACLNN_ACLNN_BASE_H

#include "acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Starts what the aclnn operators need, for programs that do not call aclInit; both may be called.
/// `configPath` as for aclInit.
ACL_FUNC_VISIBILITY aclnnStatus aclnnInit(const char* configPath);

/// Ends what aclnnInit began.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif
