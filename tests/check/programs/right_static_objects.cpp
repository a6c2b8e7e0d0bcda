// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Memory and the device are released by the destructors of static objects, after main.
#include "program.h"

static struct Library {
  ~Library() {
    must(aclrtResetDevice(0));
    must(aclFinalize());
  }
} library;

static Memory memory;

int main() {
  must(aclInit(nullptr));
  must(aclrtSetDevice(0));
  memory = device_ones(kInputBytes);
}
