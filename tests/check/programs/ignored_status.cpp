// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: ignored-status: .* a call had failed with status 107000
#include "program.h"

int main() {
  Session session;
  const std::vector<float> source(kInputBytes / sizeof(float), 1.0f);
  void* memory = device_memory(kInputBytes);
  aclrtMemcpy(memory, kInputBytes - 1, source.data(), kInputBytes,
              ACL_MEMCPY_HOST_TO_DEVICE);  // does not fit
  must(aclrtFree(memory));
}
