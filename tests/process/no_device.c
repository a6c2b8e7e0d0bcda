// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/* What a program learns where there is no device. */
#include <stdio.h>

#include "acl/acl.h"

int main(void) {
  uint32_t count = 99;
  if (aclrtGetDeviceCount(&count) != ACL_SUCCESS || count != 0) return 1;
  if (aclrtSetDevice(0) != ACL_ERROR_RT_INVALID_DEVICEID) return 1;
  const char* message = aclGetRecentErrMsg();
  if (message == NULL) return 1;
  fprintf(stderr, "%s\n", message);
  return 0;
}
