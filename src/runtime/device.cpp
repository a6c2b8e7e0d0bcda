#include "runtime/device.h"

#include <algorithm>
#include <vector>

#include "base/environment.h"
#include "base/never_destroyed.h"
#include "runtime/cpu_device.h"
#include "runtime/cuda_device.h"

namespace aclgrad {
namespace {

// As many as a common NPU server has, so that programs that name a device find it.
constexpr int kLogicalCpuDevices = 8;

std::vector<Device*> all_devices() {
  const std::string& wanted = Environment::get().devices;
  std::vector<Device*> devices;
  if (wanted != "cpu") {
    for (int i = 0; i < cuda_device_count(); ++i) devices.push_back(&cuda_device(i));
  }
  if (devices.empty() && wanted != "cuda") devices.assign(kLogicalCpuDevices, &cpu_device());
  return devices;
}

// The list may renumber devices; an entry that names none ends it.
std::vector<Device*> find_visible_devices() {
  std::vector<Device*> all = all_devices();
  const Environment& environment = Environment::get();
  if (!environment.has_visible_devices) return all;
  std::vector<Device*> visible;
  for (int id : environment.visible_devices) {
    if (id < 0 || id >= static_cast<int>(all.size())) break;
    visible.push_back(all[static_cast<size_t>(id)]);
  }
  return visible;
}

const std::vector<Device*>& visible_devices() {
  static NeverDestroyed<const std::vector<Device*>> devices(find_visible_devices());
  return *devices;
}

}  // namespace

int visible_device_count() {
  return static_cast<int>(visible_devices().size());
}

Device& visible_device(int id) {
  return *visible_devices()[static_cast<size_t>(id)];
}

DeviceKind visible_device_kind() {
  return visible_devices().empty() ? DeviceKind::cpu : visible_devices().front()->kind();
}

}  // namespace aclgrad
