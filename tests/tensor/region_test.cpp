// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Overlap of strided regions against their bytes, one by one.
#include "tensor/region.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace aclgrad {
namespace {

const std::byte* const base = reinterpret_cast<const std::byte*>(uintptr_t{1} << 20);

struct View {
  int64_t offset;
  int64_t shape[3];
  int64_t strides[3];

  Region region() const { return Region::strided(base + 4 * offset, 4, 3, shape, strides); }

  std::set<int64_t> bytes() const {
    std::set<int64_t> all;
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < shape[1]; ++j)
        for (int64_t k = 0; k < shape[2]; ++k)
          for (int64_t byte = 0; byte < 4; ++byte)
            all.insert(4 * (offset + i * strides[0] + j * strides[1] + k * strides[2]) + byte);
    return all;
  }
};

bool share_a_byte(const std::set<int64_t>& first, const std::set<int64_t>& second) {
  for (int64_t byte : first) {
    if (second.count(byte) > 0) return true;
  }
  return false;
}

class Regions : public testing::Test {
 protected:
  int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(generator_);
  }

  // Also with overlapping and backward rows, broadcast axes and no elements.
  View view() {
    View view{number(0, 60), {}, {}};
    for (int axis = 0; axis < 3; ++axis) {
      view.shape[axis] = number(axis == 0 ? 0 : 1, 5);
      view.strides[axis] = number(-12, 12);
    }
    return view;
  }

 private:
  std::mt19937 generator_{7};
};

TEST_F(Regions, OverlapWhereTheyShareAByte) {
  int overlapping = 0;
  for (int round = 0; round < 3000; ++round) {
    const View first = view();
    const View second = view();
    const bool expected = share_a_byte(first.bytes(), second.bytes());
    overlapping += expected ? 1 : 0;
    ASSERT_EQ(overlap(first.region(), second.region()), expected) << "round " << round;
  }
  EXPECT_GT(overlapping, 300);
  EXPECT_LT(overlapping, 2700);
}

TEST_F(Regions, TouchARangeWhereAByteLiesInIt) {
  for (int round = 0; round < 3000; ++round) {
    const View strided = view();
    const int64_t begin = number(0, 400);
    const int64_t end = begin + number(1, 20);
    const std::set<int64_t> bytes = strided.bytes();
    const auto at_or_after = bytes.lower_bound(begin);
    const bool expected = at_or_after != bytes.end() && *at_or_after < end;
    ASSERT_EQ(strided.region().touches(base + begin, base + end), expected) << "round " << round;
  }
}

TEST_F(Regions, EvenAndOddColumnsAreApart) {
  const View even{0, {1, 1000, 500}, {0, 1000, 2}};
  const View odd{1, {1, 1000, 500}, {0, 1000, 2}};
  EXPECT_FALSE(overlap(even.region(), odd.region()));
  EXPECT_TRUE(overlap(even.region(), even.region()));
  const View many{0, {1, 3000, 3000}, {0, 6000, 2}}, others{1, {1, 3000, 3000}, {0, 6000, 2}};
  EXPECT_FALSE(overlap(many.region(), others.region(), true)) << "however many there are";
}

TEST_F(Regions, ASearchThatTakesLongEndsAsTold) {
  // No sum of these strides ends with a 5, near which very many come.
  const int64_t shape[] = {8192, 8192, 8192, 2}, strides[] = {40970, 40960, 40950, 3};
  const Region dense = Region::strided(base, 4, 4, shape, strides);
  const Region between = Region::contiguous(base + 4 * int64_t{300'000'005}, 4);
  EXPECT_TRUE(dense.touches(between.start, between.end()));
  EXPECT_TRUE(overlap(dense, between, true));
  EXPECT_FALSE(overlap(dense, between, false));
}

}  // namespace
}  // namespace aclgrad
