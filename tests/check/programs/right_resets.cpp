// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "program.h"

// Resets that leave the executor's device alone: of another device, and one of two that its device needs. And an
// executor that is destroyed after its device was reset.
int main() {
  Session session;
  must(aclrtSetDevice(1));
  must(aclrtSetDevice(0));
  must(aclrtSetDevice(0));
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  {
    BiasGrad gradient(input, output);
    gradient.plan();
    must(aclSetAclOpExecutorRepeatable(gradient.executor));
    gradient.queue(session.stream);
    must(aclrtResetDevice(1));
    must(aclrtResetDevice(0));
    must(aclrtResetDevice(0));
    gradient.queue(session.stream);
    must(aclrtSynchronizeStream(session.stream));
    gradient.free_workspace();
    must(aclrtFree(input));
    must(aclrtFree(output));
    must(aclrtDestroyStream(session.stream));
    must(aclrtResetDevice(0));
    must(aclDestroyAclOpExecutor(gradient.executor));
  }
  must(aclrtSetDevice(0));
  session.stream = new_stream();
}
