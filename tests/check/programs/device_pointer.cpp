// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: device-pointer: aclrtMemcpy.src
#include "program.h"

int main() {
  Session session;
  void* from = device_ones(kInputBytes);
  void* to = device_memory(kInputBytes);
  must(aclrtMemcpy(to, kInputBytes, from, kInputBytes, ACL_MEMCPY_HOST_TO_DEVICE));  // it is DEVICE_TO_DEVICE
  must(aclrtFree(from));
  must(aclrtFree(to));
}
