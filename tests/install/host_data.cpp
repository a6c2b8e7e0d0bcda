// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Prepares data on the host as programs do, in C++11: 16-bit floats, bounds-checked functions, headers without a folder.
#include <securec.h>

#include <cstdio>
#include <vector>

#include "aclnn/opdev/bfloat16.h"
#include "aclnn/opdev/float4_e2m1.h"
#include "aclnn/opdev/fp16_t.h"
#include "aclnn/opdev/platform.h"
#include "aclnn_grid_sample.h"
#include "aclnn_util.h"
#include "opdev/bfloat16.h"
#include "opdev/float8_e4m3fn.h"
#include "opdev/float8_e8m0.h"
#include "opdev/fp16_t.h"
#include "opdev/hifloat8.h"

extern "C" ACLNN_API int exported_by_a_vendor(void);
int exported_by_a_vendor(void) {
  return 7;
}

int main() {
  std::vector<op::fp16_t> halves(3, 0.1f);
  std::vector<op::bfloat16> brains = {1, 2.5f, 0.1};
  halves[1] = halves[0] * 2;
  if (halves[0].val != 0x2E66 || halves[1].val != 0x3266 || brains[2].value != 0x3DCD) return 1;
  float sum = 0;
  for (const op::bfloat16& number : brains) sum += number;
  char text[8];
  if (snprintf_s(text, sizeof text, sizeof text - 1, "%.3f", sum) != 5) return 2;
  if (strcat_s(text, sizeof text, " and more") != ERANGE_AND_RESET || text[0] != '\0') return 3;
  if (memcpy_s(text, sizeof text, "fits", 5) != EOK) return 4;
  if (exported_by_a_vendor() != 7) return 5;
  if (op::hifloat8(4).value != 0x20 || op::float8_e4m3fn(1.0).value != 0x38) return 6;
  if (op::float8_e8m0(1.0f).value != 127 || op::float4_e2m1(-6.0f).value != 15) return 7;
  if (op::GetCurrentPlatformInfo().GetSocVersion() != op::SocVersion::ASCEND910B) return 8;
  std::puts(text);
  return 0;
}
