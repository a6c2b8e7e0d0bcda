// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: invalid-free: aclrtFree got .*, which is not the start of live memory
#include "program.h"

int main() {
  Session session;
  float* memory = static_cast<float*>(device_memory(kInputBytes));
  ++memory;
  aclrtFree(memory);
}
