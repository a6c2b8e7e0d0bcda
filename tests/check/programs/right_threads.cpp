// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include <thread>

#include "program.h"

// Each thread has a stream of its own; one hands its result to the other by ending.
int main() {
  Session session;
  void* input = device_ones(kInputBytes);
  void* output = device_memory(kOutputBytes);
  std::thread([&] {
    must(aclrtSetDevice(0));
    aclrtStream stream = new_stream();
    BiasGrad gradient(input, output);
    gradient.plan();
    gradient.queue(stream);
    must(aclrtSynchronizeStream(stream));
    gradient.free_workspace();
    must(aclrtDestroyStream(stream));
    must(aclrtResetDevice(0));
  }).join();
  std::vector<float> result(kGroups * kColumns);
  must(aclrtMemcpyAsync(result.data(), kOutputBytes, output, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST,
                        session.stream));
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtFree(input));
  must(aclrtFree(output));
  return result[0] == kRows ? EXIT_SUCCESS : EXIT_FAILURE;
}
