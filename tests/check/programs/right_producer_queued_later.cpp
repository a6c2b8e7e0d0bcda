// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "program.h"

// A copy is queued behind a wait, and what it reads is only then queued to be written.
int main() {
  Session session;
  aclrtStream second = new_stream();
  aclrtEvent written = new_event();
  void* memory = device_memory(kInputBytes);
  void* copied = device_memory(kInputBytes);
  must(aclrtStreamWaitEvent(second, written));
  must(aclrtMemcpyAsync(copied, kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, second));
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, session.stream));
  must(aclrtRecordEvent(written, session.stream));
  must(aclrtSynchronizeStream(second));
  std::vector<float> result(kInputBytes / sizeof(float), 1.0f);
  must(aclrtMemcpy(result.data(), kInputBytes, copied, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  must(aclrtDestroyEvent(written));
  must(aclrtDestroyStream(second));
  must(aclrtFree(memory));
  must(aclrtFree(copied));
  return result[0] == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
