// Any calls of the C interface in any order, right or wrong: null, destroyed and foreign handles, values outside of
// enumerations, tensors and arrays of any description, streams, events and callbacks that wait for each other. With
// ACLGRAD_CHECK=1 also memory that is too small or freed, which the checker must refuse.
//
// Whatever is called, the library must not crash; what is wrong must fail, with a documented status and a message that
// names the function; and when the program has destroyed what it made, nothing may be left.
//
// What no library can survive is not generated, as SECURITY.md says. Without the checker: addresses other than
// null that are not of memory large enough, and work of two streams, or of one and the host, that meets in
// memory without waiting. With it or without: a workspace that is part of a tensor, arrays shorter than the
// count passed with them, waits that nothing can end, and problems that would run for long.
#include "acl/acl.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "acl/acl_op_compiler.h"
#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "aclnnop/aclnn_nsa_compress.h"
#include "aclnnop/aclnn_nsa_compress_grad.h"
#include "check/check.h"
#include "hccl/hccl.h"
#include "program.h"

namespace aclgrad::fuzz {
namespace {

using Shape = std::vector<int64_t>;

constexpr int32_t kDevices = 8;
constexpr int kMaxCalls = 100;
constexpr size_t kMaxAllocation = 1 << 14;       // bytes
constexpr int64_t kMaxElements = 1 << 12;        // of a tensor in a problem that is run
constexpr size_t kAbsurdSize = size_t{1} << 46;  // bytes that no machine has; entries that no array has

void call(Program& program, const std::string& name);

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

const std::pair<const char*, void (*)(Program&)> kProcess[] = {
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

const std::pair<const char*, void (*)(Program&)> kContexts[] = {
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

const std::pair<const char*, void (*)(Program&)> kOptions[] = {
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

void* stream_or_default(Program& program) {
  return program.handle(Kind::stream, Null::allowed);
}

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

const std::pair<const char*, void (*)(Program&)> kStreams[] = {
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

const std::pair<const char*, void (*)(Program&)> kEvents[] = {
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

const std::pair<const char*, void (*)(Program&)> kMemory[] = {
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

const std::pair<const char*, void (*)(Program&)> kCallbacks[] = {
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

// ---- Tensors ----

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size());
  __int128 stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = static_cast<int64_t>(stride);
    stride = std::clamp<__int128>(stride * shape[axis], -Reach::kFar, Reach::kFar);
  }
  return strides;
}

// An array and the number of its entries, which the call must refuse if there is no such array.
struct Sizes {
  Shape values;
  const int64_t* pointer = nullptr;
  uint64_t count = 0;
};

Sizes sizes(Program& program) {
  Sizes sizes;
  sizes.values = program.integers(program.rarely() ? 40 : program.draw<size_t>(0, 9));
  sizes.pointer = program.rarely() ? nullptr : sizes.values.data();
  sizes.count = program.rarely() ? kAbsurdSize : sizes.values.size();
  program.refused_if(sizes.count == kAbsurdSize || (sizes.pointer == nullptr && sizes.count > 0));
  return sizes;
}

struct Description {
  Sizes view;
  aclDataType type;
  Shape stride_values;
  const int64_t* strides = nullptr;
  int64_t offset = 0;
  aclFormat format;
  Sizes storage;
  void* data = nullptr;

  View as_view() const {
    View view_of;
    view_of.shape = view.values;
    view_of.strides = strides != nullptr ? stride_values : contiguous_strides(view.values);
    view_of.offset = offset;
    view_of.item_bytes = static_cast<int64_t>(aclDataTypeSize(type));
    view_of.data = data;
    return view_of;
  }
};

Description describe(Program& program) {
  Description tensor;
  tensor.view = sizes(program);
  tensor.type = program.value_of(ACL_FLOAT4_E1M2);
  tensor.stride_values = program.integers(tensor.view.values.size());
  tensor.strides = program.coin() ? nullptr : tensor.stride_values.data();
  tensor.offset = program.integer();
  tensor.format = program.value_of(ACL_FORMAT_FRACTAL_NZ_C0_8);
  tensor.storage = sizes(program);
  tensor.data = program.address(program.draw<size_t>(0, 512));
  return tensor;
}

template <auto kGet>
void get_sizes(Program& program) {
  auto* tensor = program.handle<aclTensor>(Kind::tensor);
  int64_t* values = nullptr;
  uint64_t count = 0;
  int64_t** values_at = program.out(values);
  if (!program.succeeded(kGet(tensor, values_at, program.out(count)))) return;
  for (uint64_t i = 0; i < count; ++i) require(values[i] == values[i], "every entry can be read");
  delete[] values;
}

template <auto kGet, class Value>
void get_value(Program& program) {
  auto* tensor = program.handle<aclTensor>(Kind::tensor);
  Value value;
  program.succeeded(kGet(tensor, program.out(value)));
}

const std::pair<const char*, void (*)(Program&)> kTensors[] = {
    {"aclCreateTensor",
     [](Program& program) {
       const Description of = describe(program);
       aclTensor* tensor = program.made(
           Kind::tensor, aclCreateTensor(of.view.pointer, of.view.count, of.type, of.strides, of.offset,
                                         of.format, of.storage.pointer, of.storage.count, of.data));
       if (tensor != nullptr) program.views[tensor] = of.as_view();
     }},
    {"aclInitTensor",
     [](Program& program) {
       auto* tensor = program.handle<aclTensor>(Kind::tensor);
       Description of = describe(program);
       const Status status =
           aclInitTensor(tensor, of.view.pointer, of.view.count, of.type, of.strides, of.offset, of.format,
                         of.storage.pointer, of.storage.count, of.data);
       if (!program.succeeded(status)) return;
       if (of.data == nullptr) of.data = program.views[tensor].data;
       program.views[tensor] = of.as_view();
     }},
    {"aclDestroyTensor",
     [](Program& program) {
       auto* tensor = program.handle<aclTensor>(Kind::tensor, Null::allowed);
       if (program.succeeded(aclDestroyTensor(tensor))) program.remove(Kind::tensor, tensor);
     }},
    {"aclGetViewShape", get_sizes<aclGetViewShape>},
    {"aclGetViewStrides", get_sizes<aclGetViewStrides>},
    {"aclGetStorageShape", get_sizes<aclGetStorageShape>},
    {"aclGetViewOffset", get_value<aclGetViewOffset, int64_t>},
    {"aclGetFormat", get_value<aclGetFormat, aclFormat>},
    {"aclGetDataType", get_value<aclGetDataType, aclDataType>},
    {"aclSetRawTensorAddr",
     [](Program& program) {
       auto* tensor = program.handle<aclTensor>(Kind::tensor);
       void* data = program.address(program.draw<size_t>(0, 512));
       if (program.succeeded(aclSetRawTensorAddr(tensor, data))) program.views[tensor].data = data;
     }},
    {"aclGetRawTensorAddr",
     [](Program& program) {
       auto* tensor = program.handle<aclTensor>(Kind::tensor);
       void* data = nullptr;
       if (!program.succeeded(aclGetRawTensorAddr(tensor, program.out(data)))) return;
       require(data == program.views[tensor].data, "the address is the one that was set");
     }},
    {"aclDumpOpTensors",
     [](Program& program) {
       program.refused_if(true);
       aclTensor* tensors[] = {program.handle<aclTensor>(Kind::tensor)};
       program.succeeded(aclDumpOpTensors("type", nullptr, tensors, 1, 0, stream_or_default(program)));
     }},
};

// ---- Scalars, arrays and lists ----

template <class Value>
struct Values {
  std::array<Value, 8> values{};
  const Value* pointer = nullptr;
  uint64_t count = 0;
};

template <class Value>
Values<Value> values(Program& program) {
  Values<Value> drawn;
  for (Value& value : drawn.values) value = static_cast<Value>(program.integer());
  drawn.pointer = program.rarely() ? nullptr : drawn.values.data();
  drawn.count = program.rarely() ? kAbsurdSize : program.draw<uint64_t>(0, drawn.values.size());
  program.refused_if(drawn.count == kAbsurdSize || (drawn.pointer == nullptr && drawn.count > 0));
  return drawn;
}

template <auto kCreate, class Value>
void create_array(Program& program, Kind kind) {
  const Values<Value> drawn = values<Value>(program);
  program.made(kind, kCreate(drawn.pointer, drawn.count));
}

template <auto kDestroy, class Handle>
void destroy(Program& program, Kind kind) {
  auto* handle = program.handle<Handle>(kind, Null::allowed);
  if (program.succeeded(kDestroy(handle))) program.remove(kind, handle);
}

template <auto kGetSize, class Handle>
void get_size(Program& program, Kind kind) {
  auto* handle = program.handle<Handle>(kind);
  uint64_t size = 0;
  program.succeeded(kGetSize(handle, program.out(size)));
}

template <auto kCreate, class Member>
void create_list(Program& program, Kind kind, Kind of) {
  std::vector<void*> members(program.draw<size_t>(0, 4));
  for (void*& member : members) member = program.handle(of, Null::allowed);
  const std::vector<const Member*> pointers = [&] {
    std::vector<const Member*> typed;
    for (void* member : members) typed.push_back(static_cast<Member*>(member));
    return typed;
  }();
  const bool none = program.rarely();
  program.refused_if(none && !members.empty());
  void* list = program.made(kind, kCreate(none ? nullptr : pointers.data(), members.size()));
  if (list == nullptr) return;
  for (void* member : members) {
    if (member != nullptr) program.owners[member] = list;
  }
  program.members[list] = members;
}

template <auto kDestroy, class List>
void destroy_list(Program& program, Kind kind, Kind of) {
  auto* list = program.handle<List>(kind, Null::allowed);
  if (program.succeeded(kDestroy(list)) && list != nullptr) program.list_gone(kind, of, list);
}

const std::pair<const char*, void (*)(Program&)> kArrays[] = {
    {"aclCreateScalar",
     [](Program& program) {
       int64_t value[2] = {program.integer(), program.integer()};
       const aclDataType type = program.value_of(ACL_FLOAT4_E1M2);
       void* at = program.refused_if(program.rarely()) ? nullptr : value;
       program.made(Kind::scalar, aclCreateScalar(at, type));
     }},
    {"aclDestroyScalar",
     [](Program& program) { destroy<aclDestroyScalar, aclScalar>(program, Kind::scalar); }},
    {"aclCreateIntArray",
     [](Program& program) { create_array<aclCreateIntArray, int64_t>(program, Kind::int_array); }},
    {"aclDestroyIntArray",
     [](Program& program) { destroy<aclDestroyIntArray, aclIntArray>(program, Kind::int_array); }},
    {"aclGetIntArraySize",
     [](Program& program) { get_size<aclGetIntArraySize, aclIntArray>(program, Kind::int_array); }},
    {"aclCreateFloatArray",
     [](Program& program) { create_array<aclCreateFloatArray, float>(program, Kind::float_array); }},
    {"aclDestroyFloatArray",
     [](Program& program) { destroy<aclDestroyFloatArray, aclFloatArray>(program, Kind::float_array); }},
    {"aclGetFloatArraySize",
     [](Program& program) { get_size<aclGetFloatArraySize, aclFloatArray>(program, Kind::float_array); }},
    {"aclCreateBoolArray",
     [](Program& program) { create_array<aclCreateBoolArray, bool>(program, Kind::bool_array); }},
    {"aclDestroyBoolArray",
     [](Program& program) { destroy<aclDestroyBoolArray, aclBoolArray>(program, Kind::bool_array); }},
    {"aclGetBoolArraySize",
     [](Program& program) { get_size<aclGetBoolArraySize, aclBoolArray>(program, Kind::bool_array); }},
    {"aclCreateTensorList",
     [](Program& program) {
       create_list<aclCreateTensorList, aclTensor>(program, Kind::tensor_list, Kind::tensor);
     }},
    {"aclDestroyTensorList",
     [](Program& program) {
       destroy_list<aclDestroyTensorList, aclTensorList>(program, Kind::tensor_list, Kind::tensor);
     }},
    {"aclGetTensorListSize",
     [](Program& program) { get_size<aclGetTensorListSize, aclTensorList>(program, Kind::tensor_list); }},
    {"aclCreateScalarList",
     [](Program& program) {
       create_list<aclCreateScalarList, aclScalar>(program, Kind::scalar_list, Kind::scalar);
     }},
    {"aclDestroyScalarList",
     [](Program& program) {
       destroy_list<aclDestroyScalarList, aclScalarList>(program, Kind::scalar_list, Kind::scalar);
     }},
    {"aclGetScalarListSize",
     [](Program& program) { get_size<aclGetScalarListSize, aclScalarList>(program, Kind::scalar_list); }},
};

// ---- Executors ----

enum class Counted { all, inputs, outputs };

template <auto kSet>
void set_address(Program& program, Counted counted) {
  auto* executor = program.handle<aclOpExecutor>(Kind::executor);
  auto* tensor = program.handle<aclTensor>(Kind::tensor);
  const auto index = static_cast<size_t>(program.integer());
  void* to = program.address(program.draw<size_t>(0, kMaxAllocation));
  if (!program.succeeded(kSet(executor, index, tensor, to))) return;
  Plan& plan = program.plans[executor];
  Argument& argument = plan.arguments.at(index + (counted == Counted::outputs ? plan.inputs : 0));
  require(argument.given, "an argument that was not given has no address");
  argument.address = to;
}

template <auto kSet>
void set_dynamic_address(Program& program) {
  auto* executor = program.handle<aclOpExecutor>(Kind::executor);
  auto* list = program.handle<aclTensorList>(Kind::tensor_list);
  const auto index = static_cast<size_t>(program.integer());
  program.refused_if(true);  // no operator takes a list
  program.succeeded(kSet(executor, index, static_cast<size_t>(program.integer()), list, program.address(8)));
}

const std::pair<const char*, void (*)(Program&)> kExecutors[] = {
    {"aclSetAclOpExecutorRepeatable",
     [](Program& program) {
       auto* executor = program.handle<aclOpExecutor>(Kind::executor);
       if (program.succeeded(aclSetAclOpExecutorRepeatable(executor)))
         program.plans[executor].repeatable = true;
     }},
    {"aclDestroyAclOpExecutor",
     [](Program& program) {
       auto* executor = program.handle<aclOpExecutor>(Kind::executor);
       if (program.succeeded(aclDestroyAclOpExecutor(executor))) program.remove(Kind::executor, executor);
     }},
    {"aclSetTensorAddr", [](Program& program) { set_address<aclSetTensorAddr>(program, Counted::all); }},
    {"aclSetInputTensorAddr",
     [](Program& program) { set_address<aclSetInputTensorAddr>(program, Counted::inputs); }},
    {"aclSetOutputTensorAddr",
     [](Program& program) { set_address<aclSetOutputTensorAddr>(program, Counted::outputs); }},
    {"AclSetTensorAddr", [](Program& program) { set_address<AclSetTensorAddr>(program, Counted::all); }},
    {"AclSetInputTensorAddr",
     [](Program& program) { set_address<AclSetInputTensorAddr>(program, Counted::inputs); }},
    {"AclSetOutputTensorAddr",
     [](Program& program) { set_address<AclSetOutputTensorAddr>(program, Counted::outputs); }},
    {"aclSetDynamicTensorAddr", set_dynamic_address<aclSetDynamicTensorAddr>},
    {"aclSetDynamicInputTensorAddr", set_dynamic_address<aclSetDynamicInputTensorAddr>},
    {"aclSetDynamicOutputTensorAddr", set_dynamic_address<aclSetDynamicOutputTensorAddr>},
    {"AclSetDynamicTensorAddr", set_dynamic_address<AclSetDynamicTensorAddr>},
    {"AclSetDynamicInputTensorAddr", set_dynamic_address<AclSetDynamicInputTensorAddr>},
    {"AclSetDynamicOutputTensorAddr", set_dynamic_address<AclSetDynamicOutputTensorAddr>},
};

// ---- Operators: phase 1 ----

// Strides of memory in which the view leaves gaps, lies transposed or repeats an element.
Shape strides_of(Program& program, const Shape& shape) {
  Shape strides = contiguous_strides(shape);
  switch (program.draw(0, 5)) {
    case 0:
      for (int64_t& stride : strides) stride = std::min(stride, Reach::kFar) * 2;
      break;
    case 1:
      strides = contiguous_strides(Shape(shape.rbegin(), shape.rend()));
      std::reverse(strides.begin(), strides.end());
      break;
    case 2:
      if (!strides.empty()) strides[program.draw<size_t>(0, strides.size() - 1)] = 0;
      break;
    default:
      break;
  }
  return strides;
}

// A tensor that is right, with memory unless it is too large.
aclTensor* make_tensor(Program& program, const Shape& shape, aclDataType type) {
  View view;
  view.shape = shape;
  view.strides = strides_of(program, shape);
  view.offset = program.rarely() ? program.draw(0, 9) : 0;
  view.item_bytes = static_cast<int64_t>(aclDataTypeSize(type));
  const Reach reach = Program::reach_of(view);
  view.data = program.address(static_cast<size_t>(reach.bytes));
  const Shape storage = {program.rarely() ? program.integer() : (reach.bytes + 7) / 2};
  aclTensor* tensor = aclCreateTensor(shape.data(), shape.size(), type, view.strides.data(), view.offset,
                                      ACL_FORMAT_ND, storage.data(), program.draw(0, 1), view.data);
  require(tensor != nullptr, "a tensor can be made");
  program.add(Kind::tensor, tensor);
  program.views[tensor] = view;
  return tensor;
}

// The next argument of phase 1: mostly a tensor of that shape and type, rarely something else.
aclTensor* argument(Program& program, Plan& plan, Shape shape, aclDataType type, Null null = Null::refused) {
  aclTensor* tensor = nullptr;
  switch (program.draw(0, 40)) {
    case 40:
      tensor = program.handle<aclTensor>(Kind::tensor, null);
      break;
    case 39:
      shape[program.draw<size_t>(0, shape.size() - 1)] = program.integer();
      tensor = make_tensor(program, shape, type);
      break;
    case 38:
      tensor = make_tensor(program, shape, program.value_of(ACL_FLOAT4_E1M2));
      break;
    default:
      tensor = make_tensor(program, shape, type);
  }
  Argument taken;
  if (program.is_live(Kind::tensor, tensor)) {
    const View& view = program.views[tensor];
    taken = {true, Program::reach_of(view), view.data};
  }
  plan.arguments.push_back(taken);
  return tensor;
}

aclTensor* optional_argument(Program& program, Plan& plan, const Shape& shape, aclDataType type, bool given) {
  if (given) return argument(program, plan, shape, type, Null::allowed);
  plan.arguments.push_back({});
  return nullptr;
}

template <class Phase1>
void plan_call(Program& program, Plan plan, Phase1 phase1) {
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  uint64_t* size_at = program.out(size);
  const bool planned = program.succeeded(phase1(size_at, program.out(executor)));
  require(planned == (executor != nullptr), "there is an executor where phase 1 succeeds, and only there");
  if (!planned) return;
  plan.workspace_size = size;
  program.add(Kind::executor, executor);
  program.plans[executor] = plan;
}

aclDataType float_type(Program& program) {
  return program.one_of({ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
}

aclDataType index_type(Program& program) {
  return program.coin() ? ACL_INT32 : ACL_INT64;
}

int64_t mode(Program& program, int64_t last) {
  return program.rarely() ? program.integer() : program.draw<int64_t>(0, last);
}

template <class Phase1>
void plan_grouped_bias(Program& program, Phase1 phase1) {
  const aclDataType type = float_type(program);
  const auto groups = program.draw<int64_t>(0, 6);
  const auto rows = program.draw<int64_t>(0, 20);
  const auto columns = program.draw<int64_t>(0, 20);
  const bool grouped = program.coin();
  Plan plan;
  aclTensor* grad_y =
      argument(program, plan, grouped ? Shape{rows, columns} : Shape{groups, rows, columns}, type);
  aclTensor* group_idx = optional_argument(program, plan, {groups}, index_type(program), grouped);
  plan.inputs = plan.arguments.size();
  aclTensor* out = argument(program, plan, {groups, columns}, type);
  plan_call(program, plan, [&](uint64_t* size, aclOpExecutor** executor) {
    return phase1(grad_y, group_idx, out, size, executor);
  });
}

struct GridSizes {
  aclDataType type;
  Shape input, grid, output;
};

GridSizes grid_sizes(Program& program) {
  GridSizes sizes;
  sizes.type = program.one_of({ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE});
  const auto batch = program.draw<int64_t>(0, 2);
  const auto channels = program.draw<int64_t>(0, 9);
  sizes.input = {batch, channels, program.draw<int64_t>(0, 6), program.draw<int64_t>(0, 6)};
  sizes.grid = {batch, program.draw<int64_t>(0, 4), program.draw<int64_t>(0, 4), 2};
  sizes.output = {batch, channels, sizes.grid[1], sizes.grid[2]};
  return sizes;
}

void plan_grid_sampler(Program& program) {
  const GridSizes sizes = grid_sizes(program);
  Plan plan;
  aclTensor* input = argument(program, plan, sizes.input, sizes.type);
  aclTensor* grid = argument(program, plan, sizes.grid, sizes.type);
  plan.inputs = plan.arguments.size();
  aclTensor* out = argument(program, plan, sizes.output, sizes.type);
  const int64_t interpolation = mode(program, 2);
  const int64_t padding = mode(program, 2);
  const bool align_corners = program.coin();
  plan_call(program, plan, [&](uint64_t* size, aclOpExecutor** executor) {
    return aclnnGridSampler2DGetWorkspaceSize(input, grid, interpolation, padding, align_corners, out, size,
                                              executor);
  });
}

aclBoolArray* output_mask(Program& program) {
  if (program.rarely()) return program.handle<aclBoolArray>(Kind::bool_array, Null::allowed);
  const bool wanted[] = {program.coin(), program.coin()};
  aclBoolArray* mask = aclCreateBoolArray(wanted, 2);
  require(mask != nullptr, "a mask can be made");
  program.add(Kind::bool_array, mask);
  return mask;
}

void plan_grid_sampler_backward(Program& program) {
  const GridSizes sizes = grid_sizes(program);
  Plan plan;
  aclTensor* grad_output = argument(program, plan, sizes.output, sizes.type);
  aclTensor* input = argument(program, plan, sizes.input, sizes.type);
  aclTensor* grid = argument(program, plan, sizes.grid, sizes.type);
  plan.inputs = plan.arguments.size();
  aclTensor* input_grad = argument(program, plan, sizes.input, sizes.type);
  aclTensor* grid_grad = argument(program, plan, sizes.grid, sizes.type);
  const int64_t interpolation = mode(program, 2);
  const int64_t padding = mode(program, 2);
  const bool align_corners = program.coin();
  const aclBoolArray* mask = output_mask(program);
  if (mask == nullptr) {  // nothing is asked for, and nothing else looked at
    program.nothing_is_wrong();
    plan = {};
  }
  plan_call(program, plan, [&](uint64_t* size, aclOpExecutor** executor) {
    return aclnnGridSampler2DBackwardGetWorkspaceSize(grad_output, input, grid, interpolation, padding,
                                                      align_corners, mask, input_grad, grid_grad, size,
                                                      executor);
  });
}

struct NsaSizes {
  aclDataType type;
  int64_t block, stride;
  Shape rows, weight, compressed;
  std::vector<int64_t> ends;
};

NsaSizes nsa_sizes(Program& program) {
  NsaSizes sizes;
  sizes.type = program.coin() ? ACL_FLOAT16 : ACL_BF16;
  sizes.stride = 16 * program.draw<int64_t>(1, 2);
  sizes.block = sizes.stride + 16 * program.draw<int64_t>(0, 2);
  int64_t tokens = 0;
  int64_t windows = 0;
  for (int64_t i = program.draw<int64_t>(1, 3); i > 0; --i) {
    const auto length = program.draw<int64_t>(0, 80);
    tokens += length;
    windows += length >= sizes.block ? (length - sizes.block) / sizes.stride + 1 : 0;
    sizes.ends.push_back(tokens);
  }
  const auto heads = program.draw<int64_t>(1, 2);
  const int64_t channels = 16;
  sizes.rows = {tokens, heads, channels};
  sizes.weight = {sizes.block, heads};
  sizes.compressed = {windows, heads, channels};
  if (program.rarely()) sizes.block = program.integer();
  if (program.rarely()) sizes.stride = program.integer();
  if (program.rarely()) sizes.ends = program.integers(program.draw<size_t>(0, 5));
  return sizes;
}

aclIntArray* sequence_ends(Program& program, const std::vector<int64_t>& ends, Null null) {
  if (program.rarely()) return program.handle<aclIntArray>(Kind::int_array, null);
  aclIntArray* array = aclCreateIntArray(ends.data(), ends.size());
  require(array != nullptr, "an array can be made");
  program.add(Kind::int_array, array);
  return array;
}

void plan_nsa_compress(Program& program) {
  const NsaSizes sizes = nsa_sizes(program);
  Plan plan;
  aclTensor* input = argument(program, plan, sizes.rows, sizes.type);
  aclTensor* weight = argument(program, plan, sizes.weight, sizes.type);
  plan.inputs = plan.arguments.size();
  aclTensor* output = argument(program, plan, sizes.compressed, sizes.type);
  const aclIntArray* ends = sequence_ends(program, sizes.ends, Null::refused);
  std::string layout = program.rarely() ? program.text() : "TND";
  const int64_t kind = mode(program, 0);
  plan_call(program, plan, [&](uint64_t* size, aclOpExecutor** executor) {
    return aclnnNsaCompressGetWorkspaceSize(input, weight, ends, layout.data(), sizes.block, sizes.stride,
                                            kind, output, size, executor);
  });
}

enum class Ends { on_host, on_device };

void plan_nsa_compress_grad(Program& program, Ends where) {
  const NsaSizes sizes = nsa_sizes(program);
  const bool on_device = where == Ends::on_device;
  Plan plan;
  aclTensor* output_grad = argument(program, plan, sizes.compressed, sizes.type);
  aclTensor* input = argument(program, plan, sizes.rows, sizes.type);
  aclTensor* weight = argument(program, plan, sizes.weight, sizes.type);
  const Shape ends_shape = {static_cast<int64_t>(sizes.ends.size())};
  aclTensor* ends_tensor = optional_argument(program, plan, ends_shape, ACL_INT64, on_device);
  plan.inputs = plan.arguments.size();
  aclTensor* input_grad = argument(program, plan, sizes.rows, sizes.type);
  aclTensor* weight_grad = argument(program, plan, sizes.weight, sizes.type);
  const aclIntArray* ends = on_device ? nullptr : sequence_ends(program, sizes.ends, Null::allowed);
  std::string text = program.rarely() ? program.text() : "TND";
  char* layout = program.rarely() ? nullptr : text.data();
  const int64_t kind = mode(program, 0);
  plan_call(program, plan, [&](uint64_t* size, aclOpExecutor** executor) {
    return on_device ? aclnnNsaCompressGradTensorGetWorkspaceSize(output_grad, input, weight, ends_tensor,
                                                                  sizes.block, sizes.stride, kind, layout,
                                                                  input_grad, weight_grad, size, executor)
                     : aclnnNsaCompressGradGetWorkspaceSize(output_grad, input, weight, ends, sizes.block,
                                                            sizes.stride, kind, layout, input_grad,
                                                            weight_grad, size, executor);
  });
}

// The tensors that deformable attention and its gradient share.
struct Attention {
  aclDataType type;
  Shape value, location, weight, query;
  aclTensor* value_tensor;
  aclTensor* spatial_shape;
  aclTensor* level_start;
  aclTensor* location_tensor;
  aclTensor* weight_tensor;

  Attention(Program& program, Plan& plan) : type(float_type(program)) {
    const auto batches = program.draw<int64_t>(0, 2);
    const auto heads = program.draw<int64_t>(0, 3);
    const int64_t channels = 8 * program.draw<int64_t>(0, 2);
    const auto queries = program.draw<int64_t>(0, 4);
    const auto levels = program.draw<int64_t>(0, 3);
    const auto points = program.draw<int64_t>(0, 3);
    value = {batches, program.draw<int64_t>(0, 20), heads, channels};
    location = {batches, queries, heads, levels, points, 2};
    weight = {batches, queries, heads, levels, points};
    query =
        program.coin() ? Shape{batches, queries, heads * channels} : Shape{batches, queries, heads, channels};
    value_tensor = argument(program, plan, value, type);
    spatial_shape = argument(program, plan, {levels, 2}, index_type(program));
    level_start = argument(program, plan, {levels}, index_type(program));
    location_tensor = argument(program, plan, location, type);
    weight_tensor = argument(program, plan, weight, type);
  }
};

void plan_attention(Program& program) {
  Plan plan;
  const Attention in(program, plan);
  plan.inputs = plan.arguments.size();
  aclTensor* output = argument(program, plan, in.query, in.type);
  plan_call(program, plan, [&](uint64_t* size, aclOpExecutor** executor) {
    return aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(in.value_tensor, in.spatial_shape,
                                                                 in.level_start, in.location_tensor,
                                                                 in.weight_tensor, output, size, executor);
  });
}

void plan_attention_grad(Program& program) {
  Plan plan;
  const Attention in(program, plan);
  aclTensor* grad_output = argument(program, plan, in.query, in.type);
  plan.inputs = plan.arguments.size();
  aclTensor* grad_value = argument(program, plan, in.value, in.type);
  aclTensor* grad_location = argument(program, plan, in.location, in.type);
  aclTensor* grad_weight = argument(program, plan, in.weight, in.type);
  plan_call(program, plan, [&](uint64_t* size, aclOpExecutor** executor) {
    return aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(
        in.value_tensor, in.spatial_shape, in.level_start, in.location_tensor, in.weight_tensor, grad_output,
        grad_value, grad_location, grad_weight, size, executor);
  });
}

// ---- Operators: phase 2 ----

// Whether the plan ends soon and stays in its memory, or the checker will refuse it.
bool may_run(const Program& program, const Plan& plan) {
  for (const Argument& argument : plan.arguments) {
    if (argument.reach.elements > kMaxElements) return false;
    if (program.fits(argument.address, argument.reach.bytes)) continue;
    if (!check::enabled || !program.is_of_library(argument.address)) return false;
  }
  return true;
}

bool meets(const Argument& argument, const void* memory, size_t bytes) {
  const auto* first = static_cast<const std::byte*>(argument.address);
  const auto* begin = static_cast<const std::byte*>(memory);
  return first != nullptr && begin != nullptr && first < begin + bytes &&
         begin < first + argument.reach.bytes;
}

template <auto kPhase2>
void run(Program& program) {
  if (program.live(Kind::executor).empty() && !program.rarely()) {
    const char* function = program.function();
    call(program, std::string(function) + "GetWorkspaceSize");
    program.begin(function);
  }
  auto* executor = program.handle<aclOpExecutor>(Kind::executor);
  void* stream = stream_or_default(program);
  const bool live = program.is_live(Kind::executor, executor);
  const Plan plan = live ? program.plans[executor] : Plan();
  if (!may_run(program, plan)) return;
  const auto needed = static_cast<size_t>(plan.workspace_size);
  const size_t size = program.rarely() ? program.draw<size_t>(0, 2 * needed) : needed;
  void* workspace = program.address(size + 1);
  if (workspace != nullptr) workspace = static_cast<std::byte*>(workspace) + program.draw(0, 1);
  for (const Argument& argument : plan.arguments) {
    if (meets(argument, workspace, size)) return;
  }
  program.refused_if(needed > 0 && (workspace == nullptr || size < needed));
  if (stream != nullptr && needed == 0 && !program.is_live(Kind::stream, stream)) {
    program.nothing_is_wrong();  // no work needs no stream
    program.refused_if(!live);
  }
  const void* user = program.user_of(stream);
  program.use(workspace, user);
  for (const Argument& argument : plan.arguments) program.use(argument.address, user);
  const Status status = kPhase2(workspace, size, executor, stream);
  if (!plan.repeatable) program.remove(Kind::executor, executor);
  program.succeeded(status);
}

const std::pair<const char*, void (*)(Program&)> kOperators[] = {
    {"aclnnGroupedBiasAddGradGetWorkspaceSize",
     [](Program& program) { plan_grouped_bias(program, aclnnGroupedBiasAddGradGetWorkspaceSize); }},
    {"aclnnGroupedBiasAddGrad", run<aclnnGroupedBiasAddGrad>},
    {"aclnnGroupedBiasAddGradV2GetWorkspaceSize",
     [](Program& program) {
       const int64_t kind = mode(program, 1);
       plan_grouped_bias(program, [&](const aclTensor* grad_y, const aclTensor* group_idx, aclTensor* out,
                                      uint64_t* size, aclOpExecutor** executor) {
         return aclnnGroupedBiasAddGradV2GetWorkspaceSize(grad_y, group_idx, kind, out, size, executor);
       });
     }},
    {"aclnnGroupedBiasAddGradV2", run<aclnnGroupedBiasAddGradV2>},
    {"aclnnGridSampler2DGetWorkspaceSize", plan_grid_sampler},
    {"aclnnGridSampler2D", run<aclnnGridSampler2D>},
    {"aclnnGridSampler2DBackwardGetWorkspaceSize", plan_grid_sampler_backward},
    {"aclnnGridSampler2DBackward", run<aclnnGridSampler2DBackward>},
    {"aclnnNsaCompressGetWorkspaceSize", plan_nsa_compress},
    {"aclnnNsaCompress", run<aclnnNsaCompress>},
    {"aclnnNsaCompressGradGetWorkspaceSize",
     [](Program& program) { plan_nsa_compress_grad(program, Ends::on_host); }},
    {"aclnnNsaCompressGradTensorGetWorkspaceSize",
     [](Program& program) { plan_nsa_compress_grad(program, Ends::on_device); }},
    {"aclnnNsaCompressGrad", run<aclnnNsaCompressGrad>},
    {"aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize", plan_attention},
    {"aclnnMultiScaleDeformableAttnFunction", run<aclnnMultiScaleDeformableAttnFunction>},
    {"aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize", plan_attention_grad},
    {"aclnnMultiScaleDeformableAttentionGrad", run<aclnnMultiScaleDeformableAttentionGrad>},
};

// ---- The older single-operator interface, and communicators ----

template <auto kGet>
void get_of_desc(Program& program) {
  kGet(program.handle<aclTensorDesc>(Kind::tensor_desc));
  program.returned();
}

template <auto kRefuse, class... Arguments>
void refuse(Program& program, Arguments... arguments) {
  program.refused_if(true);
  program.succeeded(kRefuse(arguments...));
}

const std::pair<const char*, void (*)(Program&)> kOlder[] = {
    {"aclCreateDataBuffer",
     [](Program& program) {
       void* data = program.address(8);
       program.made(Kind::data_buffer, aclCreateDataBuffer(data, static_cast<size_t>(program.integer())));
     }},
    {"aclDestroyDataBuffer",
     [](Program& program) {
       auto* buffer = program.handle<aclDataBuffer>(Kind::data_buffer);
       if (program.succeeded(aclDestroyDataBuffer(buffer))) program.remove(Kind::data_buffer, buffer);
     }},
    {"aclGetDataBufferAddr",
     [](Program& program) {
       aclGetDataBufferAddr(program.handle<aclDataBuffer>(Kind::data_buffer));
       program.returned();
     }},
    {"aclGetDataBufferSizeV2",
     [](Program& program) {
       aclGetDataBufferSizeV2(program.handle<aclDataBuffer>(Kind::data_buffer));
       program.returned();
     }},
    {"aclCreateTensorDesc",
     [](Program& program) {
       const Shape dims = program.integers(5 - program.draw<size_t>(0, 5));
       const int count = program.rarely() ? -1 : static_cast<int>(dims.size());
       const int64_t* values = program.rarely() ? nullptr : dims.data();
       program.refused_if(count < 0 || (count > 0 && values == nullptr));
       const aclDataType type = program.value_of(ACL_FLOAT4_E1M2);
       const aclFormat format = program.value_of(ACL_FORMAT_FRACTAL_NZ_C0_8);
       program.made(Kind::tensor_desc, aclCreateTensorDesc(type, count, values, format));
     }},
    {"aclDestroyTensorDesc",
     [](Program& program) {
       auto* desc = program.handle<aclTensorDesc>(Kind::tensor_desc, Null::allowed);
       aclDestroyTensorDesc(desc);
       program.returned();
       program.remove(Kind::tensor_desc, desc);
     }},
    {"aclGetTensorDescType", get_of_desc<aclGetTensorDescType>},
    {"aclGetTensorDescFormat", get_of_desc<aclGetTensorDescFormat>},
    {"aclGetTensorDescSize", get_of_desc<aclGetTensorDescSize>},
    {"aclGetTensorDescElementCount", get_of_desc<aclGetTensorDescElementCount>},
    {"aclGetTensorDescNumDims", get_of_desc<aclGetTensorDescNumDims>},
    {"aclGetTensorDescDimV2",
     [](Program& program) {
       auto* desc = program.handle<aclTensorDesc>(Kind::tensor_desc);
       int64_t size = 0;
       const auto index = static_cast<size_t>(program.integer());
       program.succeeded(aclGetTensorDescDimV2(desc, index, program.out(size)));
     }},
    {"aclopCreateAttr", [](Program&) { require(aclopCreateAttr() != nullptr, "attributes can be made"); }},
    {"aclopDestroyAttr",
     [](Program& program) { aclopDestroyAttr(program.coin() ? aclopCreateAttr() : nullptr); }},
    {"aclopSetModelDir", [](Program& program) { refuse<aclopSetModelDir>(program, "/"); }},
    {"aclopExecuteV2",
     [](Program& program) {
       refuse<aclopExecuteV2>(program, "type", 0, nullptr, nullptr, 0, nullptr, nullptr, aclopCreateAttr(),
                              stream_or_default(program));
     }},
    {"aclopCompileAndExecute",
     [](Program& program) {
       refuse<aclopCompileAndExecute>(program, "type", 0, nullptr, nullptr, 0, nullptr, nullptr,
                                      aclopCreateAttr(), ACL_ENGINE_SYS, ACL_COMPILE_SYS, nullptr,
                                      stream_or_default(program));
     }},
    {"aclopCompileAndExecuteV2",
     [](Program& program) {
       refuse<aclopCompileAndExecuteV2>(program, "type", 0, nullptr, nullptr, 0, nullptr, nullptr,
                                        aclopCreateAttr(), ACL_ENGINE_SYS, ACL_COMPILE_SYS, nullptr,
                                        stream_or_default(program));
     }},
    {"HcclCommInitAll",
     [](Program& program) {
       const auto count = program.rarely() ? static_cast<uint32_t>(program.integer()) : 1;
       int32_t devices[] = {static_cast<int32_t>(program.integer())};
       HcclComm communicator = nullptr;
       int32_t* devices_at = program.out(devices[0]);
       program.refused_if(count != 1);
       if (!program.succeeded(HcclCommInitAll(count, devices_at, program.out(communicator)))) return;
       program.add(Kind::communicator, communicator);
     }},
    {"HcclGetCommName",
     [](Program& program) {
       void* communicator = program.handle(Kind::communicator);
       char name[128];
       char* at = program.out(name[0]);
       if (program.succeeded(HcclGetCommName(communicator, at)))
         require(std::strlen(name) > 0, "it has a name");
     }},
    {"HcclCommDestroy",
     [](Program& program) {
       void* communicator = program.handle(Kind::communicator);
       if (program.succeeded(HcclCommDestroy(communicator))) program.remove(Kind::communicator, communicator);
     }},
};

// ---- All of them ----

struct Function {
  const char* name;
  void (*call)(Program&);
  uint64_t calls = 0;
  uint64_t successes = 0;
};

std::vector<Function>& functions() {
  // Never destroyed: the counts are printed at exit.
  static auto& functions = *new std::vector<Function>([] {
    std::vector<Function> all;
    const auto add = [&](const auto& some) {
      for (const auto& [name, call] : some) all.push_back({name, call});
    };
    add(kProcess), add(kContexts), add(kOptions), add(kStreams), add(kEvents), add(kMemory), add(kCallbacks);
    add(kTensors), add(kArrays), add(kExecutors), add(kOperators), add(kOlder);
    return all;
  }());
  return functions;
}

void call(Program& program, Function& function) {
  program.begin(function.name);
  function.call(program);
  ++function.calls;
  if (!program.has_failed()) ++function.successes;
}

void call(Program& program, const std::string& name) {
  for (Function& function : functions()) {
    if (function.name == name) return call(program, function);
  }
}

// Something of everything, so that few bytes go far.
void begin_as_usual(Program& program) {
  constexpr const char* kUsual[] = {
      "aclrtSetDevice",      "aclrtCtxSetSysParamOpt", "aclrtCreateStream",   "aclrtSubscribeReport",
      "aclrtCreateEvent",    "aclrtRecordEvent",       "aclrtMalloc",         "aclrtMalloc",
      "aclrtMallocHost",     "aclCreateTensor",        "aclCreateScalar",     "aclCreateIntArray",
      "aclCreateFloatArray", "aclCreateBoolArray",     "aclCreateTensorList", "aclCreateScalarList",
      "aclCreateTensorDesc", "aclCreateDataBuffer",    "HcclCommInitAll",
  };
  FuzzedDataProvider nothing(nullptr, 0);  // of which only right arguments are drawn
  program.read(nothing);
  for (const char* name : kUsual) call(program, name);
}

// For check_calls.py, which asks for it in the environment.
void print_counts() {
  for (const Function& function : functions()) {
    std::printf("%s %llu %llu\n", function.name, static_cast<unsigned long long>(function.calls),
                static_cast<unsigned long long>(function.successes));
  }
}

}  // namespace
}  // namespace aclgrad::fuzz

using namespace aclgrad::fuzz;

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (std::getenv("ACLGRAD_COUNT_CALLS") != nullptr) std::atexit(print_counts);
  // Later ones must be as the first one of the process.
  return aclInit(nullptr) == ACL_SUCCESS && aclFinalize() == ACL_SUCCESS ? 0 : 1;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider bytes(data, size);
  Program program;
  if (bytes.ConsumeIntegralInRange(0, 15) < 14) begin_as_usual(program);
  program.read(bytes);
  for (int calls = 0; calls < kMaxCalls && bytes.remaining_bytes() > 0; ++calls) {
    call(program, functions()[bytes.ConsumeIntegralInRange<size_t>(0, functions().size() - 1)]);
  }
  return 0;
}
