// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The problems that the tests hold against the reference, on every kind of device.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/nsa_compress/reference.h"
#include "support/values.h"

namespace aclgrad::test::nsa_compress_cases {

using reference::NsaSizes;

inline int64_t tokens_of(const NsaSizes& sizes) {
  return sizes.sequence_ends.back();
}

inline int64_t windows_of(const NsaSizes& sizes) {
  return static_cast<int64_t>(reference::window_starts(sizes).size());
}

// What the operator, its gradient and that gradient's gradient read, rounded to a type.
struct Values {
  Values(const NsaSizes& sizes, DataType type) {
    const int64_t row = sizes.heads * sizes.channels;
    const auto random = [&](int64_t count, double largest, uint32_t seed) {
      return rounded(uniform(count, -largest, largest, seed), type);
    };
    input = random(tokens_of(sizes) * row, 5, 1);
    weight = random(sizes.block * sizes.heads, 1, 2);
    output_grad = random(windows_of(sizes) * row, 5, 3);
    input_grad_grad = random(tokens_of(sizes) * row, 5, 4);
    weight_grad_grad = random(sizes.block * sizes.heads, 1, 5);
  }

  std::vector<double> input, weight, output_grad, input_grad_grad, weight_grad_grad;
};

// heads, channels, block, stride, ends
inline const NsaSizes kDocumentedSizes[] = {
    {1, 16, 16, 16, {16}},
    {4, 128, 32, 16, {500}},
    {1, 128, 32, 16, {2047}},
    {3, 48, 32, 32, {33, 33, 100}},
    {1, 64, 32, 16, {0, 31, 63, 64, 96, 96, 300, 310}},
    {2, 272, 64, 16, {10, 300, 331, 700}},
    {5, 16, 128, 16, {129, 400, 1000}},
    {2, 32, 48, 32, {127, 128, 511}},
    {130, 16, 16, 16, {15, 63}},
    {2, 16, 272, 16, {271, 900}},
};

inline std::vector<int64_t> multiples_of(int64_t step, int64_t count) {
  std::vector<int64_t> multiples;
  for (int64_t i = 1; i <= count; ++i) multiples.push_back(i * step);
  return multiples;
}

// heads, channels, block, stride, ends
inline const NsaSizes kAnySizes[] = {
    {1, 1, 1, 1, {1}},
    {2, 7, 1, 1, {9}},
    {1, 3, 2, 1, multiples_of(3, 300)},  // more sequences than a GPU's block has threads
    {3, 31, 5, 3, {1, 4, 5, 13, 40}},
    {2, 15, 3, 7, {2, 50, 53}},  // gaps between windows
    {1, 17, 2, 1000, {1, 1500, 3000}},
    {2, 33, 100, 1, {99, 350}},  // 100 windows over each token
    {3, 257, 9, 2, {300}},
    {1, 300, 7, 1, {64}},
    {2, 64, 300, 17, {1000}},  // a block larger than a task
    {5, 127, 31, 15, {63, 126, 511}},
    {2, 16, 1023, 511, {4000}},
    // One window a sequence, whatever the stride.
    {3, 48, 32, int64_t{1} << 40, {0, 31, 63, 700, 1000}},
    {3, 48, 32, (int64_t{1} << 53) - 1, {0, 31, 63, 700, 1000}},
};

}  // namespace aclgrad::test::nsa_compress_cases
