// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: race: aclrtMemsetAsync\.devPtr .* writes memory that aclrtMemsetAsync\.devPtr .* writes, and no event orders the two
#include "program.h"

int main() {
  Session session;
  aclrtStream second = new_stream();
  aclrtStream third = new_stream();
  aclrtEvent done = new_event();
  void* memory = device_memory(kInputBytes);
  must(aclrtStreamWaitEvent(second, done));
  must(aclrtMemsetAsync(memory, kInputBytes, 1, kInputBytes, second));
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, session.stream));
  must(aclrtRecordEvent(done, third));  // not the stream that fills the memory first
  must(aclrtSynchronizeStream(second));
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtDestroyEvent(done));
  must(aclrtDestroyStream(second));
  must(aclrtDestroyStream(third));
  must(aclrtFree(memory));
}
