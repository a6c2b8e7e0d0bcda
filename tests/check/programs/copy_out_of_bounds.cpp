// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: out-of-bounds: aclrtMemcpy.dst
#include "program.h"

int main() {
  Session session;
  const std::vector<float> source(2 * kInputBytes / sizeof(float), 1.0f);
  void* memory = device_memory(kInputBytes);
  // The room is what the caller claims; the allocation is smaller.
  aclrtMemcpy(memory, 2 * kInputBytes, source.data(), 2 * kInputBytes, ACL_MEMCPY_HOST_TO_DEVICE);
  must(aclrtFree(memory));
}
