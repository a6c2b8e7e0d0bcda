// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "tensor/view.h"

#include <algorithm>
#include <cstring>

#include "base/divide.h"
#include "base/parallel.h"

namespace aclgrad {
namespace {

// One loop over the elements of two strided arrays of one shape. Strides are in bytes.
struct Axis {
  int64_t size = 1;
  int64_t from_stride = 0;
  int64_t to_stride = 0;
};

// The loops of a copy, innermost first: no axes of size 1, and one axis where one stride spans two on both
// sides. Those from `rank` on have size 1.
struct Nest {
  int rank = 0;
  std::array<Axis, TensorView::kMaxRank> axes;

  void append(const Axis& outer) {
    if (rank > 0) {
      Axis& inner = axes[static_cast<size_t>(rank - 1)];
      const bool one_stride_spans_both = outer.from_stride == inner.size * inner.from_stride &&
                                         outer.to_stride == inner.size * inner.to_stride;
      if (one_stride_spans_both) {
        inner.size *= outer.size;
        return;
      }
    }
    axes[static_cast<size_t>(rank++)] = outer;
  }
};

// Bytes that a tile of a transposition reads or writes in one go: a few cache lines of each page that it
// touches.
constexpr int64_t kTileBytes = 256;

// Makes the two innermost axes those along which source and target are dense, where these are not the same.
// False where rows along the innermost axis do well.
bool arrange_transposition(Nest& nest) {
  constexpr int64_t kCacheLine = 64;
  const bool from_is_wide = nest.axes[0].from_stride > nest.axes[0].to_stride;
  const auto stride = from_is_wide ? &Axis::from_stride : &Axis::to_stride;
  const auto end = nest.axes.begin() + nest.rank;
  const auto dense = std::min_element(nest.axes.begin(), end,
                                      [&](const Axis& a, const Axis& b) { return a.*stride < b.*stride; });
  if (nest.axes[0].*stride < kCacheLine || dense == nest.axes.begin()) return false;
  std::rotate(nest.axes.begin() + 1, dense, dense + 1);
  return true;
}

template <class Word>
void copy_row(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t count) {
  constexpr auto kDense = static_cast<int64_t>(sizeof(Word));
  if (from_stride == kDense && to_stride == kDense) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Word));
  } else if (from_stride == 0) {
    Word value;
    std::memcpy(&value, from, sizeof(Word));
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride, &value, sizeof(Word));
  } else {
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, sizeof(Word));
  }
}

template <class Word>
void copy_rows(const std::byte* from, std::byte* to, const Axis& rows, const Axis& columns) {
  for (int64_t row = 0; row < rows.size; ++row) {
    copy_row<Word>(from + row * rows.from_stride, columns.from_stride, to + row * rows.to_stride,
                   columns.to_stride, columns.size);
  }
}

// Copies a tile of at most kTileBytes each way through a buffer, so that source and target are both touched a
// whole row at a time, whatever the distance of the rows.
template <class Word>
void copy_transposed(const std::byte* from, std::byte* to, const Axis& rows, const Axis& columns) {
  constexpr auto kWord = static_cast<int64_t>(sizeof(Word));
  alignas(64) std::byte buffer[kTileBytes / kWord * kTileBytes];
  const bool rows_are_read = rows.from_stride < columns.from_stride;
  const Axis& read = rows_are_read ? rows : columns;
  const Axis& written = rows_are_read ? columns : rows;
  for (int64_t i = 0; i < written.size; ++i) {
    copy_row<Word>(from + i * written.from_stride, read.from_stride, buffer + i * kTileBytes, kWord,
                   read.size);
  }
  for (int64_t i = 0; i < read.size; ++i) {
    copy_row<Word>(buffer + i * kWord, kTileBytes, to + i * read.to_stride, written.to_stride, written.size);
  }
}

// The part of an axis from `begin` that is at most `size` long.
Axis part_of(Axis axis, int64_t begin, int64_t size) {
  axis.size = std::min(size, axis.size - begin);
  return axis;
}

constexpr int64_t kElementsPerTask = 4096;

// A copy cut into tiles of the two innermost axes.
template <class Word>
class TiledCopy {
 public:
  TiledCopy(const std::byte* from, std::byte* to, const Nest& nest) : from_(from), to_(to), nest_(nest) {
    transposed_ = arrange_transposition(nest_);
    constexpr auto kTileEdge = kTileBytes / static_cast<int64_t>(sizeof(Word));
    tile_columns_ = transposed_ ? kTileEdge : std::min(columns_.size, kElementsPerTask);
    tile_rows_ = transposed_ ? kTileEdge : std::max<int64_t>(1, kElementsPerTask / tile_columns_);
    tiles_across_ = divide_up(columns_.size, tile_columns_);
    tiles_down_ = divide_up(rows_.size, tile_rows_);
    for (size_t i = 2; i < static_cast<size_t>(nest_.rank); ++i) planes_ *= nest_.axes[i].size;
  }

  void run() const {
    const int64_t tiles = planes_ * tiles_down_ * tiles_across_;
    const int64_t size = planes_ * rows_.size * columns_.size;
    // Small tiles share a task.
    const int64_t tiles_per_task = std::max<int64_t>(1, kElementsPerTask / (size / tiles));
    parallel_for(divide_up(tiles, tiles_per_task), 0.5 * static_cast<double>(size), [&](int64_t task) {
      const int64_t end = std::min(tiles, (task + 1) * tiles_per_task);
      for (int64_t tile = task * tiles_per_task; tile < end; ++tile) copy_tile(tile);
    });
  }

