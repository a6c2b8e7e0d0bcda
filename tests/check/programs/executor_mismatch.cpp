// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: executor-mismatch: aclnnGroupedBiasAddGradV2 got an aclOpExecutor of aclnnGroupedBiasAddGradGet
#include "program.h"

int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  {
    BiasGrad gradient(input, output);
    gradient.plan();
    aclnnGroupedBiasAddGradV2(gradient.workspace, gradient.workspace_size, gradient.executor, session.stream);
    gradient.queue(session.stream);  // its own operator can still run it
    must(aclrtSynchronizeStream(session.stream));
    gradient.free_workspace();
  }
  must(aclrtFree(input));
  must(aclrtFree(output));
}
