// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A limited address space, as of `ulimit -v`: kernels run with the threads that fit, or a call says what is missing. Each
// case is a process of its own, which nothing may end but itself.
//
//   address_space [case bytes]
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "acl/acl.h"
#include "scenarios.h"

namespace {

constexpr unsigned kSecondsOfCase = 60;
constexpr uint64_t kMebibyte = uint64_t{1} << 20;

// Copies that are large enough for all threads.
int run_large_copies() {
  constexpr size_t kBytes = 8 * kMebibyte;
  constexpr int kTimes = 20;
  void* memory = nullptr;
  int status = aclrtMalloc(&memory, kBytes, ACL_MEM_MALLOC_HUGE_FIRST);
  for (int i = 0; i < kTimes && status == ACL_SUCCESS; ++i) status = aclrtMemset(memory, kBytes, i, kBytes);
  if (memory != nullptr) aclrtFree(memory);
  return status;
}

int run_case(uint64_t bytes) {
  alarm(kSecondsOfCase);
  scenarios::prepare();
  const rlimit limit{bytes, bytes};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
  int status = aclrtSetDevice(0);
  if (status == ACL_SUCCESS) status = run_large_copies();
  if (status == ACL_SUCCESS) status = scenarios::whole_program();
  return status == ACL_SUCCESS || aclGetRecentErrMsg() != nullptr ? 0 : 1;
}

bool survives(const char* program, uint64_t bytes) {
  const pid_t child = fork();
  if (child == 0) {
    execl(program, program, "case", std::to_string(bytes).c_str(), nullptr);
    _exit(1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return false;
  if (status == 0) return true;
  std::fprintf(stderr, "with %llu MiB: exit status %d, signal %d\n",
               static_cast<unsigned long long>(bytes / kMebibyte), WEXITSTATUS(status), WTERMSIG(status));
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 2 && std::string_view(arguments[1]) == "case") return run_case(std::stoull(arguments[2]));
  // What goes wrong depends on who comes first, so that each limit is tried more than once.
  constexpr int kTimes = 3;
  constexpr uint64_t kMinMebibytes = 100;
  constexpr uint64_t kMaxMebibytes = 1500;
  int failures = 0;
  for (uint64_t mebibytes = kMinMebibytes; mebibytes <= kMaxMebibytes; mebibytes += 50) {
    for (int time = 0; time < kTimes; ++time) failures += !survives("/proc/self/exe", mebibytes * kMebibyte);
  }
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
