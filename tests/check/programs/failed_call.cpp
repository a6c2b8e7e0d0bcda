// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: failed-call: only a mistake of the program makes a call fail with status 107002: aclrtMemsetAsync: The calling thread has no context
#include <thread>

#include "program.h"

int main() {
  Session session;
  void* memory = device_memory(kInputBytes);
  std::thread worker([&] {  // a thread of its own needs aclrtSetDevice or aclrtSetCurrentContext
    const aclError status = aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, session.stream);
    if (status != ACL_SUCCESS) std::printf("aclrtMemsetAsync failed: %d, %s\n", status, aclGetRecentErrMsg());
  });
  worker.join();
  must(aclrtFree(memory));
}
