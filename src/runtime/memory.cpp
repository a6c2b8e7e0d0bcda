// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "acl/acl_base.h"
#include "base/error.h"
#include "base/never_destroyed.h"
#include "base/shards.h"
#include "runtime/context.h"
#include "runtime/fork.h"
#include "runtime/observer.h"

namespace aclgrad {
namespace {

struct Allocation {
  MemoryPlace place;
  size_t bytes;
  Device* device;
};

struct Allocations {
  std::unordered_map<void*, Allocation> by_address;
  std::unordered_map<const Device*, size_t> bytes_on;
};

Shards<Allocations, 64>& all_allocations() {
  static NeverDestroyed<Shards<Allocations, 64>> allocations;
  return *allocations;
}

const char* name_of(MemoryPlace place) {
  return place == MemoryPlace::device ? "aclrtMalloc" : "aclrtMallocHost";
}

Allocation take_allocation(Parameter parameter, MemoryPlace place, void* memory) {
  const auto allocations = all_allocations().lock(memory);
  const auto found = allocations->by_address.find(memory);
  if (found == allocations->by_address.end() || found->second.place != place) {
    if (runtime_observer != nullptr) runtime_observer->release_refused(parameter.function, memory);
    throw bad_parameter(ACL_ERROR_INVALID_PARAM, parameter,
                        fmt::format("the start of memory of {} that was not freed", name_of(place)), memory);
  }
  const Allocation allocation = found->second;
  allocations->by_address.erase(found);
  allocations->bytes_on[allocation.device] -= allocation.bytes;
  return allocation;
}

void note_allocation(void* memory, const Allocation& allocation) {
  const auto allocations = all_allocations().lock(memory);
  size_t& bytes = allocations->bytes_on[allocation.device];
  allocations->by_address.emplace(memory, allocation);
  bytes += allocation.bytes;
}

void give_back(std::string_view function, void* memory, Device& device, MemoryPlace place) noexcept {
  if (runtime_observer != nullptr) {
    runtime_observer->release(function, device, place, memory);
  } else {
    device.release(place, memory);
  }
}

}  // namespace

void* allocate_memory(MemoryPlace place, size_t requested, size_t reserved) {
  const std::shared_ptr<Context> context = current_context();
  Device* device = context->device;
  void* memory = runtime_observer != nullptr
                     ? runtime_observer->allocate(*device, context->device_id, place, requested, reserved)
                     : device->allocate(place, reserved);
  try {
    note_allocation(memory, {place, reserved, device});
  } catch (...) {
    give_back("aclrtMalloc", memory, *device, place);
    throw;
  }
  return memory;
}

void release_memory(Parameter parameter, MemoryPlace place, void* memory) {
  Device* device = take_allocation(parameter, place, memory).device;
  give_back(parameter.function, memory, *device, place);
}

void act_on_memory_locks(LockAction action) {
  all_allocations().act_on_locks(action);
}

MemoryInfo current_memory_info() {
  const Device* device = current_context()->device;
  MemoryInfo info = device->memory_info();
  size_t bytes = 0;
  all_allocations().for_each([&](Allocations& allocations) { bytes += allocations.bytes_on[device]; });
  const size_t promised = std::min(bytes, info.total_bytes);
  info.free_bytes = std::min(info.free_bytes, info.total_bytes - promised);
  return info;
}

}  // namespace aclgrad
