// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/device.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "base/environment.h"
#include "base/never_destroyed.h"
#include "runtime/fork.h"

namespace aclgrad {
namespace {

std::vector<Device*> devices_of(DeviceKind kind) {
  const int count = DeviceDriver::count(kind);
  std::vector<Device*> devices;
  devices.reserve(count);
  for (int i = 0; i < count; ++i) devices.push_back(&DeviceDriver::get(kind, i));
  return devices;
}

std::vector<Device*> all_devices() {
  const DeviceChoice wanted = Environment::get().devices;
  std::vector<Device*> devices;
  if (wanted != DeviceChoice::cpu) devices = devices_of(DeviceKind::cuda);
  if (devices.empty() && wanted != DeviceChoice::cuda) devices = devices_of(DeviceKind::cpu);
  return devices;
}

struct Devices {
  size_t before_hiding = 0;
  std::vector<Device*> visible;
};

// The list may renumber devices.
Devices find_devices() {
  const std::vector<Device*> all = all_devices();
  const Environment& environment = Environment::get();
  if (!environment.has_visible_devices) return {all.size(), all};
  Devices devices{all.size(), {}};
  for (int id : environment.visible_devices) {
    if (static_cast<size_t>(id) >= all.size()) {
      report_wrong_value("ASCEND_RT_VISIBLE_DEVICES", environment.visible_devices_text,
                         all.empty() ? "nothing, as there is no device"
                                     : fmt::format("devices from 0 to {}", all.size() - 1),
                         "no device");
      return {all.size(), {}};
    }
    devices.visible.push_back(all[static_cast<size_t>(id)]);
  }
  return devices;
}

// With a lock of its own, not one of the compiler's, so that a fork can wait until another thread has found them.
struct FoundDevices {
  std::mutex mutex;
  std::atomic<bool> known{false};
  Devices devices;
};

constexpr Singleton<FoundDevices> found_devices{};

const Devices& devices() {
  FoundDevices& found = found_devices();
  if (found.known.load(std::memory_order_acquire)) return found.devices;
  std::lock_guard lock(found.mutex);
  if (!found.known.load(std::memory_order_relaxed)) {
    found.devices = find_devices();
    found.known.store(true, std::memory_order_release);
  }
  return found.devices;
}

}  // namespace

int visible_device_count() {
  return static_cast<int>(devices().visible.size());
}

Device& visible_device(int id) {
  return *devices().visible[static_cast<size_t>(id)];
}

DeviceKind visible_device_kind() {
  return devices().visible.empty() ? DeviceKind::cpu : devices().visible.front()->kind();
}

std::string why_no_device() {
  const Environment& environment = Environment::get();
  if (devices().before_hiding > 0) {
    return fmt::format("ASCEND_RT_VISIBLE_DEVICES=\"{}\" leaves none of the devices 0 to {}",
                       environment.visible_devices_text, devices().before_hiding - 1);
  }
  return fmt::format("ACLGRAD_DEVICES=\"{}\", and no CUDA GPU was found", environment.devices_text);
}

void act_on_lock_of_devices(LockAction action) {
  action(found_devices().mutex);
}

}  // namespace aclgrad
