// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "program.h"

// What was dropped is written anew, or given up.
int main() {
  Session session;
  aclrtStream stream = new_stream();
  void* memory = device_ones(kInputBytes);
  void* given_up = device_memory(kInputBytes);
  std::vector<float> result(kInputBytes / sizeof(float));
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, stream));
  must(aclrtMemsetAsync(given_up, kInputBytes, 0, kInputBytes, stream));
  must(aclrtDestroyStreamForce(stream));
  must(aclrtMemset(memory, kInputBytes, 0, kInputBytes));
  must(aclrtMemcpy(result.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  must(aclrtFree(memory));
  must(aclrtFree(given_up));
}
