// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// op::bfloat16: the upper half of a float, to prepare and read the data of ACL_BF16 tensors on the host. C++ only.
#ifndef ACLGRAD_ACLNN_OPDEV_BFLOAT16_H
#define ACLGRAD_ACLNN_OPDEV_BFLOAT16_H

#ifndef __cplusplus
#error "aclnn/opdev/bfloat16.h is for C++."
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace op {

/// Converts from every number and to float, and so to every number; arithmetic and comparisons are those of float.
/// Conversion to bfloat16 rounds to nearest even; overflow gives an infinity, NaN stays NaN. Doubles and integers are
/// rounded to float first.
struct bfloat16 {
  uint16_t value;  ///< The bits.

  struct from_bits_t {};
  static constexpr from_bits_t from_bits() { return from_bits_t(); }

  bfloat16() = default;
  constexpr bfloat16(uint16_t bits, from_bits_t) : value(bits) {}
  bfloat16(float number) : value(round_to_bfloat16(number)) {}
  template <class Number, class = typename std::enable_if<std::is_arithmetic<Number>::value>::type>
  bfloat16(Number number) : value(round_to_bfloat16(static_cast<float>(number))) {}
  /// A number or bits? Say bfloat16(static_cast<float>(number)) or bfloat16(bits, bfloat16::from_bits()).
  bfloat16(uint16_t) = delete;

  operator float() const {
    const uint32_t bits = static_cast<uint32_t>(value) << 16;
    float number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
  }

  bfloat16& operator+=(float number) { return *this = *this + number; }
  bfloat16& operator-=(float number) { return *this = *this - number; }
  bfloat16& operator*=(float number) { return *this = *this * number; }
  bfloat16& operator/=(float number) { return *this = *this / number; }

 private:
  static uint16_t round_to_bfloat16(float number) {
    uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    const uint32_t is_odd = bits >> 16 & 1u;
    return static_cast<uint16_t>((is_nan ? bits | 0x400000u : bits + 0x7FFFu + is_odd) >> 16);
  }
};

}  // namespace op

#endif
