// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/* The bounds-checked functions from C, with nothing else linked. */
#include <securec.h>

int main(void) {
  char text[8];
  if (strcpy_s(text, sizeof text, "1234567") != EOK) return 1;
  if (strncat_s(text, sizeof text, "8", 1) != ERANGE_AND_RESET || text[0] != '\0') return 2;
  if (memset_s(text, sizeof text, 'x', 9) != ERANGE_AND_RESET || text[7] != 'x') return 3;
  if (sprintf_s(text, sizeof text, "%d", 17) != 2) return 4;
  puts(text);
  return 0;
}
