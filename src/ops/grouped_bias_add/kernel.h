// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The kernel behind the C and the C++ interface; base/kernel.h says what each function must do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "aclgrad/grouped_bias_add.h"
#include "base/data_type.h"
#include "base/divide.h"
#include "base/kernel.h"

ACLGRAD_DECLARE_KERNEL(grouped_bias_add, GroupedBiasAddBackward)
ACLGRAD_DECLARE_KERNEL(grouped_bias_add, GroupedBiasAddDoubleBackward)

namespace aclgrad::ops::grouped_bias_add {

// Elements from one row of grad_output to the next.
constexpr int64_t row_stride_of(const GroupedBiasAddBackward& problem) {
  return problem.has_equal_groups() ? problem.grad_output.stride(1) : problem.grad_output.stride(0);
}

// As many tiles as groups can have that do not overlap.
inline int64_t tile_capacity(const GroupedBiasAddBackward& problem, int64_t rows_per_tile) {
  const int64_t tiles = divide_up(problem.rows(), rows_per_tile);
  if (problem.has_equal_groups()) return problem.groups() * std::max<int64_t>(1, tiles);
  return problem.groups() + tiles;
}

template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_same_v<T, double>) {
    return a + b;
  } else {
    return from_float<T>(to_float(a) + to_float(b));
  }
}

struct Rows {
  int64_t begin;
  int64_t end;

  int64_t size() const { return end - begin; }
};

// Reads the groups one after the other, whatever the index array holds. Without one, each has all the rows of its own.
class GroupReader {
 public:
  GroupReader(const ConstTensor& group_idx, GroupKind kind, int64_t rows)
      : group_idx_(group_idx), kind_(kind), rows_(rows) {}

  Rows next() {
    if (!group_idx_.defined()) return {0, rows_};
    const int64_t start = end_;
    end_ = index_at(group_idx_, group_++);
    if (kind_ == GroupKind::counts && __builtin_add_overflow(start, end_, &end_)) {
      end_ = start < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
    }
    const int64_t begin = std::clamp<int64_t>(start, 0, rows_);
    return {begin, std::max(begin, std::clamp<int64_t>(end_, 0, rows_))};
  }

 private:
  ConstTensor group_idx_;
  GroupKind kind_;
  int64_t rows_;
  int64_t group_ = 0;
  int64_t end_ = 0;  // as given, not clamped
};

}  // namespace aclgrad::ops::grouped_bias_add
