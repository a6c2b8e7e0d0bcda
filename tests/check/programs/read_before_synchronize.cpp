// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: read-before-synchronize: aclrtMemcpy.src .*aclnnGroupedBiasAddGrad.out
#include "program.h"

int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  std::vector<float> result(kGroups * kColumns);
  {
    BiasGrad gradient(input, output);
    gradient.plan();
    gradient.queue(session.stream);
    // aclrtSynchronizeStream is missing here.
    must(aclrtMemcpy(result.data(), kOutputBytes, output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
    must(aclrtSynchronizeStream(session.stream));
    gradient.free_workspace();
  }
  must(aclrtFree(input));
  must(aclrtFree(output));
}
