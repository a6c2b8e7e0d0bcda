// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The problems that the tests hold against the reference, on every kind of device.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/multi_scale_deformable_attention/reference.h"
#include "support/values.h"

namespace aclgrad::test::multi_scale_deformable_attention_cases {

using Reference = reference::MultiScaleDeformableAttention;

inline Shape value_shape(const Reference& r) {
  return {r.batches, r.rows, r.heads, r.channels};
}
inline Shape location_shape(const Reference& r) {
  return {r.batches, r.queries, r.heads, r.levels, r.points, 2};
}
inline Shape attention_shape(const Reference& r) {
  return {r.batches, r.queries, r.heads, r.levels, r.points};
}
inline Shape query_shape(const Reference& r, bool joined) {
  if (joined) return {r.batches, r.queries, r.heads * r.channels};
  return {r.batches, r.queries, r.heads, r.channels};
}

struct Sizes {
  int64_t batches;
  int64_t heads;
  int64_t channels;
  int64_t queries;
  int64_t points;
  std::vector<int64_t> spatial_shape;  // height, width of each level
};

// A problem with levels one after the other and random values of the type; a fifth of the points lies
// outside.
inline Reference random_problem(const Sizes& s, DataType type) {
  Reference r{s.batches, 0, s.heads, s.channels, s.queries, static_cast<int64_t>(s.spatial_shape.size()) / 2,
              s.points};
  r.spatial_shape = s.spatial_shape;
  for (size_t l = 0; l < static_cast<size_t>(r.levels); ++l) {
    r.level_start_index.push_back(r.rows);
    r.rows += s.spatial_shape[2 * l] * s.spatial_shape[2 * l + 1];
  }
  const auto random = [&](const Shape& shape, double low, double high, uint32_t seed) {
    return rounded(uniform(element_count(shape), low, high, seed), type);
  };
  r.value = random(value_shape(r), -5, 5, 1);
  r.location = random(location_shape(r), -0.1, 1.1, 2);
  r.attention_weight = random(attention_shape(r), 0, 1, 3);
  r.grad_output = random(query_shape(r, false), -5, 5, 4);
  r.grad_grad_value = random(value_shape(r), -2, 2, 5);
  r.grad_grad_location = random(location_shape(r), -2, 2, 6);
  r.grad_grad_attention_weight = random(attention_shape(r), -2, 2, 7);
  return r;
}

inline const Sizes kCases[] = {
    {1, 1, 8, 1, 1, {1, 1}},
    {2, 3, 16, 7, 3, {5, 4, 3, 2}},
    {1, 2, 32, 33, 4, {8, 16, 4, 8, 2, 4, 1, 2}},
    {2, 1, 64, 31, 2, {15, 7}},
    {1, 3, 24, 40, 4, {7, 7, 3, 3}},
    {1, 1, 256, 9, 5, {4, 3, 2, 2}},
    {1, 2, 128, 5, 1, {1, 31}},
    {3, 16, 40, 6, 7, {3, 5, 2, 1, 1, 1}},
    {1, 1, 32, 300, 16, {9, 9, 5, 5, 3, 3, 2, 2, 1, 1, 4, 4, 2, 3, 3, 2, 1, 7, 7, 1, 2, 2, 1, 3}},
    {1, 2, 32, 2, 1, {40, 30}},                          // most rows are never sampled
    {1, 1, 16, 600, 8, {4, 4}},                          // the queries come in pieces
    {1, 1, 8, 513, 13, {2, 3, 3, 1, 1, 1, 2, 2, 2, 1}},  // more points than a block
};

}  // namespace aclgrad::test::multi_scale_deformable_attention_cases
