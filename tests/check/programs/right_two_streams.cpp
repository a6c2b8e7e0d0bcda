// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "program.h"

int main() {
  Session session;
  aclrtStream copies = new_stream();
  aclrtEvent computed = new_event();
  aclrtEvent copied = new_event();
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  std::vector<float> result(kGroups * kColumns);
  {
    BiasGrad gradient(input, output);
    gradient.plan();
    must(aclSetAclOpExecutorRepeatable(gradient.executor));
    for (int step = 0; step < 20; ++step) {
      gradient.queue(session.stream);
      must(aclrtRecordEvent(computed, session.stream));
      must(aclrtStreamWaitEvent(copies, computed));
      must(aclrtMemcpyAsync(result.data(), kOutputBytes, output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST,
                            copies));
      must(aclrtRecordEvent(copied, copies));
      must(aclrtStreamWaitEvent(session.stream, copied));
    }
    must(aclrtSynchronizeEvent(copied));
    must(aclrtSynchronizeStream(session.stream));
    gradient.free_workspace();
    must(aclDestroyAclOpExecutor(gradient.executor));
  }
  must(aclrtDestroyEvent(computed));
  must(aclrtDestroyEvent(copied));
  must(aclrtDestroyStream(copies));
  must(aclrtFree(input));
  must(aclrtFree(output));
  return result[0] == kRows ? EXIT_SUCCESS : EXIT_FAILURE;
}
