// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "program.h"

// An operator with memory of its own.
static bool computes(aclrtStream stream) {
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  std::vector<float> result(kGroups * kColumns);
  {
    BiasGrad gradient(input, output);
    gradient.plan();
    gradient.queue(stream);
    must(aclrtSynchronizeStream(stream));
    gradient.free_workspace();
  }
  must(aclrtMemcpy(result.data(), kOutputBytes, output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  must(aclrtFree(input));
  must(aclrtFree(output));
  return result.front() == kRows && result.back() == kRows;
}

// Forks compute with memory of their own while a thread of their parent does.
int main() {
  Session session;
  std::atomic<bool> stop{false};
  std::atomic<bool> is_right{true};
  std::thread busy([&] {
    must(aclrtSetDevice(0));
    aclrtStream stream = new_stream();
    while (!stop) is_right = is_right && computes(stream);
    must(aclrtDestroyStream(stream));
    must(aclrtResetDevice(0));
  });
  for (int i = 0; i < 40 && is_right; ++i) {
    usleep(static_cast<useconds_t>(i % 5) * 1000);
    const pid_t fork_id = fork();
    if (fork_id == 0) {
      alarm(60);
      std::_Exit(computes(new_stream()) && computes(session.stream) ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    int status = -1;
    waitpid(fork_id, &status, 0);
    is_right = is_right && status == 0;
  }
  stop = true;
  busy.join();
  return is_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
