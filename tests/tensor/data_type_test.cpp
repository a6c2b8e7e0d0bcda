// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The 16-bit floats, those of the library and of the public headers, against their definition in double precision.
#include "base/data_type.h"

#include <gtest/gtest.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>

#include "acl/acl.h"
#include "aclnn/opdev/bfloat16.h"
#include "aclnn/opdev/fp16_t.h"

namespace aclgrad::test {
namespace {

struct Layout16 {
  int exponent_bits;
  int mantissa_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int smallest_exponent() const { return 1 - bias(); }  // of normal numbers, and the scale of subnormal ones
};

template <class T>
constexpr Layout16 layout_of{};
template <>
constexpr Layout16 layout_of<Half>{5, 10};
template <>
constexpr Layout16 layout_of<op::fp16_t> = layout_of<Half>;
template <>
constexpr Layout16 layout_of<BFloat16>{8, 7};
template <>
constexpr Layout16 layout_of<op::bfloat16> = layout_of<BFloat16>;

template <class T>
float widen(uint32_t bits) {
  return to_float(std::bit_cast<T>(static_cast<uint16_t>(bits)));
}

// The types of the public headers convert themselves.
template <class T>
uint16_t narrow(float value) {
  if constexpr (std::is_convertible_v<float, T>) {
    return std::bit_cast<uint16_t>(T(value));
  } else {
    return from_float<T>(value).bits;
  }
}

template <class T>
double definition_of(uint32_t bits) {
  const Layout16 layout = layout_of<T>;
  const int mantissa_range = 1 << layout.mantissa_bits;
  const int mantissa = static_cast<int>(bits) % mantissa_range;
  const int exponent = static_cast<int>(bits) / mantissa_range % (1 << layout.exponent_bits);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << layout.exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, layout.smallest_exponent() - layout.mantissa_bits);
  return sign * std::ldexp(mantissa_range + mantissa, exponent - layout.bias() - layout.mantissa_bits);
}

// Rounds to a multiple of the unit at the value's size; every step is exact in double.
template <class T>
double round_by_definition(double value) {
  const Layout16 layout = layout_of<T>;
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), layout.smallest_exponent());
  const double unit = std::ldexp(1, exponent - layout.mantissa_bits);
  const double rounded = std::nearbyint(value / unit) * unit;
  const double overflow = std::ldexp(1, layout.bias() + 1);
  return std::fabs(rounded) >= overflow ? std::copysign(std::numeric_limits<double>::infinity(), value)
                                        : rounded;
}

template <class T>
void expect_rounding(float value) {
  const float actual = widen<T>(narrow<T>(value));
  ASSERT_EQ(std::signbit(actual), std::signbit(value)) << std::hexfloat << value;
  if (std::isnan(value)) {
    ASSERT_TRUE(std::isnan(actual)) << std::hexfloat << value;
    return;
  }
  const double expected = round_by_definition<T>(static_cast<double>(value));
  ASSERT_EQ(static_cast<double>(actual), expected) << std::hexfloat << value;
}

template <class T>
class Float16Bits : public testing::Test {};
using Types = testing::Types<Half, BFloat16, op::fp16_t, op::bfloat16>;
TYPED_TEST_SUITE(Float16Bits, Types);

TYPED_TEST(Float16Bits, EveryValueWidensExactlyAndComesBack) {
  for (uint32_t i = 0; i <= 0xFFFF; ++i) {
    const float widened = widen<TypeParam>(i);
    const double expected = definition_of<TypeParam>(i);
    if (std::isnan(expected)) {
      const int mantissa_bits = layout_of<TypeParam>.mantissa_bits;
      ASSERT_TRUE(std::isnan(widened)) << i;
      ASSERT_EQ(std::bit_cast<uint32_t>(widened) % (1u << (23 - mantissa_bits)), 0u) << i;
      ASSERT_EQ(narrow<TypeParam>(widened), i | 1u << (mantissa_bits - 1)) << i << ", which is quiet then";
      continue;
    }
    ASSERT_EQ(static_cast<double>(widened), expected) << i;
    ASSERT_EQ(std::signbit(widened), (i & 0x8000) != 0) << i;
    ASSERT_EQ(narrow<TypeParam>(widened), i) << i;
  }
}

TYPED_TEST(Float16Bits, TiesAndTheirNeighboursRoundToNearestEven) {
  for (uint32_t i = 0; i < 0x7FFF; ++i) {
    const double low = definition_of<TypeParam>(i);
    const double high = definition_of<TypeParam>(i + 1);
    if (std::isnan(high) || std::isinf(high)) continue;
    const auto tie = static_cast<float>((low + high) / 2);
    for (float value : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, HUGE_VALF)}) {
      expect_rounding<TypeParam>(value);
      expect_rounding<TypeParam>(-value);
    }
  }
}

TYPED_TEST(Float16Bits, AnyFloatRoundsToNearestEven) {
  std::mt19937 engine(1);
  for (int i = 0; i < 2'000'000; ++i)
    expect_rounding<TypeParam>(std::bit_cast<float>(static_cast<uint32_t>(engine())));
}

TYPED_TEST(Float16Bits, LimitsOfTheRange) {
  const Layout16 layout = layout_of<TypeParam>;
  const double overflow = std::ldexp(1, layout.bias() + 1);
  const auto first_infinite = static_cast<float>(overflow * (1 - std::ldexp(1, -layout.mantissa_bits - 2)));
  EXPECT_TRUE(std::isinf(widen<TypeParam>(narrow<TypeParam>(first_infinite))));
  EXPECT_TRUE(std::isfinite(widen<TypeParam>(narrow<TypeParam>(std::nextafter(first_infinite, 0.0f)))));
  for (float value : {first_infinite, std::nextafter(first_infinite, 0.0f), 0.0f, 1e-45f, HUGE_VALF,
                      std::numeric_limits<float>::max(), std::numeric_limits<float>::min()}) {
    expect_rounding<TypeParam>(value);
    expect_rounding<TypeParam>(-value);
  }
}

#ifdef __SSE2__
// As PyTorch's set_flush_denormal() lets a thread work.
TEST(Half, KeepsItsSubnormalsWhereThoseOfFloatsAreZero) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flushes results and operands
  int lost = 0;
  for (uint16_t bits = 1; bits < 0x400; ++bits) lost += from_float<Half>(to_float(Half{bits})).bits != bits;
  _mm_setcsr(before);
  EXPECT_EQ(lost, 0);
}
#endif

TEST(DataType, HasTheValuesAndSizesOfTheInterface) {
  for (DataType type : {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64,
                        DataType::int32, DataType::int64}) {
    EXPECT_EQ(size_of(type), aclDataTypeSize(static_cast<aclDataType>(type))) << name_of(type);
  }
  EXPECT_EQ(static_cast<int>(DataType::float32), ACL_FLOAT);
  EXPECT_EQ(static_cast<int>(DataType::float16), ACL_FLOAT16);
  EXPECT_EQ(static_cast<int>(DataType::bfloat16), ACL_BF16);
  EXPECT_EQ(static_cast<int>(DataType::float64), ACL_DOUBLE);
  EXPECT_EQ(static_cast<int>(DataType::int32), ACL_INT32);
  EXPECT_EQ(static_cast<int>(DataType::int64), ACL_INT64);
}

}  // namespace
}  // namespace aclgrad::test
