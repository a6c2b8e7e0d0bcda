// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// What the types of 8 and 4 bits have in common. They are for programs that prepare data with them: no operator of this
/// library takes such a tensor (161002). C++ only.
#ifndef ACLGRAD_ACLNN_OPDEV_MINIFLOAT_H
#define ACLGRAD_ACLNN_OPDEV_MINIFLOAT_H

#ifndef __cplusplus
#error "aclnn/opdev/minifloat.h is for C++."
#endif

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace op {

/// A number in the bits that `Format` describes. Converts from every number and to float, and so to every number;
/// arithmetic and comparisons are those of float. Doubles and integers are rounded to float first.
template <class Format>
struct minifloat {
  uint8_t value;  ///< The bits.

  struct from_bits_t {};
  static constexpr from_bits_t from_bits() { return from_bits_t(); }

  minifloat() = default;
  constexpr minifloat(uint8_t bits, from_bits_t) : value(bits) {}
  minifloat(float number) : value(Format::round(number)) {}
  template <class Number, class = typename std::enable_if<std::is_arithmetic<Number>::value>::type>
  minifloat(Number number) : value(Format::round(static_cast<float>(number))) {}
  /// A number or bits? Say type(static_cast<float>(number)) or type(bits, type::from_bits()).
  minifloat(uint8_t) = delete;

  operator float() const { return static_cast<float>(Format::widen(value)); }
};

/// The code, from 0 to `last`, whose magnitude is nearest; of two the even one. Magnitudes grow with their codes.
template <class Format>
uint8_t nearest_code(double number, uint32_t last) {
  uint32_t below = 0, above = last;
  while (above - below > 1) {
    const uint32_t middle = (below + above) / 2;
    (Format::magnitude(middle) <= number ? below : above) = middle;
  }
  const double halfway = (Format::magnitude(below) + Format::magnitude(above)) / 2;
  const bool rounds_up = number > halfway || (number == halfway && above % 2 == 0);
  return static_cast<uint8_t>(rounds_up ? above : below);
}

/// The number of a code without its sign: exponent and mantissa as in IEEE 754, but the largest exponent is as others.
inline double magnitude_of(uint32_t code, int exponent_bits, int mantissa_bits) {
  const int exponent = static_cast<int>(code >> mantissa_bits);
  const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  const uint32_t leading = exponent == 0 ? 0 : 1u << mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  return std::ldexp(static_cast<double>(leading + mantissa),
                    (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
}

}  // namespace op

#endif
