// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A limited address space, as of `ulimit -v`: kernels run with the threads that fit, or a call says what is missing. Nothing
// may end the process but itself.
//
//   address_space mebibytes
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <string>

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

}  // namespace

int main(int, char** arguments) {
  alarm(kSecondsOfCase);
  scenarios::prepare();
  const uint64_t bytes = std::stoull(arguments[1]) * kMebibyte;
  const rlimit limit{bytes, bytes};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
  int status = aclrtSetDevice(0);
  if (status == ACL_SUCCESS) status = run_large_copies();
  if (status == ACL_SUCCESS) status = scenarios::whole_program();
  return status == ACL_SUCCESS || aclGetRecentErrMsg() != nullptr ? 0 : 1;
}
