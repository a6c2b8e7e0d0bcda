// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: leak: aclTensor
// Finding: leak: aclIntArray
// Finding: leak: aclrtStream
// Finding: leak: aclrtEvent
// Finding: leak: aclrtContext
// Finding: leak: aclOpExecutor
// Finding: leak: never freed: device memory
// Finding: leak: never freed: host memory
#include "program.h"

int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);  // never freed
  void* host = nullptr;
  must(aclrtMallocHost(&host, kInputBytes));
  {
    BiasGrad gradient(input, output);
    gradient.plan();
    must(aclSetAclOpExecutorRepeatable(gradient.executor));  // the program must destroy it
    gradient.queue(session.stream);
    must(aclrtSynchronizeStream(session.stream));
    gradient.free_workspace();
  }
  must(aclrtFree(input));
  tensor(nullptr, {kGroups});
  const int64_t ends[] = {4, 8};
  aclCreateIntArray(ends, 2);
  new_stream();
  new_event();
  aclrtContext first = nullptr;
  must(aclrtGetCurrentContext(&first));
  aclrtContext second = nullptr;
  must(aclrtCreateContext(&second, 0));
  must(aclrtSetCurrentContext(first));
}
