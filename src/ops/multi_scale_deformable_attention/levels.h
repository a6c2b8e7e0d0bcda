// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The levels of value, as the caller's index arrays describe them, whatever these hold.
#pragma once

#include <algorithm>
#include <cmath>
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

  // The row of a pixel, or -1 where that is none of the level's, or none of value's.
  int64_t row_of(int64_t line, int64_t column, int64_t rows) const {
    if (column < 0 || column >= width || line < 0 || line >= height) return -1;
    const __int128 row = static_cast<__int128>(line) * width + column + start;
    return row >= 0 && row < rows ? static_cast<int64_t>(row) : -1;
  }
};

// Where a location lies in a level: between columns `left` and left + 1, and lines `top` and top + 1.
template <class Real>
struct LevelPoint {
  bool counts;  // or else it reads nothing
  Real left = 0;
  Real top = 0;
  Real x_fraction = 0;  // from `left`
  Real y_fraction = 0;

  LevelPoint(const Level& level, const Real* location) {
    const auto width = static_cast<Real>(level.width);
    const auto height = static_cast<Real>(level.height);
    const Real x = location[0] * width - Real(0.5);
    const Real y = location[1] * height - Real(0.5);
    counts = !level.empty() && x > -1 && y > -1 && x < width && y < height;
    if (!counts) return;
    left = std::floor(x);
    top = std::floor(y);
    x_fraction = x - left;
    y_fraction = y - top;
  }
};

}  // namespace aclgrad::ops::multi_scale_deformable_attention
