// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Calls of the runtime: the process, devices, contexts, streams, events, memory and callbacks.
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnn/aclnn_base.h"
#include "calls.h"
#include "check/check.h"

namespace aclgrad::fuzz {
namespace {

constexpr int32_t kDevices = 8;

// ---- Process ----

// The path of a file that holds the text.
const char* file_with(const std::string& text) {
  static const int file = memfd_create("configuration", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  const bool written = ftruncate(file, 0) == 0 && pwrite(file, text.data(), text.size(), 0) >= 0;
  require(written, "a file can be written");
  return path.c_str();
}

const char* configuration_path(Program& program) {
  switch (program.draw(0, 4)) {
    case 0:
      return "/nowhere/at/all";
    case 1:
      return "/";
    case 2:
      return file_with(program.text());
    case 3:
      return file_with("{\"defaultDevice\":{\"default_device\":\"" + program.text() + "\"}}");
    default:
      return nullptr;
  }
}

void library_ended(Program& program) {
  for (int32_t device = 0; device < kDevices; ++device) program.device_gone(device);
}

const Call kProcess[] = {
    {"aclInit", [](Program& program) { program.succeeded(aclInit(configuration_path(program))); }},
    {"aclFinalize",
     [](Program& program) {
       program.unblock();
       if (program.succeeded(aclFinalize())) library_ended(program);
     }},
    {"aclFinalizeReference",
     [](Program& program) {
       program.unblock();
       uint64_t left = 0;
       if (program.succeeded(aclFinalizeReference(program.out(left))) && left == 0) library_ended(program);
     }},
    {"aclnnInit", [](Program& program) { program.succeeded(aclnnInit(configuration_path(program))); }},
    {"aclnnFinalize", [](Program& program) { program.succeeded(aclnnFinalize()); }},
    {"aclrtGetVersion",
     [](Program& program) {
       int32_t version[3];
       int32_t* major = program.out(version[0]);
       int32_t* minor = program.out(version[1]);
       program.succeeded(aclrtGetVersion(major, minor, program.out(version[2])));
     }},
    {"aclGetRecentErrMsg",
     [](Program&) { require(aclGetRecentErrMsg() == nullptr, "a message that was taken is gone"); }},
    {"aclrtPeekAtLastError",
     [](Program& program) {
       const auto level = program.value_of(ACL_RT_THREAD_LEVEL);
       program.refused_if(level != ACL_RT_THREAD_LEVEL);
       aclrtPeekAtLastError(level);
       program.returned();
     }},
    {"aclrtGetLastError",
     [](Program& program) {
       const auto level = program.value_of(ACL_RT_THREAD_LEVEL);
       program.refused_if(level != ACL_RT_THREAD_LEVEL);
       aclrtGetLastError(level);
       program.returned();
       if (level != ACL_RT_THREAD_LEVEL) return;
       require(aclrtPeekAtLastError(level) == ACL_SUCCESS, "an error that was taken is gone");
     }},
    {"aclrtGetSocName", [](Program&) { require(std::strlen(aclrtGetSocName()) > 0, "the chip has a name"); }},
    {"aclDataTypeSize",
     [](Program& program) {
       require(aclDataTypeSize(program.value_of(ACL_FLOAT4_E1M2)) <= 16, "a type is small");
     }},
    {"aclFloat16ToFloat",
     [](Program& program) {
       const auto bits = static_cast<aclFloat16>(program.integer());
       const float value = aclFloat16ToFloat(bits);
       if (value == value) require(aclFloatToFloat16(value) == bits, "a half survives float");
     }},
    {"aclFloatToFloat16", [](Program& program) { aclFloatToFloat16(static_cast<float>(program.integer())); }},
};

// ---- Devices and contexts ----

int32_t device(Program& program) {
  const int32_t id =
      program.rarely() ? static_cast<int32_t>(program.integer()) : program.draw(0, kDevices - 1);
  program.refused_if(id < 0 || id >= kDevices);
  return id;
}

int32_t timeout(Program& program) {
  const int32_t timeout = program.one_of({1, 1, 1, 2, -1, 0, -2, -100});
  program.refused_if(timeout == 0 || timeout < -1);
  if (timeout == -1) program.unblock();
  return timeout;
}

const Call kContexts[] = {
    {"aclrtSetDevice",
     [](Program& program) {
       const int32_t id = device(program);
       if (!program.succeeded(aclrtSetDevice(id))) return;
       ++program.users[id];
       program.default_contexts[id] = program.current_context();
       program.context_made(program.default_contexts[id]);
     }},
    {"aclrtResetDevice",
     [](Program& program) {
       const int32_t id = device(program);
       program.refused_if(program.users.count(id) == 0);
       program.unblock();
       if (program.succeeded(aclrtResetDevice(id)) && --program.users[id] == 0) program.device_gone(id);
     }},
    {"aclrtResetDeviceForce",
     [](Program& program) {
       const int32_t id = device(program);
       program.refused_if(program.users.count(id) == 0);
       program.unblock();
       if (program.succeeded(aclrtResetDeviceForce(id))) program.device_gone(id);
     }},
    {"aclrtGetDevice",
     [](Program& program) {
       int32_t id = -1;
       if (program.succeeded(aclrtGetDevice(program.out(id)))) require(id >= 0 && id < kDevices, "a device");
     }},
    {"aclrtGetDeviceCount",
     [](Program& program) {
       uint32_t count = 0;
       if (program.succeeded(aclrtGetDeviceCount(program.out(count))))
         require(count == kDevices, "all devices");
     }},
    {"aclrtGetRunMode",
     [](Program& program) {
       aclrtRunMode mode;
       program.succeeded(aclrtGetRunMode(program.out(mode)));
     }},
    {"aclrtSynchronizeDevice",
     [](Program& program) {
       program.unblock();
       program.succeeded(aclrtSynchronizeDevice());
     }},
    {"aclrtSynchronizeDeviceWithTimeout",
     [](Program& program) { program.succeeded(aclrtSynchronizeDeviceWithTimeout(timeout(program))); }},
    {"aclrtCreateContext",
     [](Program& program) {
       const int32_t id = device(program);
       aclrtContext context = nullptr;
       if (program.succeeded(aclrtCreateContext(program.out(context), id))) program.context_made(context);
     }},
    {"aclrtDestroyContext",
     [](Program& program) {
       void* context = program.handle(Kind::context);
       for (const auto& [id, of_device] : program.default_contexts) program.refused_if(context == of_device);
       program.unblock();
       if (program.succeeded(aclrtDestroyContext(context))) program.context_gone(context);
     }},
    {"aclrtSetCurrentContext",
     [](Program& program) { program.succeeded(aclrtSetCurrentContext(program.handle(Kind::context))); }},
    {"aclrtGetCurrentContext",
     [](Program& program) {
       aclrtContext context = nullptr;
       if (!program.succeeded(aclrtGetCurrentContext(program.out(context)))) return;
       require(program.is_live(Kind::context, context), "the current context is live");
     }},
};

// ---- Options ----

int64_t option_value(Program& program) {
  return program.coin() ? program.draw(0, 3) : program.integer();
}

const Call kOptions[] = {
    {"aclrtCtxSetSysParamOpt",
     [](Program& program) {
       const auto option = program.value_of(ACL_OPT_ENABLE_KERNEL_EARLY_START);
       program.succeeded(aclrtCtxSetSysParamOpt(option, option_value(program)));
     }},
    {"aclrtCtxGetSysParamOpt",
     [](Program& program) {
       const auto option = program.value_of(ACL_OPT_ENABLE_KERNEL_EARLY_START);
       int64_t value = 0;
       program.succeeded(aclrtCtxGetSysParamOpt(option, program.out(value)));
     }},
    {"aclrtSetSysParamOpt",
     [](Program& program) {
       const auto option = program.value_of(ACL_OPT_ENABLE_KERNEL_EARLY_START);
       const int64_t value = option_value(program);
       program.refused_if(value < 0 || value > 3);
       if (!program.succeeded(aclrtSetSysParamOpt(option, value))) return;
       int64_t stored = -1;
       require(aclrtGetSysParamOpt(option, &stored) == ACL_SUCCESS && stored == value,
               "an option stays as it is set");
     }},
    {"aclrtGetSysParamOpt",
     [](Program& program) {
       const auto option = program.value_of(ACL_OPT_ENABLE_KERNEL_EARLY_START);
       int64_t value = 0;
       program.succeeded(aclrtGetSysParamOpt(option, program.out(value)));
     }},
};

// ---- Streams ----

}  // namespace

void* stream_or_default(Program& program) {
  return program.handle(Kind::stream, Null::allowed);
}

namespace {

void stream_made(Program& program, Status status, void* stream) {
  if (!program.succeeded(status)) return;
  program.add(Kind::stream, stream);
  program.context_of_stream[stream] = program.current_context();
}

void stream_gone(Program& program, Status status, const void* stream) {
  if (!program.succeeded(status)) return;
  program.remove(Kind::stream, stream);
  std::erase_if(program.subscriptions, [&](const auto& one) { return one.stream == stream; });
}

const Call kStreams[] = {
    {"aclrtCreateStream",
     [](Program& program) {
       aclrtStream stream = nullptr;
       const Status status = aclrtCreateStream(program.out(stream));
       stream_made(program, status, stream);
     }},
    {"aclrtCreateStreamWithConfig",
     [](Program& program) {
       aclrtStream stream = nullptr;
       const auto priority = static_cast<uint32_t>(program.integer());
       const auto flag = static_cast<uint32_t>(program.integer());
       program.refused_if(flag > 0x3F);
       const Status status = aclrtCreateStreamWithConfig(program.out(stream), priority, flag);
       stream_made(program, status, stream);
     }},
    {"aclrtDestroyStream",
     [](Program& program) {
       void* stream = program.handle(Kind::stream);
       program.unblock();
       stream_gone(program, aclrtDestroyStream(stream), stream);
     }},
    {"aclrtDestroyStreamForce",
     [](Program& program) {
       void* stream = program.handle(Kind::stream);
       stream_gone(program, aclrtDestroyStreamForce(stream), stream);
     }},
    {"aclrtSynchronizeStream",
     [](Program& program) {
       void* stream = stream_or_default(program);
       program.unblock();
       program.succeeded(aclrtSynchronizeStream(stream));
     }},
    {"aclrtSynchronizeStreamWithTimeout",
     [](Program& program) {
       void* stream = stream_or_default(program);
       program.succeeded(aclrtSynchronizeStreamWithTimeout(stream, timeout(program)));
     }},
    {"aclrtStreamQuery",
     [](Program& program) {
       void* stream = stream_or_default(program);
       aclrtStreamStatus status;
       program.succeeded(aclrtStreamQuery(stream, program.out(status)));
     }},
    {"aclrtStreamWaitEvent",
     [](Program& program) {
       void* stream = stream_or_default(program);
       void* event = program.handle(Kind::event);
       if (program.succeeded(aclrtStreamWaitEvent(stream, event))) program.await(event);
     }},
    {"aclrtSetStreamFailureMode",
     [](Program& program) {
       void* stream = stream_or_default(program);
       const auto mode = static_cast<uint64_t>(program.integer());
       program.refused_if(mode > ACL_STOP_ON_FAILURE);
       program.succeeded(aclrtSetStreamFailureMode(stream, mode));
     }},
};

// ---- Events ----

template <auto kCreate>
void create_event_with_flag(Program& program) {
  aclrtEvent event = nullptr;
  const uint32_t flag =
      program.rarely() ? static_cast<uint32_t>(program.integer()) : program.draw(0, 1) * ACL_EVENT_TIME_LINE;
  if (program.succeeded(kCreate(program.out(event), flag))) program.add(Kind::event, event);
}

template <auto kQuery, class State>
void query_event(Program& program) {
  void* event = program.handle(Kind::event);
  State state;
  program.succeeded(kQuery(event, program.out(state)));
}

const Call kEvents[] = {
    {"aclrtCreateEvent",
     [](Program& program) {
       aclrtEvent event = nullptr;
       if (program.succeeded(aclrtCreateEvent(program.out(event)))) program.add(Kind::event, event);
     }},
    {"aclrtCreateEventWithFlag", create_event_with_flag<aclrtCreateEventWithFlag>},
    {"aclrtCreateEventExWithFlag", create_event_with_flag<aclrtCreateEventExWithFlag>},
    {"aclrtDestroyEvent",
     [](Program& program) {
       void* event = program.handle(Kind::event);
       if (program.succeeded(aclrtDestroyEvent(event))) program.event_gone(event);
     }},
    {"aclrtRecordEvent",
     [](Program& program) {
       void* event = program.handle(Kind::event);
       void* stream = stream_or_default(program);
       // In any other stream the mark may come after a wait for it.
       if (program.is_awaited(event)) {
         program.record_elsewhere(event);
       } else if (program.succeeded(aclrtRecordEvent(event, stream))) {
         program.recorded.insert(event);
       }
     }},
    {"aclrtResetEvent",
     [](Program& program) {
       void* event = program.handle(Kind::event);
       void* stream = stream_or_default(program);
       if (program.succeeded(aclrtResetEvent(event, stream))) program.recorded.erase(event);
     }},
    {"aclrtQueryEvent", query_event<aclrtQueryEvent, aclrtEventStatus>},
    {"aclrtQueryEventStatus", query_event<aclrtQueryEventStatus, aclrtEventRecordedStatus>},
    {"aclrtQueryEventWaitStatus", query_event<aclrtQueryEventWaitStatus, aclrtEventWaitStatus>},
    {"aclrtSynchronizeEvent",
     [](Program& program) {
       void* event = program.handle(Kind::event);
       program.refused_if(program.recorded.count(event) == 0 && !program.is_awaited(event));
       program.unblock();
       program.succeeded(aclrtSynchronizeEvent(event));
     }},
    {"aclrtSynchronizeEventWithTimeout",
     [](Program& program) {
       void* event = program.handle(Kind::event);
       program.succeeded(aclrtSynchronizeEventWithTimeout(event, timeout(program)));
     }},
    {"aclrtEventElapsedTime",
     [](Program& program) {
       void* start = program.handle(Kind::event);
       void* end = program.handle(Kind::event);
       float milliseconds = 0;
       program.succeeded(aclrtEventElapsedTime(program.out(milliseconds), start, end));
     }},
};

// ---- Memory ----

size_t allocation_size(Program& program) {
  const size_t size = program.rarely() ? program.one_of({size_t{0}, kAbsurdSize, SIZE_MAX, SIZE_MAX / 2})
                                       : kMaxAllocation - program.draw<size_t>(0, kMaxAllocation - 1);
  program.refused_if(size == 0 || size >= kAbsurdSize);
  return size;
}

aclrtMemMallocPolicy policy(Program& program) {
  return program.value_of(ACL_MEM_MALLOC_HUGE1G_ONLY_P2P);
}

template <class Allocate>
void allocate(Program& program, Kind kind, Allocate allocate) {
  const size_t size = allocation_size(program);
  void* memory = nullptr;
  if (program.succeeded(allocate(program.out(memory), size))) program.add_memory(kind, memory, size);
}

template <auto kAllocate>
void allocate_device(Program& program) {
  const aclrtMemMallocPolicy how = policy(program);
  allocate(program, Kind::device_memory,
           [&](void** memory, size_t size) { return kAllocate(memory, size, how); });
}

template <auto kFree>
void free_memory(Program& program, Kind kind) {
  void* memory = program.handle(kind);
  // Only the checker keeps memory that is still in use.
  if (!check::enabled || !program.rarely()) program.use(memory, nullptr);
  if (program.succeeded(kFree(memory))) program.memory_gone(kind, memory);
}

// A source or destination, as large as it must be unless the checker is there to find out.
void* address(Program& program, size_t bytes) {
  return program.rarely() ? program.wrong_address() : program.address(bytes);
}

aclrtMemcpyKind copy_kind(Program& program) {
  const auto kind = program.value_of(ACL_MEMCPY_INTER_DEVICE_TO_DEVICE);
  program.refused_if(kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_INTER_DEVICE_TO_DEVICE);
  return kind;
}

struct Copy {
  void* to;
  size_t room;
  void* from;
  size_t count;
  aclrtMemcpyKind kind;
};

Copy draw_copy(Program& program, const void* user) {
  Copy copy;
  copy.count = program.draw<size_t>(0, 600);
  copy.room = program.rarely() ? program.draw<size_t>(0, 600) : copy.count;
  copy.kind = copy_kind(program);
  copy.to = address(program, copy.count);
  copy.from = address(program, copy.count);
  program.refused_if(copy.to == nullptr || copy.from == nullptr || copy.count > copy.room);
  program.use(copy.to, user);
  program.use(copy.from, user);
  return copy;
}

struct PitchedCopy {
  void* to;
  size_t to_pitch;
  void* from;
  size_t from_pitch;
  size_t width;
  size_t height;
  aclrtMemcpyKind kind;
};

PitchedCopy draw_pitched_copy(Program& program, const void* user) {
  PitchedCopy copy;
  copy.width = program.draw<size_t>(0, 40);
  copy.height = program.draw<size_t>(0, 10);
  copy.to_pitch = program.draw<size_t>(0, 60);
  copy.from_pitch = copy.width + program.draw<size_t>(0, 20);
  // Nothing is copied then, however many rows and however far apart.
  if (copy.width == 0 && program.coin()) copy.height = static_cast<size_t>(program.integer());
  if (copy.height <= 1 && program.coin()) copy.to_pitch = static_cast<size_t>(program.integer());
  if (copy.height <= 1 && program.coin()) copy.from_pitch = static_cast<size_t>(program.integer());
  copy.kind = copy_kind(program);
  const bool is_empty = copy.width == 0 || copy.height == 0;
  const auto spanned = [&](size_t pitch) { return is_empty ? 0 : (copy.height - 1) * pitch + copy.width; };
  copy.to = address(program, spanned(copy.to_pitch));
  copy.from = address(program, spanned(copy.from_pitch));
  program.refused_if(copy.to == nullptr || copy.from == nullptr || copy.width > copy.to_pitch ||
                     copy.width > copy.from_pitch);
  program.use(copy.to, user);
  program.use(copy.from, user);
  return copy;
}

struct Fill {
  void* to;
  size_t room;
  int32_t value;
  size_t count;
};

Fill draw_fill(Program& program, const void* user) {
  Fill fill;
  fill.count = program.draw<size_t>(0, 600);
  fill.room = program.rarely() ? program.draw<size_t>(0, 600) : fill.count;
  fill.value = static_cast<int32_t>(program.integer());
  fill.to = address(program, fill.count);
  program.refused_if(fill.to == nullptr || fill.count > fill.room);
  program.use(fill.to, user);
  return fill;
}

const Call kMemory[] = {
    {"aclrtMalloc", allocate_device<aclrtMalloc>},
    {"aclrtMallocAlign32", allocate_device<aclrtMallocAlign32>},
    {"aclrtMallocCached", allocate_device<aclrtMallocCached>},
    {"aclrtMallocWithCfg",
     [](Program& program) {
       const aclrtMemMallocPolicy how = policy(program);
       auto* configuration =
           reinterpret_cast<aclrtMallocConfig*>(program.rarely() ? program.address(8) : nullptr);
       program.refused_if(configuration != nullptr);
       allocate(program, Kind::device_memory, [&](void** memory, size_t size) {
         return aclrtMallocWithCfg(memory, size, how, configuration);
       });
     }},
    {"aclrtFree", [](Program& program) { free_memory<aclrtFree>(program, Kind::device_memory); }},
    {"aclrtMallocHost", [](Program& program) { allocate(program, Kind::host_memory, aclrtMallocHost); }},
    {"aclrtFreeHost", [](Program& program) { free_memory<aclrtFreeHost>(program, Kind::host_memory); }},
    {"aclrtMemcpy",
     [](Program& program) {
       const Copy copy = draw_copy(program, nullptr);
       program.succeeded(aclrtMemcpy(copy.to, copy.room, copy.from, copy.count, copy.kind));
     }},
    {"aclrtMemcpyAsync",
     [](Program& program) {
       void* stream = stream_or_default(program);
       const Copy copy = draw_copy(program, program.user_of(stream));
       program.refused_if(copy.kind == ACL_MEMCPY_HOST_TO_HOST);
       program.succeeded(aclrtMemcpyAsync(copy.to, copy.room, copy.from, copy.count, copy.kind, stream));
     }},
    {"aclrtMemcpy2d",
     [](Program& program) {
       const PitchedCopy copy = draw_pitched_copy(program, nullptr);
       program.succeeded(aclrtMemcpy2d(copy.to, copy.to_pitch, copy.from, copy.from_pitch, copy.width,
                                       copy.height, copy.kind));
     }},
    {"aclrtMemcpy2dAsync",
     [](Program& program) {
       void* stream = stream_or_default(program);
       const PitchedCopy copy = draw_pitched_copy(program, program.user_of(stream));
       program.refused_if(copy.kind == ACL_MEMCPY_HOST_TO_HOST);
       program.succeeded(aclrtMemcpy2dAsync(copy.to, copy.to_pitch, copy.from, copy.from_pitch, copy.width,
                                            copy.height, copy.kind, stream));
     }},
    {"aclrtMemset",
     [](Program& program) {
       const Fill fill = draw_fill(program, nullptr);
       program.succeeded(aclrtMemset(fill.to, fill.room, fill.value, fill.count));
     }},
    {"aclrtMemsetAsync",
     [](Program& program) {
       void* stream = stream_or_default(program);
       const Fill fill = draw_fill(program, program.user_of(stream));
       program.succeeded(aclrtMemsetAsync(fill.to, fill.room, fill.value, fill.count, stream));
     }},
    {"aclrtGetMemInfo",
     [](Program& program) {
       const auto attribute = program.value_of(ACL_MEM_P2P_HUGE1G);
       program.refused_if(attribute < 0 || attribute > ACL_MEM_P2P_HUGE1G);
       size_t free = 0;
       size_t total = 0;
       size_t* free_at = program.out(free);
       if (program.succeeded(aclrtGetMemInfo(attribute, free_at, program.out(total)))) {
         require(free <= total, "no more is free than there is");
       }
     }},
};

// ---- Callbacks ----

// A callback may call the library, as long as it does not wait.
void callback(void*) {
  const int64_t value = 1;
  require(aclDestroyIntArray(aclCreateIntArray(&value, 1)) == OK, "a callback can call the library");
}

uint64_t this_thread() {
  return static_cast<uint64_t>(pthread_self());
}

uint64_t thread_number(Program& program) {
  return program.rarely() ? static_cast<uint64_t>(program.integer()) : this_thread();
}

void* context_of(Program& program, const void* stream) {
  return stream != nullptr ? program.context_of_stream[stream] : program.current_context();
}

const Call kCallbacks[] = {
    {"aclrtSubscribeReport",
     [](Program& program) {
       const uint64_t thread = thread_number(program);
       void* stream = stream_or_default(program);
       if (!program.succeeded(aclrtSubscribeReport(thread, stream))) return;
       program.subscriptions.push_back({context_of(program, stream), stream, thread});
     }},
    {"aclrtLaunchCallback",
     [](Program& program) {
       const aclrtCallback function = program.refused_if(program.rarely()) ? nullptr : callback;
       const auto block = program.value_of(ACL_CALLBACK_BLOCK);
       program.refused_if(block < 0 || block > ACL_CALLBACK_BLOCK);
       void* stream = stream_or_default(program);
       const bool launched = program.succeeded(aclrtLaunchCallback(function, nullptr, block, stream));
       program.callbacks_are_due = program.callbacks_are_due || launched;
     }},
    {"aclrtProcessReport",
     [](Program& program) {
       const bool waits = std::any_of(program.subscriptions.begin(), program.subscriptions.end(),
                                      [](const auto& one) { return one.thread == this_thread(); });
       program.succeeded(aclrtProcessReport(waits ? program.one_of({1, 1, 2, 0, -2}) : timeout(program)));
     }},
    {"aclrtUnSubscribeReport",
     [](Program& program) {
       const uint64_t thread = thread_number(program);
       void* stream = stream_or_default(program);
       if (!program.succeeded(aclrtUnSubscribeReport(thread, stream))) return;
       std::erase_if(program.subscriptions, [&](const auto& one) {
         return one.stream == stream && one.context == context_of(program, stream);
       });
     }},
};

// ---- Since then ----

const Call kLater[] = {
    {"aclrtGetDeviceInfo",
     [](Program& program) {
       const auto id = static_cast<uint32_t>(device(program));
       constexpr aclrtDevAttr kKnown[] = {ACL_DEV_ATTR_AICORE_CORE_NUM, ACL_DEV_ATTR_CUBE_CORE_NUM,
                                          ACL_DEV_ATTR_VECTOR_CORE_NUM, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE,
                                          ACL_DEV_ATTR_L2_CACHE_SIZE};
       const bool unknown = program.refused_if(program.rarely());
       const auto attribute = unknown ? static_cast<aclrtDevAttr>(99) : program.one_of(kKnown);
       int64_t value = -1;
       if (program.succeeded(aclrtGetDeviceInfo(id, attribute, program.out(value))))
         require(value >= 0, "a size or a number of cores");
     }},
};

}  // namespace

Calls process_calls() {
  return kProcess;
}
Calls context_calls() {
  return kContexts;
}
Calls option_calls() {
  return kOptions;
}
Calls stream_calls() {
  return kStreams;
}
Calls event_calls() {
  return kEvents;
}
Calls memory_calls() {
  return kMemory;
}
Calls callback_calls() {
  return kCallbacks;
}

Calls later_calls() {
  return kLater;
}

}  // namespace aclgrad::fuzz
