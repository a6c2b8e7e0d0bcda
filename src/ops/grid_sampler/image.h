// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Images and volumes where they lie, of any element type and any strides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/data_type.h"

namespace aclgrad::ops::grid_sampler {

// The type that arithmetic on T is done in.
template <class T>
using RealOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
RealOf<T> to_real(T value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return to_float(value);
  }
}

template <class T>
T from_real(RealOf<T> value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return from_float<T>(value);
  }
}

// Calls function(T{}) with the element type, of those whose arithmetic is in Real.
template <class Real, class Function>
void visit_type(DataType type, Function&& function) {
  if constexpr (std::is_same_v<Real, double>) {
    function(double{});
  } else {
    visit_float_type(type, function);
  }
}

// An image, of one slice, or a volume. A grid is one, too: its channels are the coordinates. Pixels are numbered through
// rows and slices.
struct Image {
  void* data;
  DataType type;
  int64_t channels;
  int64_t depth;
  int64_t height;
  int64_t width;
  int64_t channel_stride;
  int64_t slice_stride;
  int64_t row_stride;
  int64_t column_stride;
  bool outgrows_caches = false;  // the whole tensor: whole lines are then stored past the caches

  template <class T>
  T* channel(int64_t index) const {
    return static_cast<T*>(data) + index * channel_stride;
  }

  // Channels [first, first + count).
  Image some_channels(int64_t first, int64_t count) const {
    Image some = *this;
    some.data = static_cast<std::byte*>(data) + first * channel_stride * static_cast<int64_t>(size_of(type));
    some.channels = count;
    return some;
  }

  int64_t pixels() const { return depth * height * width; }

  // Whether one stride leads from each pixel to the next, across the ends of rows and slices.
  bool is_flat() const {
    const bool rows_follow = height == 1 || width == 1 || row_stride == width * column_stride;
    return rows_follow && (depth == 1 || slice_stride == height * width * flat_stride());
  }
  int64_t flat_stride() const { return width > 1 ? column_stride : height > 1 ? row_stride : slice_stride; }

  int64_t offset(int64_t slice, int64_t row, int64_t column) const {
    return slice * slice_stride + offset(row, column);
  }
  int64_t offset(int64_t row, int64_t column) const { return row * row_stride + column * column_stride; }
  int64_t offset(int64_t pixel) const {
    if (is_flat()) return pixel * flat_stride();
    const int64_t row = pixel / width;
    return offset(row / height, row % height, pixel % width);
  }

  // Whether the pixels of a channel lie side by side.
  bool has_contiguous_channels() const { return is_flat() && flat_stride() == 1; }
};

// The same pixels in other memory, row after row, channel after channel.
inline Image as_planes(Image image, DataType type, int64_t row_stride, void* data) {
  image.data = data;
  image.type = type;
  image.column_stride = 1;
  image.row_stride = row_stride;
  image.slice_stride = image.height * row_stride;
  image.channel_stride = image.depth * image.slice_stride;
  image.outgrows_caches = false;
  return image;
}

// Whether the coordinates of each sample lie side by side, sample after sample.
inline bool has_interleaved_coordinates(const Image& grid) {
  return grid.is_flat() && grid.flat_stride() == grid.channels && grid.channel_stride == 1;
}

// Those of a batch.
struct Images {
  Image first;
  int64_t stride;  // in elements, from one image to the next

  Image operator[](int64_t index) const {
    Image image = first;
    if (image.data != nullptr)
      image.data =
          static_cast<std::byte*>(image.data) + index * stride * static_cast<int64_t>(size_of(image.type));
    return image;
  }
};

// Calls body(k, offset of pixel first + k) for k in [0, count).
template <class Body>
void for_each_pixel(const Image& image, int64_t first, int64_t count, Body&& body) {
  if (image.is_flat()) {
    const int64_t stride = image.flat_stride();
    for (int64_t k = 0; k < count; ++k) body(k, (first + k) * stride);
    return;
  }
  int64_t column = first % image.width;
  int64_t row = first / image.width % image.height;
  int64_t slice = first / image.width / image.height;
  for (int64_t k = 0; k < count; ++k) {
    body(k, image.offset(slice, row, column));
    if (++column == image.width) column = 0, ++row;
    if (row == image.height) row = 0, ++slice;
  }
}

// Whether images may be copied before: few samples in a large one read it where it lies, so that their time does not
// depend on its size.
inline bool are_dense(int64_t samples, int64_t pixels) {
  return samples >= pixels / 8;
}

struct RowBand {
  int64_t begin;
  int64_t end;

  bool contains(int64_t row) const { return row >= begin && row < end; }
  bool operator==(const RowBand&) const = default;
};

// Slices and rows, over their whole width.
struct Box {
  RowBand slices;
  RowBand rows;

  bool contains(int64_t slice, int64_t row) const { return slices.contains(slice) && rows.contains(row); }
};

}  // namespace aclgrad::ops::grid_sampler
