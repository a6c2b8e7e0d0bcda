// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: dropped-work: aclrtMemcpy.src .* reads memory that aclnnGroupedBiasAddGrad.out .* was to write
#include "program.h"

int main() {
  Session session;
  aclrtStream stream = new_stream();
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  std::vector<float> result(kGroups * kColumns);
  {
    BiasGrad gradient(input, output);
    gradient.plan();
    gradient.queue(stream);
    must(aclrtDestroyStreamForce(stream));  // drops what has not started
    must(aclrtMemcpy(result.data(), kOutputBytes, output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST));
    gradient.free_workspace();
  }
  must(aclrtFree(input));
  must(aclrtFree(output));
}
