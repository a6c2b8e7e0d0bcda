// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// op::hifloat8: 8 bits with more mantissa for numbers near 1 and more exponent far from it. C++ only.
///
/// After the sign come a prefix, the exponent as sign and magnitude, whose leading 1 is not stored, and the mantissa:
///   prefix  magnitude of the exponent  bits of exponent, mantissa
///   11      8 to 15                    4, 1
///   10      4 to 7                     3, 2
///   01      2 to 3                     2, 3
///   001     1                          1, 3
///   0001    0                          0, 3
///   0000    none: 2^(m - 23) for m from 1 to 7; m = 0 is zero, with a negative sign NaN
/// The largest number is 2^15; the code after it is infinity. Conversion rounds to nearest, ties away from zero.
#ifndef ACLGRAD_ACLNN_OPDEV_HIFLOAT8_H
#define ACLGRAD_ACLNN_OPDEV_HIFLOAT8_H

#include "minifloat.h"

namespace op {

struct hifloat8_format {
  static double widen(uint8_t bits) {
    if (bits == kNan) return NAN;
    const uint32_t code = bits & 0x7Fu;
    const double number = code == kInfinity ? INFINITY : magnitude(code);
    return (bits & 0x80u) != 0 ? -number : number;
  }

  static uint8_t round(float number) {
    if (std::isnan(number)) return kNan;
    const uint32_t sign = std::signbit(number) ? 0x80u : 0;
    const uint32_t code = code_of(std::fabs(number));
    return static_cast<uint8_t>(code == 0 ? 0 : sign | code);  // there is no negative zero
  }

 private:
  enum : uint8_t { kNan = 0x80, kInfinity = 0x6F };
  enum : int { kLeastExponent = -15, kLeastPower = -22 };

  /// How many bits the exponent has, its sign included.
  static int exponent_bits(int exponent) {
    const int size = exponent < 0 ? -exponent : exponent;
    return size >= 8 ? 4 : size >= 4 ? 3 : size >= 2 ? 2 : size;
  }

  static int mantissa_bits(int exponent) {
    const int bits = exponent_bits(exponent);
    return exponent < kLeastExponent ? 0 : bits == 4 ? 1 : bits == 3 ? 2 : 3;
  }

  static double magnitude(uint32_t code) {
    if (code < 8) return code == 0 ? 0 : std::ldexp(1.0, static_cast<int>(code) - 23);
    const int bits = code >= 32 ? static_cast<int>(code >> 5) + 1 : static_cast<int>(code >> 4);
    const int mantissa = bits == 4 ? 1 : bits == 3 ? 2 : 3;
    const uint32_t field = code >> mantissa & ((1u << bits) - 1);
    int exponent = 0;
    if (bits > 0) {
      const uint32_t leading = 1u << (bits - 1);
      exponent = static_cast<int>(leading | (field & (leading - 1)));
      if ((field & leading) != 0) exponent = -exponent;
    }
    const uint32_t fraction = code & ((1u << mantissa) - 1);
    return std::ldexp(static_cast<double>((1u << mantissa) + fraction), exponent - mantissa);
  }

  static uint32_t code_of(double number) {
    if (number < std::ldexp(1.0, kLeastPower - 1)) return 0;
    int exponent = number >= std::ldexp(1.0, 16) ? 16 : std::ilogb(number);
    if (exponent < kLeastPower) exponent = kLeastPower;
    const int mantissa = mantissa_bits(exponent);
    double units = std::floor(std::ldexp(number, mantissa - exponent) + 0.5);
    if (units >= 2 << mantissa) {  // the next power of two, which may have another size of mantissa
      ++exponent;
      units = 1 << mantissa_bits(exponent);
    }
    if (units < 1 << mantissa_bits(exponent)) units = 1 << mantissa_bits(exponent);
    if (exponent < kLeastExponent) return static_cast<uint32_t>(exponent + 23);
    const uint32_t fraction = static_cast<uint32_t>(units) - (1u << mantissa_bits(exponent));
    if (exponent > 15 || (exponent == 15 && fraction > 0)) return kInfinity;
    return encode(exponent, fraction);
  }

  static uint32_t encode(int exponent, uint32_t fraction) {
    const int bits = exponent_bits(exponent), mantissa = mantissa_bits(exponent);
    const uint32_t prefix = bits >= 2 ? static_cast<uint32_t>(bits - 1) << 5 : bits == 1 ? 1u << 4 : 1u << 3;
    if (bits == 0) return prefix | fraction;
    const uint32_t leading = 1u << (bits - 1),
                   size = static_cast<uint32_t>(exponent < 0 ? -exponent : exponent);
    const uint32_t field = (size - leading) | (exponent < 0 ? leading : 0);
    return prefix | field << mantissa | fraction;
  }
};

using hifloat8 = minifloat<hifloat8_format>;
using HiFloat8 = hifloat8;

}  // namespace op

#endif
