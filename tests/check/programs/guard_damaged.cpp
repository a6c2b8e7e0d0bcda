// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: guard-damaged: something wrote byte 256 of host memory .* of 256 bytes
#include "program.h"

int main() {
  Session session;
  void* memory = nullptr;
  must(aclrtMallocHost(&memory, kInputBytes));
  float* values = static_cast<float*>(memory);
  for (size_t i = 0; i <= kInputBytes / sizeof(float); ++i) values[i] = 0;  // one too many
  must(aclrtFreeHost(memory));
}
