// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "program.h"

int main() {
  Session session;
  aclrtStream second = new_stream();
  aclrtEvent done = new_event();
  void* memory = device_memory(kInputBytes);
  must(aclrtStreamWaitEvent(second, done));
  must(aclrtMemsetAsync(memory, kInputBytes, 1, kInputBytes, second));
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, session.stream));
  must(aclrtRecordEvent(done, session.stream));
  must(aclrtSynchronizeStream(second));
  must(aclrtDestroyEvent(done));
  must(aclrtDestroyStream(second));
  must(aclrtFree(memory));
}
