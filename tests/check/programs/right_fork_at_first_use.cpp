// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Forks of a process in which another thread uses the library for the first time.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
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

// Forks so long after another thread has begun to use the library, which is then making what it needs for all.
static bool forks_after(std::chrono::microseconds pause) {
  std::atomic<bool> started{false};
  std::thread other([&] {
    started = true;
    use_library();
  });
  while (!started) {
  }
  for (const auto end = Clock::now() + pause; Clock::now() < end;) {
  }
  const pid_t fork_id = fork();
  if (fork_id == 0) {
    use_library();
    std::_Exit(EXIT_SUCCESS);
  }
  other.join();
  int status = -1;
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  while (waitpid(fork_id, &status, WNOHANG) == 0 && Clock::now() < deadline) usleep(1000);
  if (status == -1) kill(fork_id, SIGKILL);
  must(aclFinalize());
  return status == 0;
}

// There is one first use in a process, so each try is a process of its own.
int main(int count, char** arguments) {
  if (count > 1)
    return forks_after(std::chrono::microseconds(std::stoi(arguments[1]))) ? EXIT_SUCCESS : EXIT_FAILURE;
  constexpr int kTries = 150, kMicroseconds = 4;
  for (int i = 0; i < kTries; ++i) {
    const std::string pause = std::to_string(kMicroseconds * i);
    const pid_t child = fork();
    if (child == 0) {
      execl(arguments[0], arguments[0], pause.c_str(), nullptr);
      std::_Exit(EXIT_FAILURE);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status != 0) {
      std::fprintf(stderr, "after %s microseconds: status %d\n", pause.c_str(), status);
      return EXIT_FAILURE;
    }
  }
  return EXIT_SUCCESS;
}
