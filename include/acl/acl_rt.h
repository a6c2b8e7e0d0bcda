// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// The runtime: process, devices, contexts, streams, events, memory.
///
/// Unless noted, a function returns ACL_SUCCESS, or one of these, about which aclGetRecentErrMsg says more:
///   ACL_ERROR_INVALID_PARAM           100000: a pointer to a result is null
///   ACL_ERROR_RT_CONTEXT_NULL         107002: the thread has no context, and the function needs one
///   ACL_ERROR_RT_STREAM_CONTEXT       107003: the stream was destroyed, or work is queued in another context
///   ACL_ERROR_RT_INVALID_HANDLE       107017: the event or the context was destroyed
///   ACL_ERROR_RT_FEATURE_NOT_SUPPORT  207000: this library, or the device, does not have the feature
/// Sizes are in bytes, time-outs in milliseconds; a time-out of -1 waits for ever.
#ifndef ACLGRAD_ACL_ACL_RT_H
#define ACLGRAD_ACL_ACL_RT_H

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Process ----

/// Starts the library. `configPath` names a JSON file, or is null for the defaults. A repeated call returns
/// ACL_ERROR_REPEAT_INITIALIZE (100002), which may be ignored. Unreadable file: 100003; bad JSON, or more than 100
/// levels of it: 100006; another configuration than the process's first aclInit had, or a default_device that is not
/// an integer: 100000; no device of that number: 107001.
ACL_FUNC_VISIBILITY aclError aclInit(const char* configPath);

/// Ends what aclInit began, however often it was called. Without a matching aclInit:
/// ACL_ERROR_REPEAT_FINALIZE (100037). aclInit may follow again.
ACL_FUNC_VISIBILITY aclError aclFinalize(void);

/// Takes back one aclInit and stores how many are left; the last one ends the library.
ACL_FUNC_VISIBILITY aclError aclFinalizeReference(uint64_t* refCount);

/// Version of the interface.
ACL_FUNC_VISIBILITY aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion,
                                             int32_t* patchVersion);

/// Hands out the calling thread's error messages, newest first, and clears them. Null when there are none.
/// The text stays valid until the thread's next call of this function.
ACL_FUNC_VISIBILITY const char* aclGetRecentErrMsg(void);

typedef enum aclrtLastErrLevel { ACL_RT_THREAD_LEVEL = 0 } aclrtLastErrLevel;

/// Returns the calling thread's last runtime error and keeps it.
ACL_FUNC_VISIBILITY aclError aclrtPeekAtLastError(aclrtLastErrLevel level);

/// Returns the calling thread's last runtime error and clears it.
ACL_FUNC_VISIBILITY aclError aclrtGetLastError(aclrtLastErrLevel level);

// ---- Devices ----

typedef enum aclrtRunMode { ACL_DEVICE = 0, ACL_HOST = 1 } aclrtRunMode;

typedef enum aclrtDeviceStatus {
  ACL_RT_DEVICE_STATUS_NORMAL = 0,
  ACL_RT_DEVICE_STATUS_ABNORMAL = 1,
  ACL_RT_DEVICE_STATUS_END = 0xFFFF,
} aclrtDeviceStatus;

typedef enum aclrtDevAttr {
  ACL_DEV_ATTR_AICORE_CORE_NUM = 101,
  ACL_DEV_ATTR_CUBE_CORE_NUM = 102,
  ACL_DEV_ATTR_VECTOR_CORE_NUM = 201,
  ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301,
  ACL_DEV_ATTR_L2_CACHE_SIZE = 302,
} aclrtDevAttr;

typedef enum aclrtFloatOverflowMode {
  ACL_RT_OVERFLOW_MODE_SATURATION = 0,
  ACL_RT_OVERFLOW_MODE_INFNAN = 1,
  ACL_RT_OVERFLOW_MODE_UNDEF = 2,
} aclrtFloatOverflowMode;

/// Makes the device's default context, which all threads share, current in the calling thread; counted, see
/// aclrtResetDevice. Unknown device: ACL_ERROR_RT_INVALID_DEVICEID (107001).
ACL_FUNC_VISIBILITY aclError aclrtSetDevice(int32_t deviceId);

/// Takes back one aclrtSetDevice; the last one waits for the work of the default context, and frees it. One call too
/// many: 107002.
ACL_FUNC_VISIBILITY aclError aclrtResetDevice(int32_t deviceId);

/// As aclrtResetDevice, whatever the count.
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceForce(int32_t deviceId);

