// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Which rows make up which group.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "aclgrad/grouped_bias_add.h"
#include "base/data_type.h"

namespace aclgrad::ops::grouped_bias_add {

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
