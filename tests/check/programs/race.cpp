// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: race: aclrtMemcpyAsync.src .*aclnnGroupedBiasAddGrad.out
#include "program.h"

int main() {
  Session session;
  aclrtStream copies = new_stream();
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  std::vector<float> result(kGroups * kColumns);
  {
    BiasGrad gradient(input, output);
    gradient.plan();
    gradient.queue(session.stream);
    // An event, recorded in one stream and waited for in the other, is missing here.
    must(aclrtMemcpyAsync(result.data(), kOutputBytes, output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST,
                          copies));
    must(aclrtSynchronizeStream(copies));
    must(aclrtSynchronizeStream(session.stream));
    gradient.free_workspace();
  }
  must(aclrtDestroyStream(copies));
  must(aclrtFree(input));
  must(aclrtFree(output));
}
