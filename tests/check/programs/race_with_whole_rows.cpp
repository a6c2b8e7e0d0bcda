// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: race: aclrtMemsetAsync\.devPtr .* writes memory that aclrtMemcpy2dAsync\.dst .* writes, and no event orders the two
#include "program.h"

// The stream copies all bytes, then the first and the last one alone, which span the same memory.
int main() {
  Session session;
  aclrtStream second = new_stream();
  auto* memory = static_cast<std::byte*>(device_memory(kInputBytes));
  void* source = device_ones(kInputBytes);
  const size_t last = kInputBytes - 1;
  must(aclrtMemcpy2dAsync(memory, kInputBytes, source, kInputBytes, kInputBytes, 1,
                          ACL_MEMCPY_DEVICE_TO_DEVICE, session.stream));
  must(aclrtMemcpy2dAsync(memory, last, source, last, 1, 2, ACL_MEMCPY_DEVICE_TO_DEVICE, session.stream));
  must(aclrtMemsetAsync(memory + 1, 1, 0, 1, second));
  must(aclrtSynchronizeStream(second));
  must(aclrtSynchronizeStream(session.stream));
  must(aclrtDestroyStream(second));
  must(aclrtFree(memory));
  must(aclrtFree(source));
}
