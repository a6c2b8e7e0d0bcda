// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "program.h"

// From one memory on the device to another by way of the host, all in the order of one stream.
int main() {
  Session session;
  constexpr size_t kBytes = size_t{8} << 20;  // too much to be done at once
  void* from = device_ones(kBytes);
  void* to = device_memory(kBytes);
  std::vector<float> between(kBytes / sizeof(float));
  std::vector<float> result(kBytes / sizeof(float));
  must(aclrtMemcpyAsync(between.data(), kBytes, from, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
  must(aclrtMemcpyAsync(to, kBytes, between.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtMemcpy(result.data(), kBytes, to, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  must(aclrtFree(from));
  must(aclrtFree(to));
  return result.back() == 1.0f ? 0 : 1;
}
