// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: read-before-synchronize: the host (reads|uses) .* which aclrtMemcpyAsync.dst
#include "program.h"

int main() {
  Session session;
  void* memory = device_ones(kInputBytes);
  void* result = nullptr;
  must(aclrtMallocHost(&result, kInputBytes));
  must(aclrtMemcpyAsync(result, kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
  std::printf("%g\n", static_cast<float*>(result)[0]);  // before the stream is synchronised
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtFreeHost(result));
  must(aclrtFree(memory));
}
