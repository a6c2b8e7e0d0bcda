// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// op::float8_e8m0: 8 bits of exponent alone, the powers of two from 2^-127 to 2^127, and NaN; a scale of other numbers.
/// C++ only.
///
/// Conversion gives the nearest power, of two the one with an even code; zero and what is smaller than 2^-127 give 2^-127,
/// negative numbers, overflow and NaN give NaN.
#ifndef ACLGRAD_ACLNN_OPDEV_FLOAT8_E8M0_H
#define ACLGRAD_ACLNN_OPDEV_FLOAT8_E8M0_H

#include "minifloat.h"

namespace op {

struct float8_e8m0_format {
  static double magnitude(uint32_t code) { return std::ldexp(1.0, static_cast<int>(code) - 127); }

  static double widen(uint8_t bits) { return bits == kNan ? NAN : magnitude(bits); }

  static uint8_t round(float number) {
    if (!(number >= 0)) return kNan;
    return nearest_code<float8_e8m0_format>(number, kNan);
  }

 private:
  enum : uint8_t { kNan = 0xFF };
};

using float8_e8m0 = minifloat<float8_e8m0_format>;
using Float8E8M0 = float8_e8m0;

}  // namespace op

#endif
