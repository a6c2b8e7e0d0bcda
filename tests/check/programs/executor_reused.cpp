// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: executor-reused: aclnnGroupedBiasAddGrad
#include "program.h"

int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  {
    BiasGrad gradient(input, output);
    gradient.plan();
    gradient.queue(session.stream);
    must(aclrtSynchronizeStream(session.stream));
    // Phase 2 has freed the executor: it was not made repeatable.
    aclnnGroupedBiasAddGrad(gradient.workspace, gradient.workspace_size, gradient.executor, session.stream);
    gradient.free_workspace();
  }
  must(aclrtFree(input));
  must(aclrtFree(output));
}
