// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: double-free: aclrtFree
#include "program.h"

int main() {
  Session session;
  void* memory = device_memory(kInputBytes);
  must(aclrtFree(memory));
  aclrtFree(memory);
}