 private:
  void copy_tile(int64_t tile) const {
    const int64_t column = tile % tiles_across_ * tile_columns_;
    const int64_t row = tile / tiles_across_ % tiles_down_ * tile_rows_;
    int64_t plane = tile / tiles_across_ / tiles_down_;
    const std::byte* from = from_ + row * rows_.from_stride + column * columns_.from_stride;
    std::byte* to = to_ + row * rows_.to_stride + column * columns_.to_stride;
    for (size_t i = 2; i < static_cast<size_t>(nest_.rank); ++i) {
      const Axis& axis = nest_.axes[i];
      from += plane % axis.size * axis.from_stride;
      to += plane % axis.size * axis.to_stride;
      plane /= axis.size;
    }
    const auto copy = transposed_ ? copy_transposed<Word> : copy_rows<Word>;
    copy(from, to, part_of(rows_, row, tile_rows_), part_of(columns_, column, tile_columns_));
  }

  const std::byte* from_;
  std::byte* to_;
  Nest nest_;
  const Axis& columns_ = nest_.axes[0];
  const Axis& rows_ = nest_.axes[1];
  bool transposed_;
  int64_t tile_rows_;
  int64_t tile_columns_;
  int64_t tiles_down_;
  int64_t tiles_across_;
  int64_t planes_ = 1;
};

void copy(const void* from, void* to, const Nest& nest, DataType type) {
  visit_word(type, [&]<class Word>(Word) {
    TiledCopy<Word>(static_cast<const std::byte*>(from), static_cast<std::byte*>(to), nest).run();
  });
}

// The loops over a view that is not empty: `axis_of` makes an axis from its size, its stride in the view and
// its stride in contiguous memory.
template <class AxisOf>
Nest nest_of(const TensorView& view, AxisOf&& axis_of) {
  const auto element = static_cast<int64_t>(size_of(view.type));
  int64_t contiguous_stride = element;
  Nest nest;
  for (auto i = static_cast<size_t>(view.rank); i-- > 0;) {
    if (view.shape[i] == 1) continue;  // its stride may be any number
    nest.append(axis_of(view.shape[i], view.strides[i] * element, contiguous_stride));
    contiguous_stride *= view.shape[i];
  }
  return nest;
}

struct Step {
  int64_t stride;
  int64_t max_count;
};

// Whether steps along the axes, forwards or back, add up to `distance`; where none was made before, at least one is made
// now. Axes come by falling strides, which are above 0. `reach` is the sum of all their steps. True where no tries are left.
bool lead_to(int64_t distance, std::span<const Step> axes, int64_t reach, bool has_moved,
             int64_t& tries_left) {
  if (--tries_left < 0) return true;
  if (axes.empty()) return has_moved && distance == 0;
  const auto [stride, max_count] = axes.front();
  reach -= stride * max_count;
  const int64_t min_count =
      distance > reach ? divide_up(distance - reach, stride) : (distance - reach) / stride;
  // What holds for steps forwards holds for the same steps back.
  const int64_t first = std::max(min_count, has_moved ? -max_count : 0);
  const int64_t last = std::min((distance + reach) / stride, max_count);
  for (int64_t count = first; count <= last; ++count) {
    const int64_t left = std::abs(distance - count * stride);
    if (lead_to(left, axes.subspan(1), reach, has_moved || count != 0, tries_left)) return true;
  }
  return false;
}

}  // namespace

bool repeats_elements(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  std::array<Step, TensorView::kMaxRank> axes;
  size_t rank = 0;
  int64_t reach = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return false;
    if (shape[i] == 1) continue;
    axes[rank++] = {std::abs(strides[i]), shape[i] - 1};
    reach += axes[rank - 1].stride * axes[rank - 1].max_count;
  }
  const auto end = axes.begin() + rank;
  std::sort(axes.begin(), end, [](const Step& a, const Step& b) { return a.stride > b.stride; });
  if (rank > 0 && axes[rank - 1].stride == 0) return true;
  int64_t tries_left = 1 << 22;
  return lead_to(0, std::span(axes).first(rank), reach, false, tries_left);
}

int64_t TensorView::size() const {
  int64_t count = 1;
  for (int axis = 0; axis < rank; ++axis) count *= shape[static_cast<size_t>(axis)];
  return count;
}

bool TensorView::is_dense_from(int axis) const {
  int64_t expected = 1;
  for (auto i = static_cast<size_t>(rank); i-- > static_cast<size_t>(axis);) {
    if (shape[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

std::string format_shape(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

void run_kernel(const Packing& packing, void*) {
  const TensorView& from = packing.from;
  if (from.empty()) return;
  const Nest nest = nest_of(from, [](int64_t size, int64_t stride, int64_t contiguous) {
    return Axis{size, stride, contiguous};
  });
  copy(from.first(), packing.to, nest, from.type);
}

void run_kernel(const Unpacking& unpacking, void*) {
  const TensorView& to = unpacking.to;
  if (to.empty()) return;
  static constexpr std::byte kZero[8] = {};
  const bool zeros = unpacking.from == nullptr;
  const Nest nest = nest_of(to, [zeros](int64_t size, int64_t stride, int64_t contiguous) {
    return Axis{size, zeros ? 0 : contiguous, stride};
  });
  copy(zeros ? kZero : unpacking.from, to.first(), nest, to.type);
}

}  // namespace aclgrad
