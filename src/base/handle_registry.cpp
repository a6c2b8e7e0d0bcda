// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "base/handle_registry.h"

#include <iterator>
#include <unordered_map>

#include "base/fork.h"
#include "base/never_destroyed.h"
#include "base/shards.h"

namespace aclgrad {
namespace {

using Handles = std::unordered_map<const void*, HandleKind>;

constexpr Singleton<Shards<Handles, 64>> all_handles{};

}  // namespace

const char* name_of(HandleKind kind) {
  constexpr const char* kNames[] = {"aclTensor",     "aclScalar",     "aclIntArray",   "aclFloatArray",
                                    "aclBoolArray",  "aclTensorList", "aclScalarList", "aclOpExecutor",
                                    "aclOpExecutor", "aclTensorDesc", "aclDataBuffer", "HcclComm"};
  static_assert(std::size(kNames) == static_cast<size_t>(HandleKind::communicator) + 1);
  return kNames[static_cast<size_t>(kind)];
}

void register_handle(const void* handle, HandleKind kind) {
  all_handles().lock(handle)->insert_or_assign(handle, kind);
}

bool unregister_handle(const void* handle, HandleKind kind) noexcept {
  const auto handles = all_handles().lock(handle);
  const auto found = handles->find(handle);
  if (found == handles->end() || found->second != kind) return false;
  handles->erase(found);
  return true;
}

bool change_handle(const void* handle, HandleKind from, HandleKind to) noexcept {
  const auto handles = all_handles().lock(handle);
  const auto found = handles->find(handle);
  if (found == handles->end() || found->second != from) return false;
  found->second = to;
  return true;
}

bool is_live_handle(const void* handle, HandleKind kind) noexcept {
  const auto handles = all_handles().lock(handle);
  const auto found = handles->find(handle);
  return found != handles->end() && found->second == kind;
}

size_t live_handle_count() noexcept {
  size_t count = 0;
  all_handles().for_each([&](const Handles& handles) { count += handles.size(); });
  return count;
}

void act_on_handle_locks(LockAction action) {
  all_handles().act_on_locks(action);
}

}  // namespace aclgrad
