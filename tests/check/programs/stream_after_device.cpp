// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: dead-handle: aclrtDestroyStream got aclrtStream .* was destroyed with its context or device at
#include "program.h"

int main() {
  must(aclInit(nullptr));
  must(aclrtSetDevice(0));
  aclrtStream stream = new_stream();
  must(aclrtResetDevice(0));
  aclrtDestroyStream(stream);  // before the device is reset, not after
  must(aclFinalize());
}