/// The device of the calling thread's context; 107002 when there is none.
ACL_FUNC_VISIBILITY aclError aclrtGetDevice(int32_t* deviceId);

/// How many devices the process sees, ASCEND_RT_VISIBLE_DEVICES applied.
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceCount(uint32_t* count);

/// Describes a device; it need not be the current one. The cores of each kind are the threads that one operator may use,
/// on a GPU its multiprocessors; sizes are in bytes, and 0 where the system does not tell. Unknown device: 107001; unknown
/// attribute: 100000.
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value);

/// 1 where a device may use the memory of another one without a copy: CPU devices may, GPUs count as if they could not.
/// Unknown device: 107001.
ACL_FUNC_VISIBILITY aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId,
                                                      int32_t peerDeviceId);

/// Lets the current device use the memory of another one. Where aclrtDeviceCanAccessPeer says 0: 207000. `flags` is not
/// used.
ACL_FUNC_VISIBILITY aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags);

/// Takes that back; CPU devices keep access.
ACL_FUNC_VISIBILITY aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId);

/// Always ACL_HOST: the program runs on the host, beside the device.
ACL_FUNC_VISIBILITY aclError aclrtGetRunMode(aclrtRunMode* runMode);

/// Waits for all streams of the current context's device and returns their first failure.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDevice(void);

/// The same with a time-out; when it passes, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT (507046).
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);

// ---- Contexts ----

/// A context with a default stream of its own on `deviceId`, made current in the calling thread. The caller
/// ends it with aclrtDestroyContext. Unknown device: 107001.
ACL_FUNC_VISIBILITY aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId);

/// Frees what aclrtCreateContext made. Null: 100000. A default context is refused.
ACL_FUNC_VISIBILITY aclError aclrtDestroyContext(aclrtContext context);

/// Makes `context`, and with it its device, current in the calling thread. Null: 100000.
ACL_FUNC_VISIBILITY aclError aclrtSetCurrentContext(aclrtContext context);

/// 107002 when the thread has none.
ACL_FUNC_VISIBILITY aclError aclrtGetCurrentContext(aclrtContext* context);

// ---- Options ----

/// ACL_OPT_DETERMINISTIC takes 0 (off, the default), 1 (bitwise the same results run after run), 2 (strong consistency)
/// and 3 (independent of the batch); the others take 0 and 1. ACL_OPT_STRONG_CONSISTENCY = 1 is the older way to say
/// ACL_OPT_DETERMINISTIC = 2 where that is 1; on its own it changes nothing.
typedef enum aclSysParamOpt {
  ACL_OPT_DETERMINISTIC = 0,
  ACL_OPT_ENABLE_DEBUG_KERNEL = 1,
  ACL_OPT_STRONG_CONSISTENCY = 2,
  ACL_OPT_ENABLE_KERNEL_EARLY_START = 3,
} aclSysParamOpt;
typedef aclSysParamOpt aclrtSysParamOpt;

/// Sets an option of the current context and, like aclrtSetSysParamOpt, of the process: phase 1 of an
/// operator reads the latter. Unknown option or ACL_OPT_ENABLE_KERNEL_EARLY_START: 100000; value out of
/// range: 107000.
ACL_FUNC_VISIBILITY aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);

/// Option of the current context; never set: ACL_ERROR_RT_SYSPARAMOPT_NOT_SET (107021).
ACL_FUNC_VISIBILITY aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value);

/// Sets an option of the process. Unknown option: 100000; value out of range: 107000.
ACL_FUNC_VISIBILITY aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);

/// Option of the process; 0 where never set.
ACL_FUNC_VISIBILITY aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value);

// ---- Streams: queues of work, run in order; none waits for another, not even the default one ----

#define ACL_STREAM_FAST_LAUNCH 0x00000001U
#define ACL_STREAM_FAST_SYNC 0x00000002U
#define ACL_STREAM_PERSISTENT 0x00000004U
#define ACL_STREAM_HUGE 0x00000008U
#define ACL_STREAM_CPU_SCHEDULE 0x00000010U
#define ACL_STREAM_DEVICE_USE_ONLY 0x00000020U

#define ACL_CONTINUE_ON_FAILURE 0x00000000U
#define ACL_STOP_ON_FAILURE 0x00000001U

typedef enum aclrtStreamStatus {
  ACL_STREAM_STATUS_COMPLETE = 0,
  ACL_STREAM_STATUS_NOT_READY = 1,
  ACL_STREAM_STATUS_RESERVED = 0xFFFF,
} aclrtStreamStatus;

