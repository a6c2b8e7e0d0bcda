// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Devices and contexts at the C interface.
#include "acl/acl_rt.h"
#include "runtime/context.h"
#include "runtime/entry.h"
#include "runtime/observer.h"
#include "runtime/stream.h"

using namespace aclgrad;

namespace {

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

void check_device(Parameter parameter, uint32_t id) {
  require(id < static_cast<uint32_t>(visible_device_count()), ACL_ERROR_RT_INVALID_DEVICEID, parameter,
          fmt::format("0 to {}", visible_device_count() - 1), id);
}

void check_peer(std::string_view function, int32_t id) {
  check_device({function, "peerDeviceId"}, static_cast<uint32_t>(id));
  if (visible_device_kind() != DeviceKind::cpu) throw not_supported(function);
}

}  // namespace

aclError aclrtSetDevice(int32_t deviceId) {
  return entry(__func__, [&] {
    if (runtime_observer != nullptr) runtime_observer->device_wanted("aclrtSetDevice");
    set_device("aclrtSetDevice", deviceId);
  });
}

aclError aclrtResetDevice(int32_t deviceId) {
  return entry(__func__, [&] { reset_device("aclrtResetDevice", deviceId); });
}

aclError aclrtResetDeviceForce(int32_t deviceId) {
  return entry(__func__, [&] { reset_device_force("aclrtResetDeviceForce", deviceId); });
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
    check_device({"aclrtDeviceCanAccessPeer", "deviceId"}, static_cast<uint32_t>(deviceId));
    check_device({"aclrtDeviceCanAccessPeer", "peerDeviceId"}, static_cast<uint32_t>(peerDeviceId));
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
    if (runtime_observer != nullptr) runtime_observer->device_wanted("aclrtCreateContext");
    require_pointer(context, {"aclrtCreateContext", "context"});
    *context = create_context("aclrtCreateContext", deviceId);
  });
}

aclError aclrtDestroyContext(aclrtContext context) {
  return entry(__func__, [&] {
    require_pointer(context, {"aclrtDestroyContext", "context"});
    destroy_context(context);
  });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  return entry(__func__, [&] {
    require_pointer(context, {"aclrtSetCurrentContext", "context"});
    set_current_context(context);
  });
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  return question(__func__, [&] {
    require_pointer(context, {"aclrtGetCurrentContext", "context"});
    current_context();
    *context = current_context_handle();
  });
}
