// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Arithmetic as NVIDIA's "PTX ISA" defines it, where that is not C++'s.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace ptx {

// A result that is NaN is always this one.
inline float canonical(float value) {
  return value == value ? value : std::bit_cast<float>(0x7FFFFFFFu);
}
inline double canonical(double value) {
  return value == value ? value : std::bit_cast<double>(0x7FFFFFFFFFFFFFFFull);
}

// Subnormal numbers as zero.
inline float flushed(float value) {
  return std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0f, value) : value;
}

// An atomic addition to global memory.
inline float added_in_memory(float sum, float term) {
  return canonical(flushed(flushed(sum) + flushed(term)));
}
inline double added_in_memory(double sum, double term) {
  return canonical(sum + term);
}

// a * b + c rounded towards zero: as doubles the product is exact, and so is the error of the sum.
inline float fma_towards_zero(float a, float b, float c) {
  const double product = static_cast<double>(a) * b, sum = product + c;
  if (!std::isfinite(sum)) return canonical(std::fma(a, b, c));
  const double of_c = sum - product, error = (product - (sum - of_c)) + (c - of_c);
  const bool is_beyond = error != 0 && (error < 0) == (sum > 0);
  const double exact = is_beyond ? std::nextafter(sum, 0.0) : sum;
  const auto rounded = static_cast<float>(exact);
  return std::fabs(static_cast<double>(rounded)) > std::fabs(exact) ? std::nextafter(rounded, 0.0f) : rounded;
}

// div.approx: divisors beyond 2^126 give zero. (GPUs may be off by two units in the last place, the machine is exact.)
inline float divided_approximately(float a, float b) {
  const float magnitude = std::fabs(b);
  if (magnitude > 0x1p126f && !std::isinf(magnitude)) {
    return std::isinf(a) || a != a ? canonical(NAN)
                                   : std::copysign(0.0f, std::signbit(a) == std::signbit(b) ? 1.0f : -1.0f);
  }
  return canonical(a / b);
}

// To an integer, of a value that is whole or NaN. What is out of range gives the nearest number.
template <class To, class From>
To saturated(From value) {
  using Limits = std::numeric_limits<To>;
  constexpr int kBits = Limits::digits;
  if (value != value) {
    const bool is_zero = sizeof(To) < 8 && sizeof(From) < 8;
    return is_zero ? To{0} : static_cast<To>(uint64_t{1} << (8 * sizeof(To) - 1));
  }
  if (value <= static_cast<From>(Limits::min())) return Limits::min();
  if (value >= std::ldexp(From{1}, kBits)) return Limits::max();
  return static_cast<To>(value);
}

// The upper half of a product.
template <class T>
T high_product(T a, T b) {
  using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
  return static_cast<T>(static_cast<Wide>(a) * b >> (8 * sizeof(T)));
}

template <class T>
using Unsigned = std::make_unsigned_t<T>;

template <class T>
T product(T a, T b) {  // its lower half
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Shifts by more than the width give zero, or the sign.
template <class T>
T shifted_left(T value, uint32_t by) {
  return by < 8 * sizeof(T) ? static_cast<T>(static_cast<uint64_t>(value) << by) : T{0};
}
template <class T>
T shifted_right(T value, uint32_t by) {
  return by < 8 * sizeof(T) ? static_cast<T>(value >> by) : static_cast<T>(value < T{0} ? -1 : 0);
}

// Total, so that lanes that do not count can be computed, too.
template <class T>
T quotient(T a, T b) {
  if (b == T{0}) return static_cast<T>(-1);
  if (std::is_signed_v<T> && b == static_cast<T>(-1))
    return static_cast<T>(Unsigned<T>{0} - static_cast<Unsigned<T>>(a));
  return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == T{0}) return a;
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return T{0};
  return static_cast<T>(a % b);
}

// prmt: each four bits of `selector` choose one of the eight bytes of a and b, or, with the highest bit, eight times its sign.
inline uint32_t permuted_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned choice = selector >> (4 * i) & 15;
    uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (choice & 7)) & 0xFF);
    if (choice > 7) byte = byte > 0x7F ? 0xFF : 0;
    result |= byte << (8 * i);
  }
  return result;
}

// bfi: `count` bits of `bits` in place of those of `into` from `first` on.
inline uint32_t inserted_bits(uint32_t bits, uint32_t into, uint32_t first, uint32_t count) {
  const uint32_t mask = shifted_left((count & 0xFF) < 32 ? (1u << (count & 0xFF)) - 1 : ~0u, first & 0xFF);
  return (into & ~mask) | (shifted_left(bits, first & 0xFF) & mask);
}

}  // namespace ptx
