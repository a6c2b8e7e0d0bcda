// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// op::fp16_t: an IEEE 754 half on the host, to prepare and read the data of ACL_FLOAT16 tensors. C++ only.
#ifndef ACLGRAD_ACLNN_OPDEV_FP16_T_H
#define ACLGRAD_ACLNN_OPDEV_FP16_T_H

#ifndef __cplusplus
#error "aclnn/opdev/fp16_t.h is for C++; C programs have aclFloatToFloat16 and aclFloat16ToFloat."
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace op {

/// Converts from every number and to float, and so to every number; arithmetic and comparisons are those of float.
/// Conversion to half rounds to nearest even; overflow gives an infinity, NaN stays NaN. Doubles and integers are rounded
/// to float first.
struct fp16_t {
  uint16_t val;  ///< The bits.

  struct from_bits_t {};
  static constexpr from_bits_t from_bits() { return from_bits_t(); }

  fp16_t() = default;
  constexpr fp16_t(uint16_t bits, from_bits_t) : val(bits) {}
  fp16_t(float number) : val(round_to_half(number)) {}
  template <class Number, class = typename std::enable_if<std::is_arithmetic<Number>::value>::type>
  fp16_t(Number number) : val(round_to_half(static_cast<float>(number))) {}
  /// A number or bits? Say fp16_t(static_cast<float>(number)) or fp16_t(bits, fp16_t::from_bits()).
  fp16_t(uint16_t) = delete;

  operator float() const { return widen(val); }

  fp16_t& operator+=(float number) { return *this = *this + number; }
  fp16_t& operator-=(float number) { return *this = *this - number; }
  fp16_t& operator*=(float number) { return *this = *this * number; }
  fp16_t& operator/=(float number) { return *this = *this / number; }

 private:
  static uint16_t round_to_half(float number) {
    uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    const uint32_t infinity = 0x7F800000u;
    if (magnitude > infinity) return static_cast<uint16_t>(sign | 0x7E00u | (magnitude >> 13 & 0x1FFu));
    if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7C00u);  // 65536 and more
    const uint32_t exponent = magnitude >> 23;
    const uint32_t smallest_normal = 113;  // exponent of 2^-14
    // A normal half takes the upper bits of the float with another bias. Below, the leading 1 is a bit as the others,
    // and the unit in the last place stays 2^-24. What is below 2^-25 leaves nothing.
    uint32_t kept = magnitude - ((smallest_normal - 1) << 23);
    uint32_t dropped_bits = 13;
    if (exponent < smallest_normal) {
      if (exponent < smallest_normal - 11) return static_cast<uint16_t>(sign);
      kept = (magnitude & 0x7FFFFFu) | 0x800000u;
      dropped_bits += smallest_normal - exponent;
    }
    const uint32_t below_half = (1u << (dropped_bits - 1)) - 1;
    const uint32_t is_odd = kept >> dropped_bits & 1u;
    return static_cast<uint16_t>(sign | (kept + below_half + is_odd) >> dropped_bits);
  }

  static float widen(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
    const uint32_t exponent = half >> 10 & 0x1Fu;
    const uint32_t fraction = half & 0x3FFu;
    // A subnormal is a multiple of 2^-24, which float holds as a normal number.
    float number = static_cast<float>(fraction) / 16777216.0f;
    uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    if (exponent == 0x1Fu) {
      bits = 0x7F800000u | fraction << 13;
    } else if (exponent != 0) {
      bits = (exponent + 112) << 23 | fraction << 13;
    }
    bits |= sign;
    std::memcpy(&number, &bits, sizeof number);
    return number;
  }
};

}  // namespace op

#endif
