// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "program.h"

int main() {
  int32_t device = -1;
  must(aclInit(nullptr));
  if (aclrtGetDevice(&device) != ACL_SUCCESS) must(aclrtSetDevice(0));
  must(aclrtResetDevice(0));
  must(aclFinalize());
}
