// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "support/kernel_memory.h"

// Of CUDA's runtime, where a test is linked with one.
extern "C" {
[[gnu::weak]] int cudaHostRegister(void* memory, size_t bytes, unsigned flags);
[[gnu::weak]] int cudaHostUnregister(void* memory);
}

namespace aclgrad::test {

void let_kernels_use(void* memory, size_t bytes) {
  if (cudaHostRegister != nullptr && bytes > 0) cudaHostRegister(memory, bytes, 0);
}

void let_kernels_use_no_longer(void* memory) {
  if (cudaHostUnregister != nullptr && memory != nullptr) cudaHostUnregister(memory);
}

}  // namespace aclgrad::test
