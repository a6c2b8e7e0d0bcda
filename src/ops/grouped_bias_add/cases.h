// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The problems that the tests hold against the reference, on every kind of device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/grouped_bias_add/reference.h"
#include "support/values.h"

namespace aclgrad::test::grouped_bias_add_cases {

// The rows of each group as the reference reads them: [idx[g-1], idx[g]), clamped. Sums of counts stay in int64, and are
// exact in long double.
inline std::vector<reference::GroupRange> ranges_of(const std::vector<double>& group_idx, int64_t type,
                                                    int64_t rows) {
  std::vector<reference::GroupRange> ranges;
  long double end = 0;
  for (double value : group_idx) {
    const long double start = end, limit = static_cast<long double>(rows);
    end = type == 0 ? value : std::clamp(start + value, -0x1p63L, 0x1p63L - 1);
    ranges.push_back({static_cast<int64_t>(std::clamp(start, 0.0L, limit)),
                      static_cast<int64_t>(std::clamp(end, 0.0L, limit))});
  }
  return ranges;
}

struct Case {
  int64_t rows;
  int64_t columns;
  std::vector<double> group_idx;
  int64_t group_idx_type;
};

inline std::vector<double> multiples_of(int64_t step, int64_t count) {
  std::vector<double> multiples;
  for (int64_t i = 1; i <= count; ++i) multiples.push_back(static_cast<double>(i * step));
  return multiples;
}

inline const Case kCases[] = {
    {1, 1, {1}, 0},
    {7, 3, {2, 2, 7}, 0},
    // More groups than a GPU's block has threads, as counts and as ends.
    {600, 5, std::vector<double>(300, 2), 1},
    {1200, 3, multiples_of(4, 300), 0},
    {100, 31, {40, 60, 100}, 0},
    {100, 127, {40, 20, 40}, 1},
    {600, 64, {513, 600}, 0},
    {1025, 17, {0, 1025}, 0},
    {2000, 1100, {3, 1999}, 0},
    {9000, 5, {9000}, 0},
    {9000, 33, {100, 8600, 0, 200}, 1},
    // Contents that no program should send: they must do no harm.
    {50, 16, {30, 10, 60}, 0},
    {50, 16, {-5, 20, 1e18}, 0},
    {50, 16, {9.2e18, 9.2e18, -3}, 1},
    {1500, 16, {1500, 0, 1500, 0, 1500, 0, 1500, 0, 1500}, 0},
};

}  // namespace aclgrad::test::grouped_bias_add_cases
