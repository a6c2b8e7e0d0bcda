// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

// What a fork frees stays with its parent.
int main() {
  Session session;
  void* memory = device_ones(kInputBytes);
  const pid_t fork_id = fork();
  if (fork_id == 0) {
    must(aclrtFree(memory));
    std::_Exit(EXIT_SUCCESS);
  }
  int status = -1;
  waitpid(fork_id, &status, 0);
  std::vector<float> result(kInputBytes / sizeof(float));
  must(aclrtMemcpy(result.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  must(aclrtFree(memory));
  return status == 0 && result[0] == 1.0f ? EXIT_SUCCESS : EXIT_FAILURE;
}
