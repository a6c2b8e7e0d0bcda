// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: host-access: the host (writes|uses) byte 0 of device memory .* of 256 bytes, allocated at
#include <cstring>

#include "program.h"

int main() {
  Session session;
  const std::vector<float> ones(kInputBytes / sizeof(float), 1.0f);
  void* input = device_memory(kInputBytes);
  std::memcpy(input, ones.data(), kInputBytes);  // aclrtMemcpy is meant
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
