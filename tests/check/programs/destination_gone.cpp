// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: destination-changed: aclrtMemcpyAsync.dst .* was overwritten or freed on the host before the stream
#include "program.h"

namespace {

void queue_download(const void* memory, aclrtStream stream) {
  std::vector<float> result(kInputBytes / sizeof(float));
  must(aclrtMemcpyAsync(result.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
}  // the copy may come after the vector is gone

}  // namespace

int main() {
  Session session;
  void* memory = device_ones(kInputBytes);
  queue_download(memory, session.stream);
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtFree(memory));
}
