// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: source-changed: aclrtMemcpyAsync.src
#include "program.h"

int main() {
  Session session;
  void* memory = device_memory(kInputBytes);
  std::vector<float> source(kInputBytes / sizeof(float), 1.0f);
  must(aclrtMemcpyAsync(memory, kInputBytes, source.data(), kInputBytes, ACL_MEMCPY_HOST_TO_DEVICE,
                        session.stream));
  source.assign(source.size(), 2.0f);  // the copy may still be reading it
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtFree(memory));
}
