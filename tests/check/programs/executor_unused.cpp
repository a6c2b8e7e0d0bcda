// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: executor-unused: aclOpExecutor
#include "program.h"

int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  {
    BiasGrad gradient(input, output);
    gradient.plan();  // phase 2 does not follow
    gradient.free_workspace();
  }
  must(aclrtFree(input));
  must(aclrtFree(output));
}
