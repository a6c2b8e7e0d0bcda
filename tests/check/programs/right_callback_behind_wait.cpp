// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include <pthread.h>

#include "program.h"

// A callback behind a wait for an event that is recorded after the callback was launched.
void fill(void* memory) {
  must(aclrtMemset(memory, kInputBytes, 1, kInputBytes));
}

int main() {
  Session session;
  aclrtStream second = new_stream();
  aclrtEvent done = new_event();
  void* memory = device_memory(kInputBytes);
  must(aclrtSubscribeReport(pthread_self(), second));
  must(aclrtStreamWaitEvent(second, done));
  must(aclrtLaunchCallback(fill, memory, ACL_CALLBACK_BLOCK, second));
  must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, session.stream));
  must(aclrtRecordEvent(done, session.stream));
  must(aclrtProcessReport(-1));
  must(aclrtSynchronizeStream(second));
  must(aclrtUnSubscribeReport(pthread_self(), second));
  must(aclrtDestroyEvent(done));
  must(aclrtDestroyStream(second));
  must(aclrtFree(memory));
}
