// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: use-after-free: aclnnGroupedBiasAddGrad\.gradY .* lies in device memory .* freed at
// Finding: use-after-free: aclnnGroupedBiasAddGrad\.out .* lies in device memory .* freed at
#include "program.h"

// Phase 2 uses what the tensors of phase 1 name.
int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  BiasGrad gradient(input, output);
  gradient.plan();
  must(aclrtFree(input));
  must(aclrtFree(output));
  gradient.queue(session.stream);
  must(aclrtSynchronizeStream(session.stream));
  gradient.free_workspace();
}
