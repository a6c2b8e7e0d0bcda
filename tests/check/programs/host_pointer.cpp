// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: host-pointer: aclnnGroupedBiasAddGrad.gradY
#include "program.h"

int main() {
  Session session;
  std::vector<float> input(kInputBytes / sizeof(float), 1.0f);  // never copied to the device
  void* output = device_memory(kOutputBytes);
  {
    BiasGrad gradient(input.data(), output);
    gradient.plan();
    gradient.queue(session.stream);
    must(aclrtSynchronizeStream(session.stream));
    gradient.free_workspace();
  }
  must(aclrtFree(output));
}