/// A stream of the current context; end with aclrtDestroyStream.
ACL_FUNC_VISIBILITY aclError aclrtCreateStream(aclrtStream* stream);

/// The same with a priority (0 is the highest) and ACL_STREAM_* flags, both hints.
ACL_FUNC_VISIBILITY aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority,
                                                         uint32_t flag);

/// Waits for the stream's work, then frees it. Null: 100000.
ACL_FUNC_VISIBILITY aclError aclrtDestroyStream(aclrtStream stream);

/// Drops what is queued, then frees the stream. Null: 100000.
ACL_FUNC_VISIBILITY aclError aclrtDestroyStreamForce(aclrtStream stream);

/// Waits for the stream's work and returns its first failure (507xxx). Null is the default stream of the
/// current context; a stream of another context is fine here.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStream(aclrtStream stream);

/// The same with a time-out; when it passes, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT (507046). 0 or below -1:
/// 107000.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);

/// Whether all work is done; does not wait.
ACL_FUNC_VISIBILITY aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status);

/// Queues a wait for what `event` last recorded.
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);

/// What a failed task does to later ones: ACL_CONTINUE_ON_FAILURE (default) runs them, ACL_STOP_ON_FAILURE
/// drops them and refuses new ones. May be set once for each stream; again, or another mode: 107000.
ACL_FUNC_VISIBILITY aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);

// ---- Events: marks in a stream that can be waited for and timed ----

#define ACL_EVENT_SYNC 0x00000001U
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 0x00000002U
#define ACL_EVENT_TIME_LINE 0x00000008U
#define ACL_EVENT_DEVICE_USE_ONLY 0x00000010U
#define ACL_EVENT_EXTERNAL 0x00000020U
#define ACL_EVENT_IPC 0x00000040U

typedef enum aclrtEventStatus {
  ACL_EVENT_STATUS_COMPLETE = 0,
  ACL_EVENT_STATUS_NOT_READY = 1,
  ACL_EVENT_STATUS_RESERVED = 2,
} aclrtEventStatus;

/// Beware: these values are in the opposite order of those of aclrtEventStatus.
typedef enum aclrtEventRecordedStatus {
  ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
  ACL_EVENT_RECORDED_STATUS_COMPLETE = 1,
} aclrtEventRecordedStatus;

typedef enum aclrtEventWaitStatus {
  ACL_EVENT_WAIT_STATUS_COMPLETE = 0,
  ACL_EVENT_WAIT_STATUS_NOT_READY = 1,
  ACL_EVENT_WAIT_STATUS_RESERVED = 0xFFFF,
} aclrtEventWaitStatus;

/// An event that can be waited for and timed; end with aclrtDestroyEvent.
ACL_FUNC_VISIBILITY aclError aclrtCreateEvent(aclrtEvent* event);

/// An event for the uses in `flag`, a sum of ACL_EVENT_*; only ACL_EVENT_TIME_LINE can be timed. Other bits:
/// 107000; ACL_EVENT_DEVICE_USE_ONLY, _EXTERNAL or _IPC: 207000.
ACL_FUNC_VISIBILITY aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag);

/// As aclrtCreateEventWithFlag.
ACL_FUNC_VISIBILITY aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag);

/// Frees the event; recorded marks still run. Null: 100000; not recorded, and a stream waits for it: 107000.
ACL_FUNC_VISIBILITY aclError aclrtDestroyEvent(aclrtEvent event);

/// Queues a mark; it is reached when all earlier work of the stream is done.
ACL_FUNC_VISIBILITY aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);

/// Queues the return of the event to its unrecorded state.
ACL_FUNC_VISIBILITY aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);

/// Whether the mark has been reached; does not wait. Older form of aclrtQueryEventStatus.
ACL_FUNC_VISIBILITY aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status);

/// Whether the mark has been reached; does not wait.
ACL_FUNC_VISIBILITY aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status);

/// Whether all waits for the event that were queued by aclrtStreamWaitEvent are over.
ACL_FUNC_VISIBILITY aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status);

/// Waits until the mark is reached. Not recorded: ACL_ERROR_RT_INTERNAL_ERROR (507000); work before it has
/// failed: that failure.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEvent(aclrtEvent event);

/// The same with a time-out; when it passes, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT (507047).
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);

/// Milliseconds between two reached marks. Either made without ACL_EVENT_TIME_LINE: 107006; not recorded:
/// 507000; not reached: 507006. The second was reached first: 107007.
ACL_FUNC_VISIBILITY aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent);

// ---- Memory ----

