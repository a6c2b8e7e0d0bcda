// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The processor as a device: device memory is the process's own memory, work runs on host threads.
#pragma once

#include "runtime/device.h"

namespace aclgrad {

Device& cpu_device();

}  // namespace aclgrad
