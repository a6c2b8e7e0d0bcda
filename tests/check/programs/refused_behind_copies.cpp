// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: out-of-bounds: aclrtMemcpyAsync.dst .* uses bytes 0 to 8388607 of device memory .* of 256 bytes
#include "program.h"

// A copy that is refused leaves the ones before it as they were.
int main() {
  Session session;
  constexpr size_t kBytes = size_t{8} << 20;  // so much that its memory is gone once it is freed
  void* small = device_memory(kInputBytes);
  void* memory = device_memory(kBytes);
  std::vector<float> source(kBytes / sizeof(float), 1.0f);
  std::vector<float> result(source.size());
  const auto refuse = [&] {
    const aclError status =
        aclrtMemcpyAsync(small, kBytes, source.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, session.stream);
    if (status == ACL_SUCCESS) std::exit(EXIT_FAILURE);
  };
  Held held(session.stream);
  must(aclrtMemcpyAsync(memory, kBytes, source.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
  refuse();
  held.let_go();
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtMemcpyAsync(result.data(), kBytes, memory, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtFree(small));
  must(aclrtFree(memory));
  return result == source ? 0 : EXIT_FAILURE;
}