typedef enum aclrtMemMallocPolicy {
  ACL_MEM_MALLOC_HUGE_FIRST = 0,
  ACL_MEM_MALLOC_HUGE_ONLY = 1,
  ACL_MEM_MALLOC_NORMAL_ONLY = 2,
  ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3,
  ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4,
  ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5,
  ACL_MEM_MALLOC_HUGE1G_ONLY = 6,
  ACL_MEM_MALLOC_HUGE1G_ONLY_P2P = 7,
  ACL_MEM_TYPE_LOW_BAND_WIDTH = 0x0100,
  ACL_MEM_TYPE_HIGH_BAND_WIDTH = 0x1000,
  ACL_MEM_ACCESS_USER_SPACE_READONLY = 0x100000,
} aclrtMemMallocPolicy;

typedef enum aclrtMemcpyKind {
  ACL_MEMCPY_HOST_TO_HOST = 0,
  ACL_MEMCPY_HOST_TO_DEVICE = 1,
  ACL_MEMCPY_DEVICE_TO_HOST = 2,
  ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
  ACL_MEMCPY_DEFAULT = 4,
  ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE = 5,
  ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6,
  ACL_MEMCPY_INTER_DEVICE_TO_DEVICE = 7,
} aclrtMemcpyKind;

typedef enum aclrtMemAttr {
  ACL_DDR_MEM = 0,
  ACL_HBM_MEM = 1,
  ACL_DDR_MEM_HUGE = 2,
  ACL_DDR_MEM_NORMAL = 3,
  ACL_HBM_MEM_HUGE = 4,
  ACL_HBM_MEM_NORMAL = 5,
  ACL_DDR_MEM_P2P_HUGE = 6,
  ACL_DDR_MEM_P2P_NORMAL = 7,
  ACL_HBM_MEM_P2P_HUGE = 8,
  ACL_HBM_MEM_P2P_NORMAL = 9,
  ACL_HBM_MEM_HUGE1G = 10,
  ACL_HBM_MEM_P2P_HUGE1G = 11,
  ACL_MEM_NORMAL = 12,
  ACL_MEM_HUGE = 13,
  ACL_MEM_HUGE1G = 14,
  ACL_MEM_P2P_NORMAL = 15,
  ACL_MEM_P2P_HUGE = 16,
  ACL_MEM_P2P_HUGE1G = 17,
} aclrtMemAttr;

/// Extra attributes of an allocation; this library knows none, pass null.
typedef struct aclrtMallocConfig aclrtMallocConfig;

/// Device memory, contents undefined, at a multiple of 64 bytes, at least `size` rounded up to 32 plus 32
/// bytes. `policy` is a hint. Size 0: 100000; out of memory: ACL_ERROR_RT_MEMORY_ALLOCATION (207001). End
/// with aclrtFree.
ACL_FUNC_VISIBILITY aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy);

/// As aclrtMalloc, without the 32 extra bytes.
ACL_FUNC_VISIBILITY aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy);

/// As aclrtMalloc; flushing and invalidating are not needed here.
ACL_FUNC_VISIBILITY aclError aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy policy);

/// As aclrtMalloc; `cfg` must be null, else 207000.
ACL_FUNC_VISIBILITY aclError aclrtMallocWithCfg(void** devPtr, size_t size, aclrtMemMallocPolicy policy,
                                                aclrtMallocConfig* cfg);

/// Frees device memory at once: work that still uses it must be done before. Needs no context: memory outlives
/// the context in which it was made, aclrtResetDevice and aclFinalize. Null, or not the start of such memory:
/// 100000.
ACL_FUNC_VISIBILITY aclError aclrtFree(void* devPtr);

/// Host memory that copies can use asynchronously, at a multiple of 64 bytes. Size 0: 100000. Only
/// aclrtFreeHost may free it.
ACL_FUNC_VISIBILITY aclError aclrtMallocHost(void** hostPtr, size_t size);

/// Frees what aclrtMallocHost gave. Null: 100000.
ACL_FUNC_VISIBILITY aclError aclrtFreeHost(void* hostPtr);

/// Copies `count` bytes before it returns; does not wait for queued work. Null pointer or unknown kind:
/// 100000; count > destMax: 107000; count 0 succeeds.
ACL_FUNC_VISIBILITY aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count,
                                         aclrtMemcpyKind kind);

/// Queues the copy; both sides must live until it has run. A stream of another context:
/// ACL_ERROR_RT_STREAM_CONTEXT (107003); ACL_MEMCPY_HOST_TO_HOST: 207000. Otherwise as aclrtMemcpy.
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count,
                                              aclrtMemcpyKind kind, aclrtStream stream);

