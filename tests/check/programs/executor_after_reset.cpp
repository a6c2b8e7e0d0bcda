// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: executor-after-reset: aclnnGroupedBiasAddGrad got aclOpExecutor .* device 0, for which it was made, was reset
#include "program.h"

int main() {
  must(aclInit(nullptr));
  must(aclrtSetDevice(0));
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  {
    BiasGrad gradient(input, output);
    gradient.plan();
    must(aclrtResetDevice(0));  // between the phases
    must(aclrtSetDevice(0));
    aclrtStream stream = new_stream();
    gradient.queue(stream);
    must(aclrtSynchronizeStream(stream));
    must(aclrtDestroyStream(stream));
    gradient.free_workspace();
  }
  must(aclrtFree(input));
  must(aclrtFree(output));
  must(aclrtResetDevice(0));
  must(aclFinalize());
}
