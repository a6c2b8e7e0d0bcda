// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Element types: the 16-bit floats, their conversion, and the choice of a template by DataType.
#pragma once

#include <bit>
#include <cstdint>

#include "aclgrad/types.h"

namespace aclgrad {

// IEEE 754 binary16.
struct Half {
  uint16_t bits;
};

// The upper half of a float.
struct BFloat16 {
  uint16_t bits;
};

inline float to_float(float value) {
  return value;
}

inline float to_float(BFloat16 value) {
  return std::bit_cast<float>(uint32_t{value.bits} << 16);
}

inline float to_float(Half value) {
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  const uint32_t magnitude = value.bits & 0x7FFFu;
  if (magnitude >= 0x7C00u) return std::bit_cast<float>(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
  // Subnormals are multiples of 2^-24, which a float has from 0.5 to 1. None is a float's subnormal on the way, which
  // threads may read as zero.
  const float subnormal = std::bit_cast<float>(0x3F000000u | magnitude) - 0.5f;
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  return std::bit_cast<float>(sign | (magnitude < 0x400u ? std::bit_cast<uint32_t>(subnormal) : normal));
}

// Conversions from float round to nearest even; a NaN stays a quiet NaN, overflow gives infinity.
template <class T>
T from_float(float value);

template <>
inline float from_float<float>(float value) {
  return value;
}

template <>
inline BFloat16 from_float<BFloat16>(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16)};
}

template <>
inline Half from_float<Half>(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return {static_cast<uint16_t>(sign | 0x7E00u | (magnitude >> 13 & 0x1FFu))};
  if (magnitude >= 0x47800000u) return {static_cast<uint16_t>(sign | 0x7C00u)};  // 65536 and more
  if (magnitude < 0x38800000u) {
    // Subnormal result: adding 0.5 leaves the rounded multiple of 2^-24 in the lowest bits of the sum.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - 0x3F000000u))};
  }
  const uint32_t rounded = magnitude - 0x38000000u + 0xFFFu + (magnitude >> 13 & 1u);
  return {static_cast<uint16_t>(sign | rounded >> 13)};
}

inline constexpr size_t size_of(DataType type) {
  switch (type) {
    case DataType::float16:
    case DataType::bfloat16:
      return 2;
    case DataType::float32:
    case DataType::int32:
      return 4;
    case DataType::int64:
    case DataType::float64:
      return 8;
  }
  return 0;
}

inline constexpr const char* name_of(DataType type) {
  switch (type) {
    case DataType::float32:
      return "float32";
    case DataType::float16:
      return "float16";
    case DataType::bfloat16:
      return "bfloat16";
    case DataType::float64:
      return "float64";
    case DataType::int32:
      return "int32";
    case DataType::int64:
      return "int64";
  }
  return "an unsupported type";
}

template <class T>
inline constexpr DataType data_type_of = DataTypeOf<T>::value;
template <>
inline constexpr DataType data_type_of<Half> = DataType::float16;
template <>
inline constexpr DataType data_type_of<BFloat16> = DataType::bfloat16;

// An entry of contiguous int32 or int64 values.
inline int64_t index_at(const ConstTensor& indices, int64_t i) {
  return indices.type == DataType::int32 ? static_cast<const int32_t*>(indices.data)[i]
                                         : static_cast<const int64_t*>(indices.data)[i];
}

// Calls function(T{}) with T = float, Half or BFloat16, the element type that `type` names.
template <class Function>
void visit_float_type(DataType type, Function&& function) {
  if (type == DataType::float16) {
    function(Half{});
  } else if (type == DataType::bfloat16) {
    function(BFloat16{});
  } else {
    function(float{});
  }
}

// An unsigned integer of the type's size.
template <class Function>
void visit_word(DataType type, Function&& function) {
  switch (size_of(type)) {
    case 2:
      return function(uint16_t{});
    case 4:
      return function(uint32_t{});
    default:
      return function(uint64_t{});
  }
}

// As visit_float_type, with T = double for float64, too.
template <class Function>
void visit_element_type(DataType type, Function&& function) {
  if (type == DataType::float64) {
    function(double{});
  } else {
    visit_float_type(type, function);
  }
}

}  // namespace aclgrad
