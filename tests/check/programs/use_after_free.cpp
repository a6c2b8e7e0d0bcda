// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: use-after-free: aclrtMemcpy.src .*freed at
#include "program.h"

int main() {
  Session session;
  std::vector<float> result(kInputBytes / sizeof(float));
  void* memory = device_ones(kInputBytes);
  must(aclrtFree(memory));
  must(aclrtMemcpy(result.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
}
