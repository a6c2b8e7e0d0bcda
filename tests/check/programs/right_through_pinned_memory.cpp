// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include <cstring>

#include "program.h"

// From one memory on the device to another by way of pinned memory of the host, which an earlier copy reads.
int main() {
  Session session;
  constexpr size_t kBytes = size_t{1} << 20;
  void* from = device_ones(kBytes);
  void* to = device_memory(kBytes);
  void* pinned = nullptr;
  must(aclrtMallocHost(&pinned, kBytes));
  std::memset(pinned, 0, kBytes);
  std::vector<float> result(kBytes / sizeof(float));
  Held held(session.stream);
  must(aclrtMemcpyAsync(to, kBytes, pinned, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
  must(aclrtMemcpyAsync(pinned, kBytes, from, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
  must(aclrtMemcpyAsync(to, kBytes, pinned, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
  held.let_go();
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtMemcpy(result.data(), kBytes, to, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  const bool is_pinned_right = static_cast<const float*>(pinned)[result.size() - 1] == 1.0f;
  must(aclrtFreeHost(pinned));
  must(aclrtFree(from));
  must(aclrtFree(to));
  return is_pinned_right && result.back() == 1.0f ? 0 : 1;
}
