// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: leak: aclFinalize never followed the aclInit at
#include "program.h"

int main() {
  must(aclInit(nullptr));
  must(aclrtSetDevice(0));
  must(aclrtResetDevice(0));
}
