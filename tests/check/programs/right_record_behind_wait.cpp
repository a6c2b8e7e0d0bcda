// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "program.h"

// An event is recorded behind a wait for another one, which is recorded last: it orders all the same.
int main() {
  Session session;
  aclrtStream second = new_stream();
  aclrtStream third = new_stream();
  aclrtEvent first_done = new_event();
  aclrtEvent second_done = new_event();
  void* memory = device_memory(kInputBytes);
  must(aclrtStreamWaitEvent(second, first_done));
  must(aclrtRecordEvent(second_done, second));
  must(aclrtStreamWaitEvent(third, second_done));
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, session.stream));
  must(aclrtRecordEvent(first_done, session.stream));
  must(aclrtMemsetAsync(memory, kInputBytes, 1, kInputBytes, third));
  must(aclrtSynchronizeStream(third));

  // The same for the host, which waits for the second event.
  must(aclrtResetEvent(first_done, session.stream));
  must(aclrtStreamWaitEvent(second, first_done));
  must(aclrtRecordEvent(second_done, second));
  must(aclrtMemsetAsync(memory, kInputBytes, 2, kInputBytes, session.stream));
  must(aclrtRecordEvent(first_done, session.stream));
  must(aclrtSynchronizeEvent(second_done));
  must(aclrtMemset(memory, kInputBytes, 3, kInputBytes));

  must(aclrtDestroyEvent(first_done));
  must(aclrtDestroyEvent(second_done));
  must(aclrtDestroyStream(second));
  must(aclrtDestroyStream(third));
  must(aclrtFree(memory));
}
