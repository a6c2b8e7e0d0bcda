// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The levels of value, as the caller's index arrays describe them, whatever these hold; and one head of one batch, the unit
// that the kernels work on: its rows of value lie far apart in the tensor, and are copied to a plane where they lie side by
// side as soon as there are enough points to sample.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "aclgrad/multi_scale_deformable_attention.h"

#include "base/caches.h"
#include "base/data_type.h"
#include "base/divide.h"

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

// Channels are taken 16 at a time.
inline constexpr int64_t kChunkChannels = 16;

inline int64_t chunks_of(int64_t channels) {
  return divide_up(channels, kChunkChannels);
}

// The rows of a head, in the tensor or in a plane. Readable in whole chunks, with zeros after the last channel.
struct HeadRows {
  const void* first;
  int64_t stride;  // elements from row to row
};

// What one call of a kernel works on.
struct HeadTask {
  int64_t batch;
  int64_t head;
  int64_t first_query;
  int64_t last_query;  // one past it, as below
  int64_t first_level;
  int64_t last_level;
  HeadRows value;
  HeadRows grad_grad_value;  // without data where none is given
  int64_t outside = -1;  // the row that pixels outside have: none, or one of zeros, behind those of a plane
};

// A task of a head, which is numbered over all batches; the rest is to be set.
inline HeadTask task_of_head(const MultiScaleDeformableSampling& problem, int64_t head) {
  HeadTask task{};
  task.batch = head / problem.heads();
  task.head = head % problem.heads();
  return task;
}

// Consecutive elements that lie `stride` apart from query to query, or from row to row.
template <class T>
struct Runs {
  T* first;  // of query 0
  int64_t stride;
  int64_t length;

  T* of(int64_t query) const { return first + query * stride; }
  explicit operator bool() const { return first != nullptr; }
};

// The part [begin, begin + length) of a head's blocks.
template <class T, class Void>
auto runs_of(const BasicTensor<Void>& tensor, const HeadTask& task, int64_t begin, int64_t length) {
  using Element = std::conditional_t<std::is_const_v<Void>, const T, T>;
  const int64_t first = task.batch * tensor.stride(0) + task.head * tensor.stride(2) + begin;
  return Runs<Element>{static_cast<Element*>(tensor.data) + first, tensor.stride(1), length};
}

// Whether value is copied. Reading it in the tensor is better where most of its rows are never sampled, but
// works for whole chunks only.
inline bool packs_value(const MultiScaleDeformableSampling& problem) {
  return problem.channels() % kChunkChannels != 0 ||
         problem.queries() * problem.levels() * problem.samples() >= problem.rows();
}

// Bytes of a row of value in a plane.
inline int64_t packed_row_bytes(const MultiScaleDeformableSampling& problem) {
  return chunks_of(problem.channels()) * kChunkChannels * static_cast<int64_t>(size_of(problem.value.type));
}

// Where a head of value, or of a tensor of its shape, begins.
inline const std::byte* first_of_head(const ConstTensor& value, int64_t batch, int64_t head) {
  const int64_t element = batch * value.stride(0) + head * value.stride(2);
  return static_cast<const std::byte*>(value.data) + element * static_cast<int64_t>(size_of(value.type));
}

// How many rows before it is worked on one is asked for.
inline constexpr int64_t kRowsAhead = 16;

// Copies rows of a head of value to places of a plane that are `row_bytes` apart, and sets the rest of the first
// `filled_bytes` of each place to zero.
inline void pack_rows(const ConstTensor& value, int64_t batch, int64_t head, RowRange rows, std::byte* plane,
                      int64_t row_bytes, int64_t filled_bytes) {
  const auto element = static_cast<int64_t>(size_of(value.type));
  const int64_t bytes = value.size(3) * element;
  const int64_t stride = value.stride(1) * element;
  const std::byte* first = first_of_head(value, batch, head);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    // The rows lie too far apart for the processor to foresee.
    prefetch_lines(first + std::min(row + kRowsAhead, rows.end - 1) * stride, bytes);
    std::memcpy(plane + row * row_bytes, first + row * stride, static_cast<size_t>(bytes));
    std::memset(plane + row * row_bytes + bytes, 0, static_cast<size_t>(filled_bytes - bytes));
  }
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention
