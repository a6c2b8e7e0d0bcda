// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Calls of the runtime: the process, devices, contexts, streams, events, memory and callbacks.
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "aclnn/aclnn_base.h"
#include "arguments.h"
#include "check/check.h"

namespace aclgrad::fuzz {
namespace {

constexpr int32_t kDevices = 8;

// ---- What calls draw and leave behind ----

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

struct ConfigurationPath : Drawn<const char*> {
  explicit ConfigurationPath(Program& program) : Drawn{configuration_path(program)} {}
};

void end_library(Program& program) {
  for (int32_t device = 0; device < kDevices; ++device) program.device_gone(device);
}

struct Device : Drawn<int32_t> {
  explicit Device(Program& program)
      : Drawn{program.rarely() ? static_cast<int32_t>(program.integer()) : program.draw(0, kDevices - 1)} {
    program.refused_if(value < 0 || value >= kDevices);
  }
};

struct SetDevice : Device {
  using Device::Device;
  void succeeded(Program& program) {
    ++program.users[value];
    program.default_contexts[value] = program.current_context();
    program.add(Kind::context, program.default_contexts[value]);
  }
};

struct UsedDevice : Device {
  explicit UsedDevice(Program& program) : Device(program) {
    program.refused_if(program.users.count(value) == 0);
  }
  void succeeded(Program& program) {
    if (--program.users[value] == 0) program.device_gone(value);
  }
};

struct UsedDeviceForAll : UsedDevice {
  using UsedDevice::UsedDevice;
  void succeeded(Program& program) { program.device_gone(value); }
};

struct EndedContext : Ended<Kind::context> {
  explicit EndedContext(Program& program) : Ended(program) {
    for (const auto& [id, of_device] : program.default_contexts) program.refused_if(value == of_device);
  }
};

struct CurrentContext : Out<void*> {
  using Out::Out;
  void succeeded(Program& program) {
    require(program.is_live(Kind::context, value), "the current context is live");
  }
};

using Option = Value<ACL_OPT_ENABLE_KERNEL_EARLY_START>;

struct OptionValue : Drawn<int64_t> {
  explicit OptionValue(Program& program) : Drawn{program.coin() ? program.draw(0, 3) : program.integer()} {}
};

struct AwaitedEvent : Event {
  using Event::Event;
  void succeeded(Program& program) { program.await(value); }
};

struct ResetEvent : Event {
  using Event::Event;
  void succeeded(Program& program) { program.recorded.erase(value); }
};

struct RecordedEvent : Event {
  explicit RecordedEvent(Program& program) : Event(program) {
    program.refused_if(program.recorded.count(value) == 0 && !program.is_awaited(value));
  }
};

struct EventFlag : Drawn<uint32_t> {
  explicit EventFlag(Program& program)
      : Drawn{program.rarely() ? static_cast<uint32_t>(program.integer())
                               : program.draw(0, 1) * ACL_EVENT_TIME_LINE} {}
};

// ---- Memory ----

using Policy = Value<ACL_MEM_MALLOC_HUGE1G_ONLY_P2P>;

size_t allocation_size(Program& program) {
  const size_t size = program.rarely() ? program.one_of({size_t{0}, kAbsurdSize, SIZE_MAX, SIZE_MAX / 2})
                                       : kMaxAllocation - program.draw<size_t>(0, kMaxAllocation - 1);
  program.refused_if(size == 0 || size >= kAbsurdSize);
  return size;
}

// `more` follows the place and the size.
template <auto kAllocate, Kind kKind, class... More>
void allocate(Program& program) {
  std::tuple<More...> more{More(program)...};
  const size_t size = allocation_size(program);
  Out<void*> memory(program);
  const auto call = [&](More&... each) { return kAllocate(memory, size, each...); };
  if (program.succeeded(std::apply(call, more))) program.add_memory(kKind, memory.value, size);
}

struct MallocConfiguration : Drawn<aclrtMallocConfig*> {
  explicit MallocConfiguration(Program& program)
      : Drawn{reinterpret_cast<aclrtMallocConfig*>(program.rarely() ? program.address(8) : nullptr)} {
    program.refused_if(value != nullptr);
  }
};

template <auto kFree, Kind kKind>
void free_memory(Program& program) {
  void* memory = program.handle(kKind);
  // Only the checker keeps memory that is still in use.
  if (!check::enabled || !program.rarely()) program.use(memory, nullptr);
  if (program.succeeded(kFree(memory))) program.memory_gone(kKind, memory);
}

// A source or destination, as large as it must be unless the checker is there to find out.
void* address(Program& program, size_t bytes) {
  return program.rarely() ? program.wrong_address() : program.address(bytes);
}

size_t room_for(Program& program, size_t count) {
  const size_t room = program.rarely() ? program.draw<size_t>(0, 600) : count;
  program.refused_if(room < count);
  return room;
}

// The last argument of functions that queue their work, and whose memory that uses meanwhile.
struct On {
  void* stream = nullptr;
  const void* user = nullptr;

