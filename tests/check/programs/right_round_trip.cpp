// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include <cstring>

#include "program.h"

// Up, changed and back down into the same memory of the host, in one go.
int main() {
  Session session;
  constexpr size_t kBytes = size_t{1} << 20;
  void* memory = device_memory(kBytes);
  std::vector<char> ordinary(kBytes, 1);
  void* pinned = nullptr;
  must(aclrtMallocHost(&pinned, kBytes));
  std::memset(pinned, 1, kBytes);
  for (void* host : {static_cast<void*>(ordinary.data()), pinned}) {
    must(aclrtMemcpyAsync(memory, kBytes, host, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
    must(aclrtMemsetAsync(memory, kBytes, 2, kBytes / 2, session.stream));
    must(aclrtMemcpyAsync(host, kBytes, memory, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
    must(aclrtSynchronizeStream(session.stream));
    const char* result = static_cast<const char*>(host);
    if (result[0] != 2 || result[kBytes - 1] != 1) return EXIT_FAILURE;
  }
  must(aclrtFreeHost(pinned));
  must(aclrtFree(memory));
}
