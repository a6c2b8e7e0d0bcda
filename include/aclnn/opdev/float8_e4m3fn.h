// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// op::float8_e4m3fn: a sign, 4 bits of exponent, 3 of mantissa, up to 448; NaN and no infinity. C++ only.
///
/// Conversion rounds to nearest even; overflow and NaN give NaN.
#ifndef ACLGRAD_ACLNN_OPDEV_FLOAT8_E4M3FN_H
#define ACLGRAD_ACLNN_OPDEV_FLOAT8_E4M3FN_H

#include "minifloat.h"

namespace op {

struct float8_e4m3fn_format {
  static double magnitude(uint32_t code) { return magnitude_of(code, 4, 3); }

  static double widen(uint8_t bits) {
    const uint32_t code = bits & 0x7Fu;
    const double number = code == kNan ? NAN : magnitude(code);
    return (bits & 0x80u) != 0 ? -number : number;
  }

  static uint8_t round(float number) {
    const uint32_t sign = std::signbit(number) ? 0x80u : 0;
    const uint32_t code =
        std::isnan(number) ? +kNan : nearest_code<float8_e4m3fn_format>(std::fabs(number), kNan);
    return static_cast<uint8_t>(sign | code);
  }

 private:
  enum : uint32_t { kNan = 0x7F };
};

using float8_e4m3fn = minifloat<float8_e4m3fn_format>;
using Float8E4M3FN = float8_e4m3fn;

}  // namespace op

#endif
