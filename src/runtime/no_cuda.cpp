// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "cuda/not_built.h"
#include "runtime/cuda_device.h"

namespace aclgrad {

int cuda_device_count() noexcept {
  return 0;
}

Device& cuda_device(int) {
  refuse_cuda();
}

void on_cuda_device(int, const std::function<void()>&) {
  refuse_cuda();
}

}  // namespace aclgrad
