// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: overwrite-while-queued: aclrtMemset\.devPtr .* writes memory that aclrtMemsetAsync\.devPtr .* writes
#include "program.h"

int main() {
  Session session;
  aclrtEvent end = new_event();
  void* memory = device_memory(kInputBytes);
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, session.stream));
  must(aclrtRecordEvent(end, session.stream));
  aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_NOT_READY;
  // No stream waits for the event, and so all waits for it are over, whether it was reached or not.
  while (status != ACL_EVENT_WAIT_STATUS_COMPLETE) must(aclrtQueryEventWaitStatus(end, &status));
  must(aclrtMemset(memory, kInputBytes, 1, kInputBytes));
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtDestroyEvent(end));
  must(aclrtFree(memory));
}
