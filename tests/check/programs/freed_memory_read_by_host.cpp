// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: use-after-free: the host (reads|uses) byte 0 of host memory of aclrtMallocHost .* freed at
#include "program.h"

int main() {
  Session session;
  void* memory = device_ones(kInputBytes);
  void* result = nullptr;
  must(aclrtMallocHost(&result, kInputBytes));
  must(aclrtMemcpy(result, kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  must(aclrtFreeHost(result));
  std::printf("%g\n", static_cast<float*>(result)[0]);
  must(aclrtFree(memory));
}
