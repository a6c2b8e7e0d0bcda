// Compiled as C11: the headers that C programs may include, and every function that they declare.
#include "acl/acl.h"
#include "acl/acl_base.h"
#include "acl/acl_base_mdl.h"
#include "acl/acl_base_rt.h"
#include "acl/acl_op.h"
#include "acl/acl_op_compiler.h"
#include "acl/acl_rt.h"
#include "acl/error_codes/ge_error_codes.h"
#include "acl/error_codes/rt_error_codes.h"
#include "aclnn/opdev/op_errno.h"
#include "hccl/hccl.h"
#include "hccl/hccl_types.h"

typedef void (*AnyFunction)(void);
extern const AnyFunction aclgrad_c_functions[];

const AnyFunction aclgrad_c_functions[] = {
    (AnyFunction)aclInit,
    (AnyFunction)aclFinalize,
    (AnyFunction)aclFinalizeReference,
    (AnyFunction)aclrtSetDevice,
    (AnyFunction)aclrtResetDevice,
    (AnyFunction)aclrtResetDeviceForce,
    (AnyFunction)aclrtGetDevice,
    (AnyFunction)aclrtGetDeviceCount,
    (AnyFunction)aclrtGetRunMode,
    (AnyFunction)aclrtSynchronizeDevice,
    (AnyFunction)aclrtSynchronizeDeviceWithTimeout,
    (AnyFunction)aclrtCreateContext,
    (AnyFunction)aclrtDestroyContext,
    (AnyFunction)aclrtSetCurrentContext,
    (AnyFunction)aclrtGetCurrentContext,
    (AnyFunction)aclrtCtxSetSysParamOpt,
    (AnyFunction)aclrtCtxGetSysParamOpt,
    (AnyFunction)aclrtSetSysParamOpt,
    (AnyFunction)aclrtGetSysParamOpt,
    (AnyFunction)aclrtCreateStream,
    (AnyFunction)aclrtCreateStreamWithConfig,
    (AnyFunction)aclrtDestroyStream,
    (AnyFunction)aclrtDestroyStreamForce,
    (AnyFunction)aclrtSynchronizeStream,
    (AnyFunction)aclrtSynchronizeStreamWithTimeout,
    (AnyFunction)aclrtStreamQuery,
    (AnyFunction)aclrtStreamWaitEvent,
    (AnyFunction)aclrtSetStreamFailureMode,
    (AnyFunction)aclrtCreateEvent,
    (AnyFunction)aclrtCreateEventWithFlag,
    (AnyFunction)aclrtCreateEventExWithFlag,
    (AnyFunction)aclrtDestroyEvent,
    (AnyFunction)aclrtRecordEvent,
    (AnyFunction)aclrtResetEvent,
    (AnyFunction)aclrtQueryEvent,
    (AnyFunction)aclrtQueryEventStatus,
    (AnyFunction)aclrtQueryEventWaitStatus,
    (AnyFunction)aclrtSynchronizeEvent,
    (AnyFunction)aclrtSynchronizeEventWithTimeout,
    (AnyFunction)aclrtEventElapsedTime,
    (AnyFunction)aclrtMalloc,
    (AnyFunction)aclrtMallocAlign32,
    (AnyFunction)aclrtMallocCached,
    (AnyFunction)aclrtMallocWithCfg,
    (AnyFunction)aclrtFree,
    (AnyFunction)aclrtMallocHost,
    (AnyFunction)aclrtFreeHost,
    (AnyFunction)aclrtMemcpy,
    (AnyFunction)aclrtMemcpyAsync,
    (AnyFunction)aclrtMemcpy2d,
    (AnyFunction)aclrtMemcpy2dAsync,
    (AnyFunction)aclrtMemset,
    (AnyFunction)aclrtMemsetAsync,
    (AnyFunction)aclrtGetMemInfo,
    (AnyFunction)aclGetRecentErrMsg,
    (AnyFunction)aclrtGetSocName,
    (AnyFunction)aclrtGetVersion,
    (AnyFunction)aclDataTypeSize,
    (AnyFunction)aclFloat16ToFloat,
    (AnyFunction)aclFloatToFloat16,
    (AnyFunction)aclrtPeekAtLastError,
    (AnyFunction)aclrtGetLastError,
    (AnyFunction)aclrtLaunchCallback,
    (AnyFunction)aclrtSubscribeReport,
    (AnyFunction)aclrtProcessReport,
    (AnyFunction)aclrtUnSubscribeReport,
    (AnyFunction)aclCreateTensorDesc,
    (AnyFunction)aclDestroyTensorDesc,
    (AnyFunction)aclGetTensorDescType,
    (AnyFunction)aclGetTensorDescFormat,
    (AnyFunction)aclGetTensorDescSize,
    (AnyFunction)aclGetTensorDescElementCount,
    (AnyFunction)aclGetTensorDescNumDims,
    (AnyFunction)aclGetTensorDescDimV2,
    (AnyFunction)aclCreateDataBuffer,
    (AnyFunction)aclDestroyDataBuffer,
    (AnyFunction)aclGetDataBufferAddr,
    (AnyFunction)aclGetDataBufferSizeV2,
    (AnyFunction)aclopCreateAttr,
    (AnyFunction)aclopDestroyAttr,
    (AnyFunction)aclopSetModelDir,
    (AnyFunction)aclopExecuteV2,
    (AnyFunction)aclopCompileAndExecute,
    (AnyFunction)aclopCompileAndExecuteV2,
    (AnyFunction)HcclCommInitAll,
    (AnyFunction)HcclGetCommName,
    (AnyFunction)HcclCommDestroy,
};

// The codes that are macros, and the enumerators, are constants of C too.
_Static_assert(ACL_ERROR_RT_CONTEXT_NULL == 107002, "macro");
_Static_assert(ACLNN_ERR_PARAM_NULLPTR == 161001, "macro");
_Static_assert(ACL_BF16 == 27, "enumerator");
