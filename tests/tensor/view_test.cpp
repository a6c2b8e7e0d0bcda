// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Packing and unpacking of strided views against a plain loop over their elements.
#include "tensor/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace aclgrad::test {
namespace {

// A view in storage of its own, whose bytes are all different as far as that goes.
struct Sample {
  TensorView view;
  std::vector<std::byte> storage;

  Sample(DataType type, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
         int64_t offset = 0) {
    view.type = type;
    view.rank = static_cast<int>(shape.size());
    view.offset = offset;
    int64_t elements = offset + 1;
    for (size_t i = 0; i < shape.size(); ++i) {
      view.shape[i] = shape[i];
      view.strides[i] = strides[i];
      if (shape[i] > 1) elements += (shape[i] - 1) * strides[i];
    }
    storage.resize(static_cast<size_t>(elements) * size_of(type));
    std::mt19937 engine(7);
    for (std::byte& byte : storage) byte = static_cast<std::byte>(engine());
    view.base = storage.data();
  }

  // Where each element lies in the storage, in bytes, in row-major order.
  std::vector<size_t> places() const {
    std::vector<size_t> places(static_cast<size_t>(view.size()));
    for (size_t index = 0; index < places.size(); ++index) {
      auto rest = static_cast<int64_t>(index);
      int64_t element = view.offset;
      for (auto axis = static_cast<size_t>(view.rank); axis-- > 0;) {
        element += rest % view.shape[axis] * view.strides[axis];
        rest /= view.shape[axis];
      }
      places[index] = static_cast<size_t>(element) * size_of(view.type);
    }
    return places;
  }

  bool repeats_elements() const {
    const auto rank = static_cast<size_t>(view.rank);
    return aclgrad::repeats_elements(std::span(view.shape).first(rank), std::span(view.strides).first(rank));
  }
};

void expect_pack_and_unpack(Sample& sample, const std::string& what) {
  const size_t element = size_of(sample.view.type);
  const std::vector<size_t> places = sample.places();

  std::vector<std::byte> expected(places.size() * element);
  for (size_t i = 0; i < places.size(); ++i) {
    std::memcpy(expected.data() + i * element, sample.storage.data() + places[i], element);
  }
  std::vector<std::byte> packed(expected.size());
  run_kernel(Packing{sample.view, packed.data()}, nullptr);
  ASSERT_TRUE(packed == expected) << "pack " << what;
  if (sample.repeats_elements()) return;

  std::mt19937 engine(8);
  for (std::byte& byte : packed) byte = static_cast<std::byte>(engine());
  std::vector<std::byte> target = sample.storage;
  for (size_t i = 0; i < places.size(); ++i) {
    std::memcpy(target.data() + places[i], packed.data() + i * element, element);
  }
  run_kernel(Unpacking{packed.data(), sample.view}, nullptr);
  ASSERT_TRUE(sample.storage == target) << "unpack " << what;

  for (size_t place : places) std::memset(target.data() + place, 0, element);
  run_kernel(Unpacking{nullptr, sample.view}, nullptr);
  ASSERT_TRUE(sample.storage == target) << "zeros in " << what;
}

constexpr DataType kTypes[] = {DataType::float16, DataType::float32, DataType::int64};

void expect_for_all_types(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                          int64_t offset = 0) {
  for (DataType type : kTypes) {
    Sample sample(type, shape, strides, offset);
    expect_pack_and_unpack(sample, std::string(name_of(type)) + " shape " + format_shape(shape) +
                                       " strides " + format_shape(strides));
  }
}

TEST(View, PacksNamedLayouts) {
  expect_for_all_types({}, {});
  expect_for_all_types({}, {}, 5);
  expect_for_all_types({1}, {7});
  expect_for_all_types({1, 1}, {INT64_MAX, INT64_MIN});
  expect_for_all_types({9}, {3}, 2);
  expect_for_all_types({10000}, {1});
  expect_for_all_types({10000}, {2});
  expect_for_all_types({3, 5000}, {5000, 1});
  expect_for_all_types({3, 5000}, {5003, 1}, 1);
  expect_for_all_types({1, 7, 1, 5}, {99, 5, 99, 1});
  expect_for_all_types({2, 3, 4, 5, 2, 3, 2, 2}, {720, 240, 60, 12, 6, 2, 1, 1440});
}

TEST(View, PacksTransposedLayouts) {
  expect_for_all_types({300, 200}, {1, 300});
  expect_for_all_types({300, 200}, {2, 607}, 3);
  expect_for_all_types({129, 1}, {1, 129});
  expect_for_all_types({1000, 2}, {1, 1000});
  expect_for_all_types({2, 1000}, {1, 2});
  expect_for_all_types({4, 70, 9, 11}, {70 * 99, 1, 770, 70});
  expect_for_all_types({40, 30, 20}, {1, 40, 1200});
  expect_for_all_types({2000, 4, 2}, {8, 1, 4});
  // Large enough for several threads.
  expect_for_all_types({700, 900}, {1, 703});
  expect_for_all_types({3, 500, 2, 201}, {201000, 1, 100500, 500});
}

TEST(View, PacksRepeatedElements) {
  expect_for_all_types({300, 200}, {0, 1});
  expect_for_all_types({300, 200}, {1, 0});
  expect_for_all_types({300, 200}, {0, 0});
  expect_for_all_types({500, 400}, {1, 1});
  expect_for_all_types({500, 400}, {1, 100});
  expect_for_all_types({50, 3, 60}, {64, 0, 1});
  expect_for_all_types({100, 60}, {0, 64});
  expect_for_all_types({700, 900}, {0, 1});
  expect_for_all_types({700, 900}, {2, 3});
}

TEST(View, ReadsAndWritesNothingOfAnEmptyView) {
  TensorView view;
  view.rank = 3;
  view.shape = {4, 0, 3};
  view.strides = {1, 2, 3};
  run_kernel(Packing{view, nullptr}, nullptr);
  run_kernel(Unpacking{nullptr, view}, nullptr);
  EXPECT_TRUE(view.empty());
  EXPECT_EQ(view.bytes(), 0);
}

TEST(View, PacksRandomLayouts) {
  std::mt19937 engine(42);
  const auto random = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  };
  for (int round = 0; round < 1500; ++round) {
    const auto rank = static_cast<size_t>(random(0, 8));
    std::vector<size_t> order(rank);
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), engine);
    std::vector<int64_t> shape(rank);
    std::vector<int64_t> strides(rank);
    const int64_t largest = rank <= 2 ? 150 : rank <= 4 ? 17 : 4;
    int64_t step = random(1, 3);
    for (size_t axis : order) {
      shape[axis] = random(1, largest);
      strides[axis] = random(0, 9) == 0 ? 0 : step;
      step = std::max<int64_t>(1, step * shape[axis] + (random(0, 2) == 0 ? random(0, 5) : 0));
    }
    ASSERT_NO_FATAL_FAILURE(expect_for_all_types(shape, strides, random(0, 3)));
  }
}

