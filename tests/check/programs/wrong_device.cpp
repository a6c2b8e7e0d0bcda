// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: wrong-device: aclnnGroupedBiasAddGrad.gradY
#include "program.h"

int main() {
  Session session;
  must(aclrtSetDevice(1));
  void* input = device_ones(kInputBytes);  // on device 1
  must(aclrtSetDevice(0));
  void* output = device_memory(kOutputBytes);
  {
    BiasGrad gradient(input, output);
    gradient.plan();
    gradient.queue(session.stream);
    must(aclrtSynchronizeStream(session.stream));
    gradient.free_workspace();
  }
  must(aclrtFree(input));
  must(aclrtFree(output));
  must(aclrtResetDevice(1));
}
