// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Forks of a process in which another thread uses the library for the first time.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "program.h"

using Clock = std::chrono::steady_clock;

static void use_library() {
  aclInit(nullptr);  // a child's parent may have done so
  must(aclrtSetDevice(0));
  {
    Memory memory = device_ones(kInputBytes);
    std::vector<float> result(kInputs);
    must(aclrtMemcpy(result.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  }
  must(aclrtResetDevice(0));
}

// Forks so many microseconds after another thread has begun to use the library, which is then making what it needs for all.
int main(int, char** arguments) {
  const std::chrono::microseconds pause(std::stoi(arguments[1]));
  std::atomic<bool> started{false};
  std::thread other([&] {
    started = true;
    use_library();
  });
  while (!started) {
  }
  for (const auto end = Clock::now() + pause; Clock::now() < end;) {
  }
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    use_library();
    std::_Exit(EXIT_SUCCESS);
  }
  other.join();
  int status = -1;
  waitpid(child, &status, 0);
  must(aclFinalize());
  return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
