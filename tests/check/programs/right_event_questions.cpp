// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include <thread>

#include "program.h"

// The host knows from an event's elapsed time, and from the end of the waits for it, that its work is over.
int main() {
  Session session;
  aclrtStream second = new_stream();
  aclrtEvent begin = new_event();
  aclrtEvent end = new_event();
  void* memory = device_memory(kInputBytes);
  must(aclrtRecordEvent(begin, session.stream));
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, session.stream));
  must(aclrtRecordEvent(end, session.stream));
  float milliseconds = 0;
  while (aclrtEventElapsedTime(&milliseconds, begin, end) != ACL_SUCCESS) std::this_thread::yield();
  must(aclrtMemset(memory, kInputBytes, 1, kInputBytes));

  void* waiting = device_memory(kInputBytes);
  must(aclrtMemsetAsync(memory, kInputBytes, 2, kInputBytes, session.stream));
  must(aclrtRecordEvent(end, session.stream));
  must(aclrtMemsetAsync(waiting, kInputBytes, 2, kInputBytes, second));
  must(aclrtStreamWaitEvent(second, end));
  aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_NOT_READY;
  while (status != ACL_EVENT_WAIT_STATUS_COMPLETE) must(aclrtQueryEventWaitStatus(end, &status));
  must(aclrtMemset(memory, kInputBytes, 3, kInputBytes));
  must(aclrtMemset(waiting, kInputBytes, 3, kInputBytes));

  must(aclrtDestroyEvent(begin));
  must(aclrtDestroyEvent(end));
  must(aclrtDestroyStream(second));
  must(aclrtFree(memory));
  must(aclrtFree(waiting));
}
