// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include <cstring>

#include "program.h"

// The host works in one half of a buffer while a copy goes to the other.
int main() {
  Session session;
  constexpr size_t kHalf = 3000;  // bytes; the halves share a page
  void* memory = device_ones(2 * kHalf);
  char* buffer = nullptr;
  must(aclrtMallocHost(reinterpret_cast<void**>(&buffer), 2 * kHalf));
  std::memset(buffer, 0, 2 * kHalf);
  for (int step = 0; step < 4; ++step) {
    char* arriving = buffer + (step % 2) * kHalf;
    char* arrived = buffer + (1 - step % 2) * kHalf;
    must(aclrtMemcpyAsync(arriving, kHalf, memory, kHalf, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
    std::printf("%d\n", arrived[0] + arrived[kHalf - 1]);
    arrived[0] = 1;
    must(aclrtSynchronizeStream(session.stream));
  }
  must(aclrtFreeHost(buffer));
  must(aclrtFree(memory));
}
