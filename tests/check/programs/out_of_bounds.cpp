// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: out-of-bounds: aclnnGroupedBiasAddGrad.gradY .*bytes 0 to 255 of device memory .* of 64 bytes
#include "program.h"

int main() {
  Session session;
  void* input = device_ones(kInputBytes / sizeof(float));  // elements where bytes are meant
  void* output = device_memory(kOutputBytes);
  {
    BiasGrad gradient(input, output);
    gradient.plan();
    aclnnGroupedBiasAddGrad(gradient.workspace, gradient.workspace_size, gradient.executor, session.stream);
    gradient.free_workspace();
  }
  must(aclrtFree(input));
  must(aclrtFree(output));
}
