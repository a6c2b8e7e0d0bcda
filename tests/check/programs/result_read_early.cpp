// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: read-before-synchronize: the host uses .* which aclrtMemcpyAsync.dst .* At .*result_read_early
// Needs: watched words
#include "program.h"

int main() {
  Session session;
  void* memory = device_ones(kOutputBytes);
  std::vector<float> result(kOutputBytes / sizeof(float));
  must(aclrtMemcpyAsync(result.data(), kOutputBytes, memory, kOutputBytes, ACL_MEMCPY_DEVICE_TO_HOST,
                        session.stream));
  std::printf("%g\n", result[0]);  // before the stream is synchronised
  must(aclrtSynchronizeStream(session.stream));
  std::printf("%g\n", result[0]);
  must(aclrtFree(memory));
}
