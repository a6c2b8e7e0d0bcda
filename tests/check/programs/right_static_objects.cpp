// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "program.h"

// Released by the destructor of a static object, after main.
struct Memory {
  ~Memory() {
    if (data != nullptr) must(aclrtFree(data));
    must(aclrtResetDevice(0));
    must(aclFinalize());
  }
  void* data = nullptr;
};

Memory memory;

int main() {
  must(aclInit(nullptr));
  must(aclrtSetDevice(0));
  memory.data = device_ones(kInputBytes);
}
