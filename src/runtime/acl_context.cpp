// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Devices and contexts at the C interface.
#include <map>
#include <mutex>

#include "acl/acl_rt.h"
#include "base/never_destroyed.h"
#include "runtime/entry.h"
#include "runtime/fork.h"
#include "runtime/handle_table.h"
#include "runtime/observer.h"
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

constexpr Singleton<State> state{};

// A plain pointer, since it is read even while the thread's other variables are destroyed.
thread_local void* current = nullptr;

void check_device(Parameter parameter, int64_t device_id) {
  if (device_id >= 0 && device_id < visible_device_count()) return;
  const std::string expected = visible_device_count() > 0
                                   ? fmt::format("0 to {}", visible_device_count() - 1)
                                   : fmt::format("a device, of which there is none ({})", why_no_device());
  throw bad_parameter(ACL_ERROR_RT_INVALID_DEVICEID, parameter, expected, device_id);
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
  runtime_observer->device_reset(device_id);
}

void reset(const char* function, int device_id, bool force) {
  check_device({function, "deviceId"}, device_id);
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

void set_device(const char* function, int device_id) {
  check_device({function, "deviceId"}, device_id);
  std::lock_guard lock(state().mutex);
  DefaultContext& shared = state().defaults[device_id];
  if (shared.handle == nullptr) shared.handle = add_context(device_id, true);
  ++shared.users;
  current = shared.handle;
}

int64_t attribute_of(const Device& device, aclrtDevAttr attribute) {
  switch (attribute) {
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
      return device.core_count();
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
      return static_cast<int64_t>(device.memory_info().total_bytes);
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
      return static_cast<int64_t>(device.l2_cache_bytes());
  }
  throw bad_parameter(ACL_ERROR_INVALID_PARAM, {"aclrtGetDeviceInfo", "attr"}, "a value of aclrtDevAttr",
                      static_cast<int>(attribute));
}

void check_peer(std::string_view function, int32_t id) {
  check_device({function, "peerDeviceId"}, id);
  if (visible_device_kind() != DeviceKind::cpu) throw not_supported(function);
}

}  // namespace

void* current_context_handle() {
  const int implicit = state().implicit_device;
  if (current == nullptr && implicit < 0) throw no_context();
  // The thread's context may have ended with its device.
  if (implicit >= 0 && state().contexts.find(current) == nullptr) set_device("aclInit", implicit);
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
  if (device_id) check_device({"aclInit", kImplicitDevice}, *device_id);
  state().implicit_device = device_id.value_or(-1);
}

}  // namespace aclgrad

using namespace aclgrad;

aclError aclrtSetDevice(int32_t deviceId) {
  return entry(__func__, [&] {
    runtime_observer->device_wanted("aclrtSetDevice");
    set_device("aclrtSetDevice", deviceId);
  });
}

aclError aclrtResetDevice(int32_t deviceId) {
  return entry(__func__, [&] { reset("aclrtResetDevice", deviceId, false); });
}

aclError aclrtResetDeviceForce(int32_t deviceId) {
  return entry(__func__, [&] { reset("aclrtResetDeviceForce", deviceId, true); });
}

aclError aclrtGetDevice(int32_t* deviceId) {
  return question(__func__, [&] {
    require_pointer(deviceId, {"aclrtGetDevice", "deviceId"});
    *deviceId = current_context()->device_id;
  });
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  return entry(__func__, [&] {
    require_pointer(count, {"aclrtGetDeviceCount", "count"});
    *count = static_cast<uint32_t>(visible_device_count());
  });
}

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value) {
  return question(__func__, [&] {
    check_device({"aclrtGetDeviceInfo", "deviceId"}, deviceId);
    require_pointer(value, {"aclrtGetDeviceInfo", "value"});
    *value = attribute_of(visible_device(static_cast<int>(deviceId)), attr);
  });
}

aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
  return entry(__func__, [&] {
    require_pointer(canAccessPeer, {"aclrtDeviceCanAccessPeer", "canAccessPeer"});
    check_device({"aclrtDeviceCanAccessPeer", "deviceId"}, deviceId);
    check_device({"aclrtDeviceCanAccessPeer", "peerDeviceId"}, peerDeviceId);
    *canAccessPeer = visible_device_kind() == DeviceKind::cpu ? 1 : 0;
  });
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t) {
  return entry(__func__, [&] { check_peer("aclrtDeviceEnablePeerAccess", peerDeviceId); });
}

aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) {
  return entry(__func__, [&] { check_peer("aclrtDeviceDisablePeerAccess", peerDeviceId); });
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  return entry(__func__, [&] {
    require_pointer(runMode, {"aclrtGetRunMode", "runMode"});
    *runMode = ACL_HOST;
  });
}

aclError aclrtSynchronizeDevice() {
  return entry(__func__, [] { synchronize_device(current_context()->device_id, std::nullopt); });
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  return entry(__func__, [&] {
    const Deadline deadline =
        deadline_after(timeout, ACL_ERROR_RT_PARAM_INVALID, {"aclrtSynchronizeDeviceWithTimeout", "timeout"});
    if (synchronize_device(current_context()->device_id, deadline)) return;
    throw Error(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                fmt::format("The device's work was not done after {} milliseconds.", timeout),
                "The work takes longer than the time-out, or waits for an event that nobody records.",
                "Wait longer, or -1 for ever, and check that every event is recorded.");
  });
}

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  return entry(__func__, [&] {
    runtime_observer->device_wanted("aclrtCreateContext");
    require_pointer(context, {"aclrtCreateContext", "context"});
    check_device({"aclrtCreateContext", "deviceId"}, deviceId);
    *context = current = add_context(deviceId, false);
    if (observer != nullptr) observer->handle_made(current, "aclrtContext");
  });
}

aclError aclrtDestroyContext(aclrtContext context) {
  return entry(__func__, [&] {
    const Parameter parameter{"aclrtDestroyContext", "context"};
    require_pointer(context, parameter);
    const std::shared_ptr<Context> found = state().contexts.find(context);
    require(found != nullptr, ACL_ERROR_RT_INVALID_HANDLE, parameter, "a live aclrtContext", context);
    require(!found->is_default, ACL_ERROR_INVALID_PARAM, parameter, "a context of aclrtCreateContext",
            "a device's default context, which aclrtResetDevice releases");
    // Another thread may have been faster.
    require(state().contexts.remove(context) != nullptr, ACL_ERROR_RT_INVALID_HANDLE, parameter,
            "a live aclrtContext", context);
    destroy_streams_of(context);
    if (observer != nullptr) observer->handle_destroyed(context, nullptr);
    if (current == context) current = nullptr;
  });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  return entry(__func__, [&] {
    const Parameter parameter{"aclrtSetCurrentContext", "context"};
    require_pointer(context, parameter);
    require(state().contexts.find(context) != nullptr, ACL_ERROR_RT_INVALID_HANDLE, parameter,
            "a live aclrtContext", context);
    current = context;
  });
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  return question(__func__, [&] {
    require_pointer(context, {"aclrtGetCurrentContext", "context"});
    current_context();
    *context = current_context_handle();
  });
}
