// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "program.h"

// Two results meet in the host's memory, are overwritten in part there, and go back together: all in the order of
// one stream.
int main() {
  Session session;
  constexpr size_t kHalf = size_t{1} << 20;
  constexpr size_t kBytes = 2 * kHalf;
  void* first = device_memory(kHalf);
  void* second = device_memory(kHalf);
  void* both = device_memory(kBytes);
  must(aclrtMemset(first, kHalf, 1, kHalf));
  must(aclrtMemset(second, kHalf, 2, kHalf));
  std::vector<char> host(kBytes);
  std::vector<char> result(kBytes);
  must(aclrtMemcpyAsync(host.data(), kHalf, first, kHalf, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
  must(
      aclrtMemcpyAsync(host.data() + kHalf, kHalf, second, kHalf, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
  must(aclrtMemcpyAsync(host.data(), 8, second, 8, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
  must(aclrtMemcpyAsync(both, kBytes, host.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
  must(aclrtMemcpyAsync(result.data(), kBytes, both, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
  must(aclrtSynchronizeStream(session.stream));
  for (const std::vector<char>& bytes : {host, result}) {
    if (bytes[0] != 2 || bytes[8] != 1 || bytes[kHalf] != 2 || bytes[kBytes - 1] != 2) return EXIT_FAILURE;
  }
  for (void* memory : {first, second, both}) must(aclrtFree(memory));
}
