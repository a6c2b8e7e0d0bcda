// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The runtime from C: memory that goes to the device and comes back.
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"

int main(void) {
  const char sent[] = "there and back";
  char received[sizeof sent] = "";
  void* memory = NULL;
  if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS) return 1;
  if (aclrtMalloc(&memory, sizeof sent, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) return 2;
  if (aclrtMemcpy(memory, sizeof sent, sent, sizeof sent, ACL_MEMCPY_HOST_TO_DEVICE) != ACL_SUCCESS) return 3;
  if (aclrtMemcpy(received, sizeof sent, memory, sizeof sent, ACL_MEMCPY_DEVICE_TO_HOST) != ACL_SUCCESS)
    return 4;
  if (strcmp(sent, received) != 0 || aclFloat16ToFloat(aclFloatToFloat16(1.5f)) != 1.5f) return 5;
  if (aclrtFree(memory) != ACL_SUCCESS || aclrtResetDevice(0) != ACL_SUCCESS || aclFinalize() != ACL_SUCCESS)
    return 6;
  puts(received);
  return 0;
}
