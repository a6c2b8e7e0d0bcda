// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: dead-handle: aclrtSynchronizeStream got aclrtStream .* destroyed at
#include "program.h"

int main() {
  Session session;
  aclrtStream second = new_stream();
  must(aclrtDestroyStream(second));
  aclrtSynchronizeStream(second);
}
