// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/context.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "acl/acl_base.h"
#include "base/never_destroyed.h"
#include "runtime/fork.h"
#include "runtime/handle_table.h"
#include "runtime/observer.h"
#include "runtime/parameter.h"
#include "runtime/stream.h"

namespace aclgrad {
namespace {

struct DefaultContext {
  void* handle = nullptr;  // null where it could not be made
  int64_t users = 0;
};

struct State {
  HandleTable<Context> contexts;
  std::mutex mutex;
  std::map<int, DefaultContext> defaults;  // by device id
  std::atomic<int> implicit_device{-1};
};

State& state() {
  static NeverDestroyed<State> state;
  return *state;
}

// A plain pointer, since it is read even while the thread's other variables are destroyed.
thread_local void* current = nullptr;

void check_device(const char* function, int device_id) {
  if (device_id >= 0 && device_id < visible_device_count()) return;
  const std::string expected = visible_device_count() > 0
                                   ? fmt::format("0 to {}", visible_device_count() - 1)
                                   : fmt::format("a device, of which there is none ({})", why_no_device());
  throw bad_parameter(ACL_ERROR_RT_INVALID_DEVICEID, {function, "deviceId"}, expected, device_id);
}

Error no_context() {
  return Error(ACL_ERROR_RT_CONTEXT_NULL, "The calling thread has no context.",
               "The thread has not set a device, or its context has been destroyed or reset since.",
               "Call aclrtSetDevice or aclrtSetCurrentContext in this thread first.");
}

void* add_context(int device_id, bool is_default) {
  auto context = std::make_shared<Context>();
  context->device_id = device_id;
  context->device = &visible_device(device_id);
  context->is_default = is_default;
  void* handle = new_handle();
  state().contexts.add(handle, context);
  try {
    context->default_stream = create_stream(handle, *context);
  } catch (...) {
    state().contexts.remove(handle);
    throw;
  }
  return handle;
}

// Takes the device's default context away from all threads, then waits for its work.
void release_default_context(int device_id, void* handle) {
  state().contexts.remove(handle);
  destroy_streams_of(handle);
  if (runtime_observer != nullptr) runtime_observer->device_reset(device_id);
}

void reset(const char* function, int device_id, bool force) {
  check_device(function, device_id);
  std::unique_lock lock(state().mutex);
  const auto found = state().defaults.find(device_id);
  if (found == state().defaults.end() || found->second.handle == nullptr) {
    throw bad_parameter(ACL_ERROR_RT_CONTEXT_NULL, {function, "deviceId"}, "a device that is set",
                        fmt::format("{}, which was never set, or was reset already", device_id));
  }
  if (--found->second.users > 0 && !force) return;
  void* handle = found->second.handle;
  state().defaults.erase(found);
  lock.unlock();
  release_default_context(device_id, handle);
}

}  // namespace

void* current_context_handle() {
  if (current == nullptr) {
    const int implicit = state().implicit_device;
    if (implicit < 0) throw no_context();
    set_device("aclInit", implicit);
  }
  return current;
}

std::shared_ptr<Context> current_context() {
  std::shared_ptr<Context> context = state().contexts.find(current_context_handle());
  if (context == nullptr) throw no_context();
  return context;
}

std::optional<int> current_device_id() noexcept {
  const std::shared_ptr<Context> context = state().contexts.find(current);
  return context != nullptr ? std::optional(context->device_id) : std::nullopt;
}

void set_current_context(void* handle) {
  require(state().contexts.find(handle) != nullptr, ACL_ERROR_RT_INVALID_HANDLE,
          {"aclrtSetCurrentContext", "context"}, "a live aclrtContext", handle);
  current = handle;
}

void* create_context(const char* function, int device_id) {
  check_device(function, device_id);
  current = add_context(device_id, false);
  if (observer != nullptr) observer->handle_made(current, "aclrtContext");
  return current;
}

void destroy_context(void* handle) {
  const std::shared_ptr<Context> context = state().contexts.find(handle);
  const Parameter parameter{"aclrtDestroyContext", "context"};
  require(context != nullptr, ACL_ERROR_RT_INVALID_HANDLE, parameter, "a live aclrtContext", handle);
  require(!context->is_default, ACL_ERROR_INVALID_PARAM, parameter, "a context of aclrtCreateContext",
          "a device's default context, which aclrtResetDevice releases");
  // Another thread may have been faster.
  require(state().contexts.remove(handle) != nullptr, ACL_ERROR_RT_INVALID_HANDLE, parameter,
          "a live aclrtContext", handle);
  destroy_streams_of(handle);
  if (observer != nullptr) observer->handle_destroyed(handle, nullptr);
  if (current == handle) current = nullptr;
}

void set_device(const char* function, int device_id) {
  check_device(function, device_id);
  std::lock_guard lock(state().mutex);
  DefaultContext& shared = state().defaults[device_id];
  if (shared.handle == nullptr) shared.handle = add_context(device_id, true);
  ++shared.users;
  current = shared.handle;
}

void reset_device(const char* function, int device_id) {
  reset(function, device_id, false);
}

void reset_device_force(const char* function, int device_id) {
  reset(function, device_id, true);
}

void reset_all_devices() {
  std::unique_lock lock(state().mutex);
  const std::map<int, DefaultContext> defaults = std::exchange(state().defaults, {});
  lock.unlock();
  for (const auto& [device_id, shared] : defaults) {
    if (shared.handle != nullptr) release_default_context(device_id, shared.handle);
  }
}

void act_on_device_table_lock(LockAction action) {
  action(state().mutex);
}

void act_on_context_table_locks(LockAction action) {
  state().contexts.act_on_locks(action);
}

void set_implicit_device(std::optional<int> device_id) {
  if (device_id) check_device("aclInit", *device_id);
  state().implicit_device = device_id.value_or(-1);
}

}  // namespace aclgrad
