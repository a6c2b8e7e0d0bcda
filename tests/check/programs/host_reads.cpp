// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: host-access: the host (reads|uses) byte 4 of device memory .* of 64 bytes, allocated at
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
    gradient.free_workspace();
  }
  const float* result = static_cast<const float*>(output);  // aclrtMemcpy to the host is missing
  std::printf("%g %g\n", result[1], result[2]);
  must(aclrtFree(input));
  must(aclrtFree(output));
}
