// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include <chrono>
#include <thread>

#include "program.h"

// The host synchronises with a stream while another thread records the event that the stream waits for.
int main() {
  Session session;
  aclrtStream second = new_stream();
  aclrtEvent done = new_event();
  void* memory = device_memory(kInputBytes);
  aclrtContext context = nullptr;
  must(aclrtGetCurrentContext(&context));
  must(aclrtStreamWaitEvent(second, done));
  must(aclrtMemsetAsync(memory, kInputBytes, 1, kInputBytes, second));
  std::thread recorder([&] {
    must(aclrtSetCurrentContext(context));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    must(aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, session.stream));
    must(aclrtRecordEvent(done, session.stream));
  });
  must(aclrtSynchronizeStream(second));
  must(aclrtMemset(memory, kInputBytes, 2, kInputBytes));
  recorder.join();
  must(aclrtDestroyEvent(done));
  must(aclrtDestroyStream(second));
  must(aclrtFree(memory));
}
