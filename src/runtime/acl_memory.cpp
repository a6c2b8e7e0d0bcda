// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Memory at the C interface.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "acl/acl_rt.h"
#include "base/never_destroyed.h"
#include "base/shards.h"
#include "runtime/entry.h"
#include "runtime/fork.h"
#include "runtime/observer.h"
#include "runtime/stream.h"

namespace aclgrad {
namespace {

struct Allocation {
  MemoryPlace place;
  size_t bytes;
  Device* device;

  // Of the device's memory, which a CPU device shares with the host.
  size_t bytes_on_device() const {
    return place == MemoryPlace::device || device->kind() == DeviceKind::cpu ? bytes : 0;
  }
};

struct Allocations {
  std::unordered_map<void*, Allocation> by_address;
  std::unordered_map<const Device*, size_t> bytes_on;
};

constexpr Singleton<Shards<Allocations, 64>> all_allocations{};

const char* name_of(MemoryPlace place) {
  return place == MemoryPlace::device ? "aclrtMalloc" : "aclrtMallocHost";
}

Allocation take_allocation(Parameter parameter, MemoryPlace place, void* memory) {
  const auto allocations = all_allocations().lock(memory);
  const auto found = allocations->by_address.find(memory);
  if (found == allocations->by_address.end() || found->second.place != place) {
    runtime_observer->release_refused(parameter.function, memory);
    throw bad_parameter(ACL_ERROR_INVALID_PARAM, parameter,
                        fmt::format("the start of memory of {} that was not freed", name_of(place)), memory);
  }
  const Allocation allocation = found->second;
  allocations->by_address.erase(found);
  allocations->bytes_on[allocation.device] -= allocation.bytes_on_device();
  return allocation;
}

void note_allocation(void* memory, const Allocation& allocation) {
  const auto allocations = all_allocations().lock(memory);
  size_t& bytes = allocations->bytes_on[allocation.device];
  allocations->by_address.emplace(memory, allocation);
  bytes += allocation.bytes_on_device();
}

// Operators on the device read and write in units of 32 bytes, so that programs may count on room for a last
// one.
constexpr size_t kUnit = 32;

void check_policy(std::string_view function, aclrtMemMallocPolicy policy) {
  constexpr int kHints =
      ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH | ACL_MEM_ACCESS_USER_SPACE_READONLY;
  const int kind = policy & ~kHints;
  require(kind >= ACL_MEM_MALLOC_HUGE_FIRST && kind <= ACL_MEM_MALLOC_HUGE1G_ONLY_P2P,
          ACL_ERROR_INVALID_PARAM, {function, "policy"}, "a value of aclrtMemMallocPolicy",
          static_cast<int>(policy));
}

void* allocate(std::string_view function, MemoryPlace place, size_t size, size_t padding) {
  require(size > 0, ACL_ERROR_INVALID_PARAM, {function, "size"}, "a positive number of bytes", size);
  require(size <= std::numeric_limits<size_t>::max() / 2, ACL_ERROR_RT_MEMORY_ALLOCATION, {function, "size"},
          "a size that the device has", size);
  const size_t reserved = (size + kUnit - 1) / kUnit * kUnit + padding;
  const std::shared_ptr<Context> context = current_context();
  Device* device = context->device;
  void* memory = runtime_observer->allocate(*device, context->device_id, place, size, reserved);
  try {
    note_allocation(memory, {place, reserved, device});
  } catch (...) {
    runtime_observer->release(function, *device, place, memory);
    throw;
  }
  return memory;
}

aclError allocate_device(std::string_view function, void** pointer, size_t size, aclrtMemMallocPolicy policy,
                         size_t padding) {
  return entry(function, [&] {
    require_pointer(pointer, {function, "devPtr"});
    check_policy(function, policy);
    *pointer = allocate(function, MemoryPlace::device, size, padding);
  });
}

aclError release(Parameter parameter, MemoryPlace place, void* memory) {
  return entry(parameter.function, [&] {
    require_pointer(memory, parameter);
    Device* device = take_allocation(parameter, place, memory).device;
    runtime_observer->release(parameter.function, *device, place, memory);
  });
}

enum class Timing { blocking, queued };

void check_kind(std::string_view function, aclrtMemcpyKind kind, Timing timing) {
  require(kind >= ACL_MEMCPY_HOST_TO_HOST && kind <= ACL_MEMCPY_INTER_DEVICE_TO_DEVICE,
          ACL_ERROR_INVALID_PARAM, {function, "kind"}, "a value of aclrtMemcpyKind", static_cast<int>(kind));
  if (kind == ACL_MEMCPY_HOST_TO_HOST && timing == Timing::queued) {
    throw not_supported(fmt::format("{}.kind ACL_MEMCPY_HOST_TO_HOST", function));
  }
}

void check_room(std::string_view function, size_t count, size_t room) {
  if (count <= room) return;
  throw bad_parameter(ACL_ERROR_RT_PARAM_INVALID, {function, "count"},
                      fmt::format("at most the destination's {} bytes", room), count);
}

Copy plain_copy(std::string_view function, void* destination, size_t room, const void* source, size_t count) {
  require_pointer(destination, {function, "dst"});
  require_pointer(source, {function, "src"});
  check_room(function, count, room);
  return {destination, count, source, count, count, 1};
}

Copy pitched_copy(std::string_view function, void* destination, size_t destination_pitch, const void* source,
                  size_t source_pitch, size_t width, size_t height) {
  require_pointer(destination, {function, "dst"});
  require_pointer(source, {function, "src"});
  if (width > destination_pitch || width > source_pitch) {
    throw bad_parameter(ACL_ERROR_RT_PARAM_INVALID, {function, "width"},
                        fmt::format("at most dpitch {} and spitch {}", destination_pitch, source_pitch),
                        width);
  }
  if (width == 0 || height == 0) return {destination, 0, source, 0, 0, 0};
  if (height == 1) return {destination, width, source, width, width, 1};
  size_t bytes = 0;
  if (__builtin_mul_overflow(std::max(destination_pitch, source_pitch), height, &bytes)) {
    throw bad_parameter(ACL_ERROR_RT_PARAM_INVALID, {function, "height"},
                        "as many rows as the address space can hold", height);
  }
  return {destination, destination_pitch, source, source_pitch, width, height};
}

Fill checked_fill(std::string_view function, void* destination, size_t room, int32_t value, size_t count) {
  require_pointer(destination, {function, "devPtr"});
  check_room(function, count, room);
  return {destination, static_cast<uint8_t>(value), count};
}

void copy_now(std::string_view function, const Copy& copy, aclrtMemcpyKind kind) {
  check_kind(function, kind, Timing::blocking);
  Device& device = *current_context()->device;
  device.copy(runtime_observer->copy_begins(function, copy, kind, nullptr));
}

void copy_on(aclrtStream stream, std::string_view function, const Copy& copy, aclrtMemcpyKind kind) {
  check_kind(function, kind, Timing::queued);
  const std::shared_ptr<Queue> queue = queue_of_stream(function, stream);
  submit_observed([&] { queue->copy(runtime_observer->copy_begins(function, copy, kind, queue.get())); });
}

// As the current device states it, less what was promised to this process but is not in use yet.
MemoryInfo current_memory_info() {
  const Device* device = current_context()->device;
  MemoryInfo info = device->memory_info();
  size_t bytes = 0;
  all_allocations().for_each([&](Allocations& allocations) { bytes += allocations.bytes_on[device]; });
  const size_t promised = std::min(bytes, info.total_bytes);
  info.free_bytes = std::min(info.free_bytes, info.total_bytes - promised);
  return info;
}

}  // namespace

void act_on_memory_locks(LockAction action) {
  all_allocations().act_on_locks(action);
}

}  // namespace aclgrad

