// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: unsynchronized-copy: aclrtMemcpyAsync.dst
#include "program.h"

int main() {
  Session session;
  void* memory = device_ones(kInputBytes);
  std::vector<float> result(kInputBytes / sizeof(float));
  aclrtStream stream = new_stream();
  must(aclrtMemcpyAsync(result.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  std::printf("%g\n", result[0]);  // nothing has waited for the copy
  must(aclrtDestroyStream(stream));
  must(aclrtFree(memory));
}
