// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: free-while-queued: aclrtFree frees .*aclnnGroupedBiasAddGrad.grad_?[yY]
#include "program.h"

int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  {
    BiasGrad gradient(input, output);
    gradient.plan();
    gradient.queue(session.stream);
    must(aclrtFree(input));  // the operator may not have read it yet
    must(aclrtSynchronizeStream(session.stream));
    gradient.free_workspace();
  }
  must(aclrtFree(output));
}