  static On a_stream(Program& program) {
    void* stream = Stream(program);
    return {stream, program.user_of(stream)};
  }
  void* use(Program& program, void* memory) const {
    program.refused_if(memory == nullptr);
    program.use(memory, user);
    return memory;
  }
};

// Calls the function with these arguments, and with the stream if it takes one.
template <auto kFunction, class... Arguments>
void call_on(Program& program, const On& on, Arguments... arguments) {
  if constexpr (std::is_invocable_v<decltype(kFunction), Arguments...>) {
    program.succeeded(kFunction(arguments...));
  } else {
    program.succeeded(kFunction(arguments..., on.stream));
  }
}

aclrtMemcpyKind copy_kind(Program& program, const On& on) {
  const aclrtMemcpyKind kind = KnownValue<ACL_MEMCPY_INTER_DEVICE_TO_DEVICE>(program);
  program.refused_if(kind == ACL_MEMCPY_HOST_TO_HOST && on.user != nullptr);
  return kind;
}

template <auto kCopy>
void copy(Program& program, const On& on) {
  const auto count = program.draw<size_t>(0, 600);
  const size_t room = room_for(program, count);
  const aclrtMemcpyKind kind = copy_kind(program, on);
  void* to = address(program, count);
  void* from = address(program, count);
  call_on<kCopy>(program, on, on.use(program, to), room, on.use(program, from), count, kind);
}

template <auto kCopy>
void copy_rows(Program& program, const On& on) {
  const auto width = program.draw<size_t>(0, 40);
  auto height = program.draw<size_t>(0, 10);
  auto to_pitch = program.draw<size_t>(0, 60);
  size_t from_pitch = width + program.draw<size_t>(0, 20);
  // Nothing is copied then, however many rows and however far apart.
  if (width == 0 && program.coin()) height = static_cast<size_t>(program.integer());
  if (height <= 1 && program.coin()) to_pitch = static_cast<size_t>(program.integer());
  if (height <= 1 && program.coin()) from_pitch = static_cast<size_t>(program.integer());
  const aclrtMemcpyKind kind = copy_kind(program, on);
  const bool is_empty = width == 0 || height == 0;
  const auto spanned = [&](size_t pitch) { return is_empty ? 0 : (height - 1) * pitch + width; };
  void* to = address(program, spanned(to_pitch));
  void* from = address(program, spanned(from_pitch));
  program.refused_if(width > to_pitch || width > from_pitch);
  call_on<kCopy>(program, on, on.use(program, to), to_pitch, on.use(program, from), from_pitch, width, height,
                 kind);
}

template <auto kFill>
void fill(Program& program, const On& on) {
  const auto count = program.draw<size_t>(0, 600);
  const size_t room = room_for(program, count);
  const auto value = static_cast<int32_t>(program.integer());
  void* to = address(program, count);
  call_on<kFill>(program, on, on.use(program, to), room, value, count);
}

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

struct DeviceAttribute : Drawn<aclrtDevAttr> {
  explicit DeviceAttribute(Program& program)
      : Drawn{program.refused_if(program.rarely())
                  ? static_cast<aclrtDevAttr>(99)
                  : program.one_of({ACL_DEV_ATTR_AICORE_CORE_NUM, ACL_DEV_ATTR_CUBE_CORE_NUM,
                                    ACL_DEV_ATTR_VECTOR_CORE_NUM, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE,
                                    ACL_DEV_ATTR_L2_CACHE_SIZE})} {}
};

// ---- The calls ----

const Call kCalls[] = {
    CALL(aclInit, ConfigurationPath),
    {"aclFinalize",
     [](Program& program) {
       program.unblock();
       if (program.succeeded(aclFinalize())) end_library(program);
     }},
    {"aclFinalizeReference",
     [](Program& program) {
       program.unblock();
       uint64_t left = 0;
       if (program.succeeded(aclFinalizeReference(program.out(left))) && left == 0) end_library(program);
     }},
    CALL(aclnnInit, ConfigurationPath),
    CALL(aclnnFinalize),
    CALL(aclrtGetVersion, Out<int32_t>, Out<int32_t>, Out<int32_t>),
    {"aclGetRecentErrMsg",
     [](Program&) { require(aclGetRecentErrMsg() == nullptr, "a message that was taken is gone"); }},
    ASK(aclrtPeekAtLastError, KnownValue<ACL_RT_THREAD_LEVEL>),
    {"aclrtGetLastError",
     [](Program& program) {
       const aclrtLastErrLevel level = KnownValue<ACL_RT_THREAD_LEVEL>(program);
       aclrtGetLastError(level);
       program.returned();
       if (level != ACL_RT_THREAD_LEVEL) return;
       require(aclrtPeekAtLastError(level) == ACL_SUCCESS, "an error that was taken is gone");
     }},
    {"aclrtGetSocName", [](Program&) { require(std::strlen(aclrtGetSocName()) > 0, "the chip has a name"); }},
    {"aclDataTypeSize",
     [](Program& program) { require(aclDataTypeSize(DataTypeValue(program)) <= 16, "a type is small"); }},
    {"aclFloat16ToFloat",
     [](Program& program) {
       const auto bits = static_cast<aclFloat16>(program.integer());
       const float value = aclFloat16ToFloat(bits);
       if (value == value) require(aclFloatToFloat16(value) == bits, "a half survives float");
     }},
    ASK(aclFloatToFloat16, Any<float>),

    CALL(aclrtSetDevice, SetDevice),
    CALL_THAT_WAITS(aclrtResetDevice, UsedDevice),
    CALL_THAT_WAITS(aclrtResetDeviceForce, UsedDeviceForAll),
    CALL(aclrtGetDevice, Between<int32_t, 0, kDevices - 1>),
    CALL(aclrtGetDeviceCount, Between<uint32_t, kDevices, kDevices>),
    CALL(aclrtGetRunMode, Out<aclrtRunMode>),
    CALL_THAT_WAITS(aclrtSynchronizeDevice),
    CALL(aclrtSynchronizeDeviceWithTimeout, Timeout),
    CALL(aclrtCreateContext, Made<Kind::context>, Device),
    CALL_THAT_WAITS(aclrtDestroyContext, EndedContext),
    CALL(aclrtSetCurrentContext, Handle<Kind::context>),
    CALL(aclrtGetCurrentContext, CurrentContext),

    CALL(aclrtCtxSetSysParamOpt, Option, OptionValue),
    CALL(aclrtCtxGetSysParamOpt, Option, Out<int64_t>),
    {"aclrtSetSysParamOpt",
     [](Program& program) {
       const Option option(program);
       const OptionValue value(program);
       program.refused_if(value < 0 || value > 3);
       if (!program.succeeded(aclrtSetSysParamOpt(option, value))) return;
       int64_t stored = -1;
       require(aclrtGetSysParamOpt(option, &stored) == ACL_SUCCESS && stored == value,
               "an option stays as it is set");
     }},
    CALL(aclrtGetSysParamOpt, Option, Out<int64_t>),

    CALL(aclrtCreateStream, Made<Kind::stream>),
    CALL(aclrtCreateStreamWithConfig, Made<Kind::stream>, Any<uint32_t>, AtMost<uint32_t, 0x3F>),
    CALL_THAT_WAITS(aclrtDestroyStream, Ended<Kind::stream>),
    CALL(aclrtDestroyStreamForce, Ended<Kind::stream>),
    CALL_THAT_WAITS(aclrtSynchronizeStream, Stream),
    CALL(aclrtSynchronizeStreamWithTimeout, Stream, Timeout),
    CALL(aclrtStreamQuery, Stream, Out<aclrtStreamStatus>),
    CALL(aclrtStreamWaitEvent, Stream, AwaitedEvent),
    CALL(aclrtSetStreamFailureMode, Stream, AtMost<uint64_t, ACL_STOP_ON_FAILURE>),

    CALL(aclrtCreateEvent, Made<Kind::event>),
    CALL(aclrtCreateEventWithFlag, Made<Kind::event>, EventFlag),
    CALL(aclrtCreateEventExWithFlag, Made<Kind::event>, EventFlag),
    CALL(aclrtDestroyEvent, Ended<Kind::event>),
    {"aclrtRecordEvent",
     [](Program& program) {
       const Event event(program);
       const Stream stream(program);
       // In any other stream the mark may come after a wait for it.
       if (program.is_awaited(event)) {
         program.record_elsewhere(event);
       } else if (program.succeeded(aclrtRecordEvent(event, stream))) {
         program.recorded.insert(event);
       }
     }},
    CALL(aclrtResetEvent, ResetEvent, Stream),
    CALL(aclrtQueryEvent, Event, Out<aclrtEventStatus>),
    CALL(aclrtQueryEventStatus, Event, Out<aclrtEventRecordedStatus>),
    CALL(aclrtQueryEventWaitStatus, Event, Out<aclrtEventWaitStatus>),
    CALL_THAT_WAITS(aclrtSynchronizeEvent, RecordedEvent),
    CALL(aclrtSynchronizeEventWithTimeout, Event, Timeout),
    CALL(aclrtEventElapsedTime, Out<float>, Event, Event),

    {"aclrtMalloc", allocate<aclrtMalloc, Kind::device_memory, Policy>},
    {"aclrtMallocAlign32", allocate<aclrtMallocAlign32, Kind::device_memory, Policy>},
    {"aclrtMallocCached", allocate<aclrtMallocCached, Kind::device_memory, Policy>},
    {"aclrtMallocWithCfg", allocate<aclrtMallocWithCfg, Kind::device_memory, Policy, MallocConfiguration>},
    {"aclrtFree", free_memory<aclrtFree, Kind::device_memory>},
    {"aclrtMallocHost", allocate<aclrtMallocHost, Kind::host_memory>},
    {"aclrtFreeHost", free_memory<aclrtFreeHost, Kind::host_memory>},
    {"aclrtMemcpy", [](Program& program) { copy<aclrtMemcpy>(program, {}); }},
    {"aclrtMemcpyAsync", [](Program& program) { copy<aclrtMemcpyAsync>(program, On::a_stream(program)); }},
    {"aclrtMemcpy2d", [](Program& program) { copy_rows<aclrtMemcpy2d>(program, {}); }},
    {"aclrtMemcpy2dAsync",
     [](Program& program) { copy_rows<aclrtMemcpy2dAsync>(program, On::a_stream(program)); }},
    {"aclrtMemset", [](Program& program) { fill<aclrtMemset>(program, {}); }},
    {"aclrtMemsetAsync", [](Program& program) { fill<aclrtMemsetAsync>(program, On::a_stream(program)); }},
    {"aclrtGetMemInfo",
     [](Program& program) {
       const KnownValue<ACL_MEM_P2P_HUGE1G> attribute(program);
       Out<size_t> free(program), total(program);
       if (program.succeeded(aclrtGetMemInfo(attribute, free, total)))
         require(free.value <= total.value, "no more is free than there is");
     }},

    {"aclrtSubscribeReport",
     [](Program& program) {
       const uint64_t thread = thread_number(program);
       const Stream stream(program);
       if (!program.succeeded(aclrtSubscribeReport(thread, stream))) return;
       program.subscriptions.push_back({context_of(program, stream), stream, thread});
     }},
    {"aclrtLaunchCallback",
     [](Program& program) {
       const aclrtCallback function = program.refused_if(program.rarely()) ? nullptr : callback;
       const KnownValue<ACL_CALLBACK_BLOCK> block(program);
       const bool launched =
           program.succeeded(aclrtLaunchCallback(function, nullptr, block, Stream(program)));
       program.callbacks_are_due = program.callbacks_are_due || launched;
     }},
    {"aclrtProcessReport",
     [](Program& program) {
       const bool waits = std::any_of(program.subscriptions.begin(), program.subscriptions.end(),
                                      [](const auto& one) { return one.thread == this_thread(); });
       program.succeeded(aclrtProcessReport(waits ? program.one_of({1, 1, 2, 0, -2}) : Timeout(program)));
     }},
    {"aclrtUnSubscribeReport",
     [](Program& program) {
       const uint64_t thread = thread_number(program);
       const Stream stream(program);
       if (!program.succeeded(aclrtUnSubscribeReport(thread, stream))) return;
       std::erase_if(program.subscriptions, [&](const auto& one) {
         return one.stream == stream && one.context == context_of(program, stream);
       });
     }},
};

const Call kLater[] = {
    CALL(aclrtGetDeviceInfo, Device, DeviceAttribute, Between<int64_t, 0, INT64_MAX>),
    CALL(aclrtDeviceCanAccessPeer, Between<int32_t, 1, 1>, Device, Device),
    CALL(aclrtDeviceEnablePeerAccess, Device, Any<uint32_t>),
    CALL(aclrtDeviceDisablePeerAccess, Device),
    REFUSED(aclrtMemGetAllocationGranularity),
    REFUSED(aclrtReserveMemAddress),
    REFUSED(aclrtReleaseMemAddress),
    REFUSED(aclrtMallocPhysical),
    REFUSED(aclrtFreePhysical),
    REFUSED(aclrtMapMem),
    REFUSED(aclrtUnmapMem),
};

}  // namespace

Calls runtime_calls() {
  return kCalls;
}

Calls later_calls() {
  return kLater;
}

}  // namespace aclgrad::fuzz
