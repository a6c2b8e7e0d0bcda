// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The types of 8 and 4 bits: every code, and every rounding by the definition of it. Those of 16 bits: that programs can
// use them as numbers; tests/tensor/ compares their conversions with the definition.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <type_traits>
#include <vector>

#include "aclnn/opdev/bfloat16.h"
#include "aclnn/opdev/float4_e2m1.h"
#include "aclnn/opdev/float8_e4m3fn.h"
#include "aclnn/opdev/float8_e8m0.h"
#include "aclnn/opdev/fp16_t.h"
#include "aclnn/opdev/hifloat8.h"

namespace {

template <class Number>
Number with_bits(uint32_t bits) {
  return Number(static_cast<uint8_t>(bits), Number::from_bits());
}

// The finite numbers that are not negative, with their codes.
template <class Number>
std::map<double, uint32_t> numbers(uint32_t codes) {
  std::map<double, uint32_t> all;
  for (uint32_t bits = 0; bits < codes; ++bits) {
    const float number = with_bits<Number>(bits);
    if (std::isfinite(number)) all[number] = bits;
  }
  return all;
}

// Whether the lower one of two neighbours takes their middle.
using LowerTakesMiddle = bool (*)(uint32_t lower_code);

bool even_takes_middle(uint32_t lower_code) {
  return lower_code % 2 == 0;
}

bool upper_takes_middle(uint32_t) {
  return false;
}

// Each number, the middle to the next one, and what lies beside that.
template <class Number>
void expect_nearest(uint32_t codes, LowerTakesMiddle lower_takes_middle) {
  const std::map<double, uint32_t> all = numbers<Number>(codes);
  const auto rounded = [](double number) { return uint32_t{Number(static_cast<float>(number)).value}; };
  for (auto lower = all.begin(), upper = std::next(lower); upper != all.end(); ++lower, ++upper) {
    const auto middle = static_cast<float>((lower->first + upper->first) / 2);
    ASSERT_EQ(static_cast<double>(middle), (lower->first + upper->first) / 2) << "float holds the middle";
    const uint32_t lower_code = lower->second, upper_code = upper->second;
    ASSERT_EQ(rounded(lower->first), lower_code);
    ASSERT_EQ(rounded(std::nextafter(middle, 0.0f)), lower_code) << middle;
    ASSERT_EQ(rounded(std::nextafter(middle, INFINITY)), upper_code) << middle;
    const bool is_lower = lower_takes_middle(lower_code);
    ASSERT_EQ(rounded(middle), is_lower ? lower_code : upper_code) << middle;
  }
  EXPECT_EQ(rounded(all.rbegin()->first), all.rbegin()->second);
}

template <class Number>
void expect_signs(uint32_t codes) {
  for (const auto& [number, code] : numbers<Number>(codes)) {
    if (number == 0) continue;
    EXPECT_EQ(Number(static_cast<float>(-number)).value, codes | code);
    EXPECT_EQ(static_cast<float>(with_bits<Number>(codes | code)), -number);
  }
}

// ---- 8 and 4 bits

TEST(Minifloat, Float8E4M3FN) {
  using op::float8_e4m3fn;
  EXPECT_EQ(numbers<float8_e4m3fn>(128).size(), 127u);
  EXPECT_EQ(with_bits<float8_e4m3fn>(0x01), std::ldexp(1.0f, -9));
  EXPECT_EQ(with_bits<float8_e4m3fn>(0x38), 1.0f);
  EXPECT_EQ(with_bits<float8_e4m3fn>(0x7E), 448.0f);
  EXPECT_TRUE(std::isnan(static_cast<float>(with_bits<float8_e4m3fn>(0x7F))));
  expect_nearest<float8_e4m3fn>(128, even_takes_middle);
  expect_signs<float8_e4m3fn>(128);
  EXPECT_EQ(float8_e4m3fn(464.0f).value, 0x7E);
  for (const float beyond : {465.0f, INFINITY, NAN}) EXPECT_EQ(float8_e4m3fn(beyond).value, 0x7F);
}

TEST(Minifloat, Float4E2M1) {
  using op::float4_e2m1;
  const float expected[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint32_t bits = 0; bits < 8; ++bits) EXPECT_EQ(with_bits<float4_e2m1>(bits), expected[bits]);
  expect_nearest<float4_e2m1>(8, even_takes_middle);
  expect_signs<float4_e2m1>(8);
  for (const float beyond : {7.0f, INFINITY, NAN}) EXPECT_EQ(float4_e2m1(beyond).value, 7);
  EXPECT_EQ(float4_e2m1(-INFINITY).value, 15);
}

TEST(Minifloat, Float8E8M0) {
  using op::float8_e8m0;
  EXPECT_EQ(with_bits<float8_e8m0>(127), 1.0f);
  EXPECT_EQ(with_bits<float8_e8m0>(0), std::ldexp(1.0f, -127));
  expect_nearest<float8_e8m0>(255, even_takes_middle);
  EXPECT_EQ(float8_e8m0(0.0f).value, 0);
  EXPECT_EQ(float8_e8m0(std::numeric_limits<float>::max()).value, 0xFF);
  for (const float none : {-1.0f, INFINITY, NAN}) EXPECT_EQ(float8_e8m0(none).value, 0xFF);
}

TEST(Minifloat, HiFloat8) {
  using op::hifloat8;
  EXPECT_EQ(numbers<hifloat8>(128).size(), 127u);
  const std::map<uint32_t, float> known = {{0x01, std::ldexp(1.0f, -22)},
                                           {0x07, std::ldexp(1.0f, -16)},
                                           {0x08, 1},
                                           {0x18, 0.5f},
                                           {0x20, 4},
                                           {0x6E, 32768},
                                           {0x7E, std::ldexp(1.0f, -15)}};
  for (const auto& [bits, number] : known) EXPECT_EQ(with_bits<hifloat8>(bits), number) << bits;
  EXPECT_EQ(with_bits<hifloat8>(0x6F), INFINITY);
  EXPECT_TRUE(std::isnan(static_cast<float>(with_bits<hifloat8>(0x80))));
  expect_nearest<hifloat8>(128, upper_takes_middle);
  expect_signs<hifloat8>(128);
  EXPECT_EQ(hifloat8(NAN).value, 0x80);
  EXPECT_EQ(hifloat8(-0.0f).value, 0);
  EXPECT_EQ(hifloat8(std::nextafter(40960.0f, 0.0f)).value, 0x6E);
  for (const float beyond : {40960.0f, 65536.0f, 1e30f, INFINITY}) EXPECT_EQ(hifloat8(beyond).value, 0x6F);
  EXPECT_EQ(hifloat8(-INFINITY).value, 0xEF);
}

template <class Number>
void expect_number() {
  static_assert(std::is_trivial_v<Number> && std::is_standard_layout_v<Number> && sizeof(Number) == 1);
  static_assert(!std::is_constructible_v<Number, uint8_t>, "bits or a number?");
  const std::vector<Number> values = {1, 2.0, 4.0f, true};
  EXPECT_EQ(values[0] + values[1] * values[2], 9);
}

TEST(Minifloat, IsUsedAsANumber) {
  expect_number<op::Float8E4M3FN>();
  expect_number<op::Float4E2M1>();
  expect_number<op::Float8E8M0>();
  expect_number<op::HiFloat8>();
}

// ---- 16 bits

template <class Number>
class Float16Test : public testing::Test {};
using Numbers = testing::Types<op::fp16_t, op::bfloat16>;
TYPED_TEST_SUITE(Float16Test, Numbers);

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
  EXPECT_EQ(TypeParam(std::bit_cast<uint16_t>(x), TypeParam::from_bits()), 3);
  x = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isinf(static_cast<float>(x)));
  static_assert(!std::is_constructible_v<TypeParam, uint16_t>, "bits or a number?");
  static_assert(std::is_trivial_v<TypeParam> && std::is_standard_layout_v<TypeParam> && sizeof x == 2);
}

}  // namespace
