// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include <algorithm>

#include "program.h"

// Copies behind a wait cannot begin before the event is recorded: until then their memory is the program's.
int main() {
  Session session;
  aclrtStream second = new_stream();
  aclrtEvent ready = new_event();
  void* memory = device_memory(kInputBytes);
  void* pinned_memory = nullptr;
  must(aclrtMallocHost(&pinned_memory, kInputBytes));
  float* pinned = static_cast<float*>(pinned_memory);
  std::vector<float> sent(kInputBytes / sizeof(float), 1.0f);
  std::vector<float> received(sent.size(), 2.0f);
  must(aclrtStreamWaitEvent(second, ready));
  must(aclrtMemcpyAsync(memory, kInputBytes, sent.data(), kInputBytes, ACL_MEMCPY_HOST_TO_DEVICE, second));
  must(
      aclrtMemcpyAsync(received.data(), kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST, second));
  must(aclrtMemcpyAsync(pinned, kInputBytes, memory, kInputBytes, ACL_MEMCPY_DEVICE_TO_HOST, second));
  std::fill(sent.begin(), sent.end(), 3.0f);
  std::fill(received.begin(), received.end(), 4.0f);
  std::fill_n(pinned, sent.size(), 5.0f);
  must(aclrtRecordEvent(ready, session.stream));
  must(aclrtSynchronizeStream(second));
  const bool is_right = received == sent && std::equal(sent.begin(), sent.end(), pinned);
  must(aclrtDestroyEvent(ready));
  must(aclrtDestroyStream(second));
  must(aclrtFree(memory));
  must(aclrtFreeHost(pinned_memory));
  return is_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
