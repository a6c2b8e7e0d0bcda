// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: destination-changed: aclrtMemcpyAsync.dst .* was overwritten or freed on the host before the stream
#include "program.h"

int main() {
  Session session;
  void* memory = device_ones(kInputBytes);
  std::vector<float> result(kInputBytes / sizeof(float));
  must(aclrtMemcpyAsync(result.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST,
                        session.stream));
  for (float& value : result) value -= 1;  // the copy may not be done, or come after this
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtFree(memory));
}
