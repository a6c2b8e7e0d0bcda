// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "aclgrad/version.h"

#include <stdio.h>
#include <string.h>

int main(void) {
  char of_headers[32];
  snprintf(of_headers, sizeof of_headers, "%d.%d.%d", ACLGRAD_VERSION_MAJOR, ACLGRAD_VERSION_MINOR,
           ACLGRAD_VERSION_PATCH);
  puts(aclgradVersion());
  return strncmp(aclgradVersion(), of_headers, strlen(of_headers)) != 0 ||
         ACLGRAD_VERSION / 100 % 100 != ACLGRAD_VERSION_MINOR;
}
