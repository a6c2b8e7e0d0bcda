// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include <pthread.h>

#include <thread>

#include "program.h"

// Callbacks that wait for what does not wait for them, and a host that waits for callbacks in another thread.
struct Work {
  aclrtStream own;
  aclrtStream other;
  aclrtEvent before;
  void* memory;
};

void wait_for_others(void* data) {
  const Work& work = *static_cast<Work*>(data);
  must(aclrtSynchronizeEvent(work.before));
  must(aclrtMemsetAsync(work.memory, kInputBytes, 0, kInputBytes, work.other));
  must(aclrtSynchronizeStream(work.other));
  must(aclrtMemset(work.memory, kInputBytes, 1, kInputBytes));
  aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
  must(aclrtStreamQuery(work.own, &status));
  if (status != ACL_STREAM_STATUS_NOT_READY) std::exit(EXIT_FAILURE);
  const aclError timed_out = aclrtSynchronizeStreamWithTimeout(work.own, 1);
  if (timed_out != ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) std::exit(EXIT_FAILURE);
}

// Its stream does not wait for it.
void wait_for_own(void* data) {
  must(aclrtSynchronizeStream(static_cast<Work*>(data)->own));
}

int main() {
  Session session;
  Work work{session.stream, new_stream(), new_event(), device_memory(kInputBytes)};
  aclrtContext context = nullptr;
  must(aclrtGetCurrentContext(&context));
  must(aclrtMemsetAsync(work.memory, kInputBytes, 0, kInputBytes, work.own));
  must(aclrtRecordEvent(work.before, work.own));
  pthread_t server{};
  std::thread thread([&] {
    must(aclrtSetCurrentContext(context));
    server = pthread_self();
    must(aclrtSubscribeReport(server, work.own));
    must(aclrtLaunchCallback(wait_for_others, &work, ACL_CALLBACK_BLOCK, work.own));
    must(aclrtLaunchCallback(wait_for_own, &work, ACL_CALLBACK_NO_BLOCK, work.own));
    must(aclrtProcessReport(-1));
    must(aclrtProcessReport(-1));
  });
  thread.join();
  must(aclrtSynchronizeStream(work.own));
  must(aclrtUnSubscribeReport(server, work.own));
  must(aclrtDestroyEvent(work.before));
  must(aclrtDestroyStream(work.other));
  must(aclrtFree(work.memory));
}
