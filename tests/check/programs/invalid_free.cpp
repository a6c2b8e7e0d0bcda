// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: invalid-free: aclrtFree
#include "program.h"

int main() {
  Session session;
  void* memory = nullptr;
  must(aclrtMallocHost(&memory, kInputBytes));
  aclrtFree(memory);
  must(aclrtFreeHost(memory));
}
