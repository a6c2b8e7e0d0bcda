// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The 16-bit floats against their definition in double precision.
#include "base/data_type.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "acl/acl.h"

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
constexpr Layout16 layout_of<BFloat16>{8, 7};

template <class T>
double definition_of(uint16_t bits) {
  const Layout16 layout = layout_of<T>;
  const int mantissa_range = 1 << layout.mantissa_bits;
  const int mantissa = bits % mantissa_range;
  const int exponent = bits / mantissa_range % (1 << layout.exponent_bits);
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
  const float actual = to_float(from_float<T>(value));
  if (std::isnan(value)) {
    ASSERT_TRUE(std::isnan(actual)) << std::hexfloat << value;
    return;
  }
  const double expected = round_by_definition<T>(static_cast<double>(value));
  ASSERT_EQ(static_cast<double>(actual), expected) << std::hexfloat << value;
  ASSERT_EQ(std::signbit(actual), std::signbit(value)) << std::hexfloat << value;
}

template <class T>
class Float16Bits : public testing::Test {};
using Types = testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(Float16Bits, Types);

TYPED_TEST(Float16Bits, EveryValueWidensExactlyAndComesBack) {
  for (uint32_t i = 0; i <= 0xFFFF; ++i) {
    const TypeParam value{static_cast<uint16_t>(i)};
    const float widened = to_float(value);
    const double expected = definition_of<TypeParam>(value.bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(widened)) << i;
      const uint16_t quiet_bit = static_cast<uint16_t>(1 << (layout_of<TypeParam>.mantissa_bits - 1));
      ASSERT_EQ(from_float<TypeParam>(widened).bits, value.bits | quiet_bit) << i;
      continue;
    }
    ASSERT_EQ(static_cast<double>(widened), expected) << i;
    ASSERT_EQ(std::signbit(widened), (value.bits & 0x8000) != 0) << i;
    ASSERT_EQ(from_float<TypeParam>(widened).bits, value.bits) << i;
  }
}

TYPED_TEST(Float16Bits, TiesAndTheirNeighboursRoundToNearestEven) {
  for (uint32_t i = 0; i < 0x7FFF; ++i) {
    const double low = definition_of<TypeParam>(static_cast<uint16_t>(i));
    const double high = definition_of<TypeParam>(static_cast<uint16_t>(i + 1));
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
  EXPECT_TRUE(std::isinf(to_float(from_float<TypeParam>(first_infinite))));
  EXPECT_TRUE(std::isfinite(to_float(from_float<TypeParam>(std::nextafter(first_infinite, 0.0f)))));
  for (float value :
       {0.0f, 1e-45f, HUGE_VALF, std::numeric_limits<float>::max(), std::numeric_limits<float>::min()}) {
    expect_rounding<TypeParam>(value);
    expect_rounding<TypeParam>(-value);
  }
}

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
