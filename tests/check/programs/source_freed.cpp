// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: source-changed: aclrtMemcpyAsync.src
#include "program.h"

int main() {
  Session session;
  constexpr size_t kBytes = size_t{8} << 20;  // large enough to be unmapped at once
  void* memory = device_memory(kBytes);
  {
    const std::vector<float> source(kBytes / sizeof(float), 1.0f);
    must(aclrtMemcpyAsync(memory, kBytes, source.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
  }  // the source is gone, the copy may not have begun
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtFree(memory));
}