/// Copies `height` rows of `width` bytes; rows start `dpitch` and `spitch` bytes apart, neither below
/// `width`, else 107000.
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch,
                                           size_t width, size_t height, aclrtMemcpyKind kind);

/// Queues the copy of aclrtMemcpy2d.
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch,
                                                size_t width, size_t height, aclrtMemcpyKind kind,
                                                aclrtStream stream);

/// Fills `count` bytes with the low byte of `value`. count > maxCount: 107000; count 0 succeeds.
ACL_FUNC_VISIBILITY aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count);

/// Queues the fill of aclrtMemset.
ACL_FUNC_VISIBILITY aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count,
                                              aclrtStream stream);

/// Free and total bytes of the current device.
ACL_FUNC_VISIBILITY aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total);

// ---- Physical memory that the program maps to addresses. Not supported: all of these return 207000. Programs ask for the
// ---- granularity first, and use aclrtMalloc where that fails. ----

typedef void* aclrtDrvMemHandle;

typedef enum aclrtMemHandleType { ACL_MEM_HANDLE_TYPE_NONE = 0 } aclrtMemHandleType;

typedef enum aclrtMemAllocationType { ACL_MEM_ALLOCATION_TYPE_PINNED = 0 } aclrtMemAllocationType;

typedef enum aclrtMemLocationType {
  ACL_MEM_LOCATION_TYPE_HOST = 0,
  ACL_MEM_LOCATION_TYPE_DEVICE = 1,
} aclrtMemLocationType;

typedef struct aclrtMemLocation {
  uint32_t id;
  aclrtMemLocationType type;
} aclrtMemLocation;

typedef struct aclrtPhysicalMemProp {
  aclrtMemHandleType handleType;
  aclrtMemAllocationType allocationType;
  aclrtMemAttr memAttr;
  aclrtMemLocation location;
  uint64_t reserve;
} aclrtPhysicalMemProp;

typedef enum aclrtMemGranularityOptions {
  ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
  ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
  ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF = 0xFFFF,
} aclrtMemGranularityOptions;

/// The unit of physical memory.
ACL_FUNC_VISIBILITY aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp* prop,
                                                              aclrtMemGranularityOptions option,
                                                              size_t* granularity);

/// Reserves a range of addresses, and releases it.
ACL_FUNC_VISIBILITY aclError aclrtReserveMemAddress(void** virPtr, size_t size, size_t alignment,
                                                    void* expectPtr, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtReleaseMemAddress(void* virPtr);

/// Allocates memory without an address, and frees it.
ACL_FUNC_VISIBILITY aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size,
                                                 const aclrtPhysicalMemProp* prop, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtFreePhysical(aclrtDrvMemHandle handle);

/// Maps memory to reserved addresses, and unmaps it.
ACL_FUNC_VISIBILITY aclError aclrtMapMem(void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                                         uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtUnmapMem(void* virPtr);

// ---- Callbacks: host functions that take their turn in a stream, run by a thread of the caller ----

typedef void (*aclrtCallback)(void* userData);

typedef enum aclrtCallbackBlockType {
  ACL_CALLBACK_NO_BLOCK = 0,
  ACL_CALLBACK_BLOCK = 1,
} aclrtCallbackBlockType;

/// Names the thread that runs the stream's callbacks in aclrtProcessReport, by its pthread_t. The stream has
/// one: ACL_ERROR_RT_STREAM_SUBSCRIBE (107011). Callbacks that have not begun are dropped when the stream is
/// destroyed. They are also dropped when the thread ends, if it has called this function or aclrtProcessReport.
ACL_FUNC_VISIBILITY aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream);

/// Queues `fn`; with ACL_CALLBACK_BLOCK later work of the stream waits until it has returned. So the subscribed
/// thread must not wait for the stream without a time-out. No thread has subscribed to the stream:
/// ACL_ERROR_RT_STREAM_NO_CB_REG (107015).
ACL_FUNC_VISIBILITY aclError aclrtLaunchCallback(aclrtCallback fn, void* userData,
                                                 aclrtCallbackBlockType blockType, aclrtStream stream);

/// Waits for a callback that is due and runs it in the calling thread. The time-out must be -1 or positive,
/// else 100000; when it passes, 507012; thread not subscribed: 107012; the callback throws: 500001. It may end the
/// thread with pthread_exit.
ACL_FUNC_VISIBILITY aclError aclrtProcessReport(int32_t timeout);

/// Ends the subscription; callbacks that have not begun are dropped. Not the stream's thread: 107012.
ACL_FUNC_VISIBILITY aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
