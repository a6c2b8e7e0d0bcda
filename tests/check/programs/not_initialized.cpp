// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: not-initialized: aclrtSetDevice before aclInit
#include "program.h"

int main() {
  must(aclrtSetDevice(0));  // aclInit is missing
  void* memory = device_ones(kInputBytes);
  must(aclrtFree(memory));
  must(aclrtResetDevice(0));
}
