// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: overwrite-while-queued: aclrtMemset.devPtr .*aclnnGroupedBiasAddGrad.gradY
#include "program.h"

int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  {
    BiasGrad gradient(input, output);
    gradient.plan();
    gradient.queue(session.stream);
    must(aclrtMemset(input, kInputBytes, 0, kInputBytes));  // for the next step, but too early
    must(aclrtSynchronizeStream(session.stream));
    gradient.free_workspace();
  }
  must(aclrtFree(input));
  must(aclrtFree(output));
}
