// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "base/handle_registry.h"

#include <array>
#include <mutex>
#include <unordered_map>

#include "base/fork.h"
#include "base/never_destroyed.h"

namespace aclgrad {
namespace {

struct Shard {
  std::mutex mutex;
  std::unordered_map<const void*, HandleKind> handles;
};

// Several shards, so that threads with handles of their own seldom meet.
std::array<Shard, 64>& all_shards() {
  static NeverDestroyed<std::array<Shard, 64>> shards;
  return *shards;
}

Shard& shard_of(const void* handle) {
  const uint64_t mixed = reinterpret_cast<uintptr_t>(handle) * 0x9E3779B97F4A7C15u;
  return all_shards()[mixed >> 58];
}

}  // namespace

const char* name_of(HandleKind kind) {
  switch (kind) {
    case HandleKind::tensor:
      return "aclTensor";
    case HandleKind::scalar:
      return "aclScalar";
    case HandleKind::int_array:
      return "aclIntArray";
    case HandleKind::float_array:
      return "aclFloatArray";
    case HandleKind::bool_array:
      return "aclBoolArray";
    case HandleKind::tensor_list:
      return "aclTensorList";
    case HandleKind::scalar_list:
      return "aclScalarList";
    case HandleKind::executor:
    case HandleKind::executor_in_use:
      return "aclOpExecutor";
    case HandleKind::tensor_desc:
      return "aclTensorDesc";
    case HandleKind::data_buffer:
      return "aclDataBuffer";
    case HandleKind::communicator:
      return "HcclComm";
  }
  return "handle";
}

void register_handle(const void* handle, HandleKind kind) {
  Shard& shard = shard_of(handle);
  std::lock_guard lock(shard.mutex);
  shard.handles.insert_or_assign(handle, kind);
}

bool unregister_handle(const void* handle, HandleKind kind) noexcept {
  Shard& shard = shard_of(handle);
  std::lock_guard lock(shard.mutex);
  const auto found = shard.handles.find(handle);
  if (found == shard.handles.end() || found->second != kind) return false;
  shard.handles.erase(found);
  return true;
}

bool change_handle(const void* handle, HandleKind from, HandleKind to) noexcept {
  Shard& shard = shard_of(handle);
  std::lock_guard lock(shard.mutex);
  const auto found = shard.handles.find(handle);
  if (found == shard.handles.end() || found->second != from) return false;
  found->second = to;
  return true;
}

bool is_live_handle(const void* handle, HandleKind kind) noexcept {
  Shard& shard = shard_of(handle);
  std::lock_guard lock(shard.mutex);
  const auto found = shard.handles.find(handle);
  return found != shard.handles.end() && found->second == kind;
}

size_t live_handle_count() noexcept {
  size_t count = 0;
  for (Shard& shard : all_shards()) {
    std::lock_guard lock(shard.mutex);
    count += shard.handles.size();
  }
  return count;
}

void act_on_handle_locks(LockAction action) {
  for (Shard& shard : all_shards()) action(shard.mutex);
}

}  // namespace aclgrad