TEST(View, RepeatsElementsWhereTwoHaveOneAddress) {
  std::mt19937 engine(7);
  const auto random = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  };
  int repeating = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<int64_t> shape, strides;
    for (int64_t rank = random(0, 4); rank > 0; --rank) {
      shape.push_back(random(round % 20 == 0 ? 0 : 1, 5));
      strides.push_back(random(0, round % 3 == 0 ? 12 : 60));
    }
    const Sample sample(DataType::float16, shape, strides);
    const std::vector<size_t> places = sample.places();
    const bool expected = std::set<size_t>(places.begin(), places.end()).size() < places.size();
    ASSERT_EQ(sample.repeats_elements(), expected) << format_shape(shape) << format_shape(strides);
    repeating += expected ? 1 : 0;
  }
  EXPECT_GT(repeating, 600);
  EXPECT_LT(repeating, 2400);
  const std::vector<int64_t> shape{4, 1, 3}, back{-3, 99, -1}, meeting{-2, 99, -1};
  EXPECT_FALSE(repeats_elements(shape, back));
  EXPECT_TRUE(repeats_elements(shape, meeting));
  constexpr int64_t kFar = int64_t{1} << 34;
  const std::vector<int64_t> long_to_find_out{kFar, kFar - 1, kFar - (1 << 17)};
  EXPECT_TRUE(repeats_elements(std::vector<int64_t>(3, 1 << 17), long_to_find_out));
}

TEST(View, DoesNotNeedAlignedMemory) {
  Sample sample(DataType::float32, {50, 60}, {1, 50});
  std::vector<std::byte> shifted(sample.storage.size() + 1);
  std::copy(sample.storage.begin(), sample.storage.end(), shifted.begin() + 1);
  TensorView view = sample.view;
  view.base = shifted.data() + 1;
  std::vector<std::byte> expected(static_cast<size_t>(view.bytes()));
  std::vector<std::byte> packed(expected.size() + 1);
  run_kernel(Packing{sample.view, expected.data()}, nullptr);
  run_kernel(Packing{view, packed.data() + 1}, nullptr);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), packed.begin() + 1));
}

TEST(View, IsContiguousWhateverTheStridesOfSingleElements) {
  const auto is_contiguous = [](const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
    TensorView view;
    view.rank = static_cast<int>(shape.size());
    std::copy(shape.begin(), shape.end(), view.shape.begin());
    std::copy(strides.begin(), strides.end(), view.strides.begin());
    return view.is_contiguous();
  };
  EXPECT_TRUE(is_contiguous({}, {}));
  EXPECT_TRUE(is_contiguous({2, 3}, {3, 1}));
  EXPECT_TRUE(is_contiguous({2, 1, 3}, {3, 77, 1}));
  EXPECT_TRUE(is_contiguous({1, 1}, {5, 9}));
  EXPECT_TRUE(is_contiguous({0, 3}, {9, 9}));
  EXPECT_FALSE(is_contiguous({2, 3}, {1, 2}));
  EXPECT_FALSE(is_contiguous({2, 3}, {4, 1}));
  EXPECT_FALSE(is_contiguous({2, 3}, {0, 1}));
  EXPECT_FALSE(is_contiguous({3}, {2}));
}

TEST(View, FormatsAShape) {
  const std::vector<int64_t> shape{2, 3};
  EXPECT_EQ(format_shape(shape), "[2, 3]");
  EXPECT_EQ(format_shape(std::vector<int64_t>()), "[]");
}

}  // namespace
}  // namespace aclgrad::test
