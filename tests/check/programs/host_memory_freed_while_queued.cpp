// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: free-while-queued: aclrtFreeHost frees .*aclrtMemcpyAsync.dst
#include "program.h"

int main() {
  Session session;
  void* memory = device_ones(kInputBytes);
  void* host = nullptr;
  must(aclrtMallocHost(&host, kInputBytes));
  must(aclrtMemcpyAsync(host, kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
  must(aclrtFreeHost(host));
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtFree(memory));
}
