// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: foreign-stream: aclrtMemsetAsync got aclrtStream
#include "program.h"

int main() {
  Session session;
  void* memory = device_memory(kInputBytes);
  aclrtContext first = nullptr;
  must(aclrtGetCurrentContext(&first));
  aclrtContext second = nullptr;
  must(aclrtCreateContext(&second, 0));  // and makes it current
  aclrtMemsetAsync(memory, kInputBytes, 0, kInputBytes, session.stream);
  must(aclrtDestroyContext(second));
  must(aclrtSetCurrentContext(first));
  must(aclrtFree(memory));
}
