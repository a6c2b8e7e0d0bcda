// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// op::float4_e2m1: a sign, 2 bits of exponent, 1 of mantissa: 0, 0.5, 1, 1.5, 2, 3, 4 and 6. In the lower half of a byte:
/// who packs two into one byte does it by `value`. C++ only.
///
/// Conversion rounds to nearest even; what is beyond 6 gives 6, and so does NaN, which this type does not have.
#ifndef ACLGRAD_ACLNN_OPDEV_FLOAT4_E2M1_H
#define ACLGRAD_ACLNN_OPDEV_FLOAT4_E2M1_H

#include "minifloat.h"

namespace op {

struct float4_e2m1_format {
  static double magnitude(uint32_t code) { return magnitude_of(code, 2, 1); }

  static double widen(uint8_t bits) {
    return (bits & 0x8u) != 0 ? -magnitude(bits & 0x7u) : magnitude(bits & 0x7u);
  }

  static uint8_t round(float number) {
    const uint32_t largest = 0x7, sign = std::signbit(number) ? 0x8u : 0;
    if (std::isnan(number)) return static_cast<uint8_t>(largest);
    return static_cast<uint8_t>(sign | nearest_code<float4_e2m1_format>(std::fabs(number), largest));
  }
};

using float4_e2m1 = minifloat<float4_e2m1_format>;
using Float4E2M1 = float4_e2m1;

}  // namespace op

#endif