using namespace aclgrad;

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return allocate_device("aclrtMalloc", devPtr, size, policy, kUnit);
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return allocate_device("aclrtMallocAlign32", devPtr, size, policy, 0);
}

aclError aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return allocate_device("aclrtMallocCached", devPtr, size, policy, kUnit);
}

aclError aclrtMallocWithCfg(void** devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig* cfg) {
  if (cfg != nullptr) {
    return entry(__func__, [] { throw not_supported("aclrtMallocWithCfg.cfg other than null"); });
  }
  return allocate_device("aclrtMallocWithCfg", devPtr, size, policy, kUnit);
}

aclError aclrtFree(void* devPtr) {
  return release({"aclrtFree", "devPtr"}, MemoryPlace::device, devPtr);
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  return entry(__func__, [&] {
    require_pointer(hostPtr, {"aclrtMallocHost", "hostPtr"});
    *hostPtr = allocate("aclrtMallocHost", MemoryPlace::host, size, 0);
  });
}

aclError aclrtFreeHost(void* hostPtr) {
  return release({"aclrtFreeHost", "hostPtr"}, MemoryPlace::host, hostPtr);
}

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  return entry(__func__,
               [&] { copy_now("aclrtMemcpy", plain_copy("aclrtMemcpy", dst, destMax, src, count), kind); });
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
  return entry(__func__, [&] {
    copy_on(stream, "aclrtMemcpyAsync", plain_copy("aclrtMemcpyAsync", dst, destMax, src, count), kind);
  });
}

aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind) {
  return entry(__func__, [&] {
    const Copy copy = pitched_copy("aclrtMemcpy2d", dst, dpitch, src, spitch, width, height);
    copy_now("aclrtMemcpy2d", copy, kind);
  });
}

aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                            size_t height, aclrtMemcpyKind kind, aclrtStream stream) {
  return entry(__func__, [&] {
    const Copy copy = pitched_copy("aclrtMemcpy2dAsync", dst, dpitch, src, spitch, width, height);
    copy_on(stream, "aclrtMemcpy2dAsync", copy, kind);
  });
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  return entry(__func__, [&] {
    const Fill fill = checked_fill("aclrtMemset", devPtr, maxCount, value, count);
    Device& device = *current_context()->device;
    device.fill(runtime_observer->fill_begins("aclrtMemset", fill, nullptr));
  });
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
  return entry(__func__, [&] {
    const Fill fill = checked_fill("aclrtMemsetAsync", devPtr, maxCount, value, count);
    const std::shared_ptr<Queue> queue = queue_of_stream("aclrtMemsetAsync", stream);
    submit_observed(
        [&] { queue->fill(runtime_observer->fill_begins("aclrtMemsetAsync", fill, queue.get())); });
  });
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  return entry(__func__, [&] {
    require(attr >= ACL_DDR_MEM && attr <= ACL_MEM_P2P_HUGE1G, ACL_ERROR_INVALID_PARAM,
            {"aclrtGetMemInfo", "attr"}, "a value of aclrtMemAttr", static_cast<int>(attr));
    require_pointer(free, {"aclrtGetMemInfo", "free"});
    require_pointer(total, {"aclrtGetMemInfo", "total"});
    const MemoryInfo info = current_memory_info();
    *free = info.free_bytes;
    *total = info.total_bytes;
  });
}

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp*, aclrtMemGranularityOptions, size_t*) {
  return question(__func__, [] { throw not_supported("Physical memory"); });
}

aclError aclrtReserveMemAddress(void**, size_t, size_t, void*, uint64_t) {
  return question(__func__, [] { throw not_supported("Physical memory"); });
}

aclError aclrtReleaseMemAddress(void*) {
  return entry(__func__, [] { throw not_supported("Physical memory"); });
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle*, size_t, const aclrtPhysicalMemProp*, uint64_t) {
  return question(__func__, [] { throw not_supported("Physical memory"); });
}

aclError aclrtFreePhysical(aclrtDrvMemHandle) {
  return entry(__func__, [] { throw not_supported("Physical memory"); });
}

aclError aclrtMapMem(void*, size_t, size_t, aclrtDrvMemHandle, uint64_t) {
  return entry(__func__, [] { throw not_supported("Physical memory"); });
}

aclError aclrtUnmapMem(void*) {
  return entry(__func__, [] { throw not_supported("Physical memory"); });
}
