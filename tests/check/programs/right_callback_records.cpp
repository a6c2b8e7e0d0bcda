// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include <pthread.h>

#include <chrono>
#include <thread>

#include "program.h"

// The host waits for a stream until a callback of another stream, in a thread of its own, records the event.
struct Recording {
  aclrtEvent event;
  aclrtStream stream;
};

void record_late(void* data) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const Recording& recording = *static_cast<Recording*>(data);
  must(aclrtRecordEvent(recording.event, recording.stream));
}

int main() {
  Session session;
  aclrtStream second = new_stream();
  Recording recording{new_event(), new_stream()};
  aclrtContext context = nullptr;
  must(aclrtGetCurrentContext(&context));
  std::thread server([&] {
    must(aclrtSetCurrentContext(context));
    while (aclrtProcessReport(-1) != ACL_SUCCESS) std::this_thread::yield();
  });
  const uint64_t server_thread = server.native_handle();
  must(aclrtSubscribeReport(server_thread, session.stream));
  must(aclrtStreamWaitEvent(second, recording.event));
  must(aclrtLaunchCallback(record_late, &recording, ACL_CALLBACK_NO_BLOCK, session.stream));
  must(aclrtSynchronizeStream(second));
  server.join();
  must(aclrtUnSubscribeReport(server_thread, session.stream));
  must(aclrtDestroyEvent(recording.event));
  must(aclrtDestroyStream(recording.stream));
  must(aclrtDestroyStream(second));
}
