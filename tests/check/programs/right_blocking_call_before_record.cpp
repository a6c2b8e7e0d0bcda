// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "program.h"

// What waits for an event comes after all that the host does before it records the event.
int main() {
  Session session;
  aclrtStream second = new_stream();
  aclrtEvent ready = new_event();
  void* memory = device_memory(kInputBytes);
  must(aclrtStreamWaitEvent(second, ready));
  must(aclrtMemsetAsync(memory, kInputBytes, 1, kInputBytes, second));
  must(aclrtMemset(memory, kInputBytes, 0, kInputBytes));
  must(aclrtRecordEvent(ready, session.stream));
  must(aclrtSynchronizeStream(second));
  must(aclrtDestroyEvent(ready));
  must(aclrtDestroyStream(second));
  must(aclrtFree(memory));
}
