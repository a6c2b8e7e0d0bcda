// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The CUDA GPUs of this machine as devices.
#pragma once

#include <functional>

#include "runtime/device.h"

namespace aclgrad {

// 0 where there is no GPU, no driver, or the library was built without CUDA.
int cuda_device_count() noexcept;

// The device of that index, below cuda_device_count().
Device& cuda_device(int index);

// Calls `body` with that device as the calling thread's current one.
void on_cuda_device(int index, const std::function<void()>& body);

}  // namespace aclgrad
