// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "program.h"

int main() {
  Session session;
  aclrtEvent done = new_event();
  void* memory = device_memory(kInputBytes);
  std::vector<float> source(kInputBytes / sizeof(float), 1.0f);
  for (int step = 0; step < 3; ++step) {
    source.assign(source.size(), static_cast<float>(step));
    must(aclrtMemcpyAsync(memory, kInputBytes, source.data(), kInputBytes, ACL_MEMCPY_HOST_TO_DEVICE,
                          session.stream));
    must(aclrtRecordEvent(done, session.stream));
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE) must(aclrtQueryEventStatus(done, &status));
  }
  must(aclrtDestroyEvent(done));
  must(aclrtFree(memory));
}
