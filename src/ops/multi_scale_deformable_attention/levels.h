// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The levels of value, as the caller's index arrays describe them, whatever these hold.
#pragma once

#include <algorithm>
#include <cstdint>

#include "aclgrad/multi_scale_deformable_attention.h"
#include "base/data_type.h"

namespace aclgrad::ops::multi_scale_deformable_attention {

struct RowRange {
  int64_t begin;
  int64_t end;
};

struct Level {
  int64_t height;
  int64_t width;
  int64_t start;  // row of pixel (0, 0)

  Level(const MultiScaleDeformableSampling& problem, int64_t index)
      : height(index_at(problem.spatial_shapes, 2 * index)),
        width(index_at(problem.spatial_shapes, 2 * index + 1)),
        start(index_at(problem.level_start_index, index)) {}

  bool empty() const { return height <= 0 || width <= 0; }

  // The rows of [0, rows) in which pixels of a level lie that is not empty.
  RowRange rows_inside(int64_t rows) const {
    const __int128 end = start + static_cast<__int128>(height) * width;
    return {std::clamp<int64_t>(start, 0, rows), static_cast<int64_t>(std::clamp<__int128>(end, 0, rows))};
  }

  // True where all pixels lie in [0, rows), and columns, lines and rows are exact in 32-bit integers and in
  // floats.
  bool is_regular(int64_t rows) const {
    constexpr int64_t kMaxSide = int64_t{1} << 24;
    constexpr int64_t kMaxRows = int64_t{1} << 30;
    return !empty() && height <= kMaxSide && width <= kMaxSide && rows <= kMaxRows && start >= 0 &&
           start <= rows && height * width <= rows - start;
  }
};

}  // namespace aclgrad::ops::multi_scale_deformable_attention
