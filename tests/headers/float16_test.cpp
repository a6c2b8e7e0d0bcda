// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// op::fp16_t and op::bfloat16, for all bits and at every tie, against the conversions of the library.
#include "aclnn/opdev/bfloat16.h"
#include "aclnn/opdev/fp16_t.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/data_type.h"

namespace aclgrad {
namespace {

template <class Number>
struct Bits;
template <>
struct Bits<op::fp16_t> {
  using Ours = Half;
  static constexpr uint16_t kInfinity = 0x7C00, kQuiet = 0x0200;
  static uint16_t of(op::fp16_t number) { return number.val; }
};
template <>
struct Bits<op::bfloat16> {
  using Ours = BFloat16;
  static constexpr uint16_t kInfinity = 0x7F80, kQuiet = 0x0040;
  static uint16_t of(op::bfloat16 number) { return number.value; }
};

template <class Number>
Number with_bits(uint32_t bits) {
  return Number(static_cast<uint16_t>(bits), Number::from_bits());
}

template <class Number>
class Float16Test : public testing::Test {};
using Numbers = testing::Types<op::fp16_t, op::bfloat16>;
TYPED_TEST_SUITE(Float16Test, Numbers);

TYPED_TEST(Float16Test, IsPlainMemory) {
  EXPECT_EQ(sizeof(TypeParam), 2u);
  EXPECT_TRUE(std::is_trivial_v<TypeParam> && std::is_standard_layout_v<TypeParam>);
}

TYPED_TEST(Float16Test, AllBitsGoToFloatAndBack) {
  using B = Bits<TypeParam>;
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float wide = with_bits<TypeParam>(bits);
    const float expected = to_float(typename B::Ours{static_cast<uint16_t>(bits)});
    ASSERT_EQ(std::bit_cast<uint32_t>(wide), std::bit_cast<uint32_t>(expected)) << std::hex << bits;
    const bool is_nan = (bits & 0x7FFF) > B::kInfinity;
    ASSERT_EQ(std::isnan(wide), is_nan);
    ASSERT_EQ(B::of(TypeParam(wide)), is_nan ? bits | B::kQuiet : bits) << std::hex << bits;
  }
}

// Around each number, the middle to the next one, and what lies beside it: the definition of rounding, not of bits.
TYPED_TEST(Float16Test, RoundsToNearestEven) {
  using B = Bits<TypeParam>;
  for (uint32_t bits = 0; bits < B::kInfinity; ++bits) {
    const double here = with_bits<TypeParam>(bits);
    const double below = with_bits<TypeParam>(bits - (bits > 0));
    const double next =
        bits + 1 < B::kInfinity ? static_cast<double>(with_bits<TypeParam>(bits + 1)) : here + (here - below);
    const auto middle = static_cast<float>((here + next) / 2);
    ASSERT_EQ(static_cast<double>(middle), (here + next) / 2) << "float holds the middle";
    const uint32_t even = bits + (bits & 1);
    for (const uint32_t sign : {0u, 0x8000u}) {
      const float signed_middle = sign == 0 ? middle : -middle;
      ASSERT_EQ(B::of(TypeParam(signed_middle)), sign | even) << std::hex << bits;
      const float towards_zero = std::nextafter(signed_middle, 0.0f);
      ASSERT_EQ(B::of(TypeParam(towards_zero)), sign | bits) << std::hex << bits;
      const float away = std::nextafter(signed_middle, sign == 0 ? INFINITY : -INFINITY);
      ASSERT_EQ(B::of(TypeParam(away)), sign | (bits + 1)) << std::hex << bits;
    }
  }
}

TYPED_TEST(Float16Test, AgreesWithTheLibraryOnFloatsOfEverySize) {
  using B = Bits<TypeParam>;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4093) {
    const float number = std::bit_cast<float>(static_cast<uint32_t>(bits));
    ASSERT_EQ(B::of(TypeParam(number)), from_float<typename B::Ours>(number).bits) << std::hex << bits;
  }
}

TYPED_TEST(Float16Test, IsUsedAsANumber) {
  TypeParam x = 1.5, y(2);
  const std::vector<TypeParam> values = {1, -2, 0.25f, x, true}, ones(3, 1);
  EXPECT_EQ(values[1], -2);
  EXPECT_EQ(ones[2], 1.0);
  EXPECT_EQ(static_cast<int>(x * y), 3);
  EXPECT_EQ(x + 1.0f, 2.5f);
  EXPECT_LT(x, y);
  x += y;
  x *= 2;
  x -= 1;
  x /= y;
  EXPECT_EQ(x, 3);
  const double wide = x;
  EXPECT_EQ(wide, 3);
  EXPECT_EQ(static_cast<float>(-x), -3);
  x = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isinf(static_cast<float>(x)));
  static_assert(!std::is_constructible_v<TypeParam, uint16_t>, "bits or a number?");
}

}  // namespace
}  // namespace aclgrad
