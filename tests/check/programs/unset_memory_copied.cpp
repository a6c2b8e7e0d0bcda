// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: unset-memory: aclnnGroupedBiasAddGrad\.gradY .* reads memory that was never written: bytes 128 to 255 of device memory
#include "program.h"

int main() {
  Session session;
  void* half_set = device_memory(kInputBytes);
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  must(aclrtMemset(half_set, kInputBytes, 0, kInputBytes / 2));
  must(aclrtMemcpyAsync(input, kInputBytes, half_set, kInputBytes, ACL_MEMCPY_DEVICE_TO_DEVICE,
                        session.stream));
  must(aclrtSynchronizeStream(session.stream));
  BiasGrad gradient(input, output);
  gradient.plan();
  gradient.queue(session.stream);
  must(aclrtSynchronizeStream(session.stream));
  gradient.free_workspace();
  must(aclrtFree(half_set));
  must(aclrtFree(input));
  must(aclrtFree(output));
}
