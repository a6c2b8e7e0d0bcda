// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: unset-memory: aclnnGroupedBiasAddGrad.gradY .*bytes 64 to 255
#include "program.h"

int main() {
  Session session;
  const std::vector<float> source(kInputBytes / sizeof(float), 1.0f);
  void* input = device_memory(kInputBytes);
  // Elements where bytes are meant: three quarters stay unset.
  must(aclrtMemcpy(input, kInputBytes, source.data(), source.size(), ACL_MEMCPY_HOST_TO_DEVICE));
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
}
