// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: overlap: aclnnGroupedBiasAddGrad.out .*aclnnGroupedBiasAddGrad.gradY
#include "program.h"

int main() {
  Session session;
  void* memory = device_ones(kInputBytes);
  {
    BiasGrad gradient(memory, memory);  // the result would be written over its input
    gradient.plan();
    gradient.queue(session.stream);
    must(aclrtSynchronizeStream(session.stream));
    gradient.free_workspace();
  }
  must(aclrtFree(memory));
}
