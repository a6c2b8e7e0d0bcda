// Images where they lie, and where the taps of a sample fall in one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/data_type.h"
#include "ops/grid_sampler/problem.h"

namespace aclgrad::ops::grid_sampler {

// The type that arithmetic on T is done in.
template <class T>
using RealOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

inline double to_real(double value) {
  return value;
}
inline float to_real(float value) {
  return value;
}
inline float to_real(Half value) {
  return to_float(value);
}
inline float to_real(BFloat16 value) {
  return to_float(value);
}

template <class T>
T from_real(RealOf<T> value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return from_float<T>(value);
  }
}

// Calls function with the number of taps on each axis as a std::integral_constant.
template <class Function>
void visit_taps(Interpolation interpolation, Function&& function) {
  switch (interpolation) {
    case Interpolation::bilinear:
      return function(std::integral_constant<int, 2>());
    case Interpolation::nearest:
      return function(std::integral_constant<int, 1>());
    case Interpolation::bicubic:
      return function(std::integral_constant<int, 4>());
  }
}

// One image of a batch. A grid is an image too, of two channels: x and y.
template <class T>
struct Image {
  T* data;
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t channel_stride;
  int64_t row_stride;
  int64_t column_stride;

  int64_t pixels() const { return height * width; }

  // Whether one stride leads from each pixel to the next, across the ends of rows.
  bool is_flat() const { return height == 1 || width == 1 || row_stride == width * column_stride; }
  int64_t flat_stride() const { return width == 1 ? row_stride : column_stride; }

  int64_t offset(int64_t row, int64_t column) const { return row * row_stride + column * column_stride; }
  int64_t offset(int64_t pixel) const {
    return is_flat() ? pixel * flat_stride() : offset(pixel / width, pixel % width);
  }

  // Whether the pixels of a channel lie side by side.
  bool has_contiguous_channels() const { return is_flat() && flat_stride() == 1; }
};

template <class T>
Image<T> image_of(T* batch_data, const GridSampling::Strides& strides, int64_t index, int64_t channels,
                  int64_t height, int64_t width) {
  T* data = batch_data == nullptr ? nullptr : batch_data + index * strides[0];
  return {data, channels, height, width, strides[1], strides[2], strides[3]};
}

template <class T>
Image<T> grid_of(T* batch_data, const GridSampling::Strides& strides, int64_t index, int64_t height,
                 int64_t width) {
  T* data = batch_data == nullptr ? nullptr : batch_data + index * strides[0];
  return {data, 2, height, width, strides[3], strides[1], strides[2]};
}

// Calls body(k, offset of pixel first + k) for k in [0, count).
template <class T, class Body>
void for_each_pixel(const Image<T>& image, int64_t first, int64_t count, Body&& body) {
  int64_t row = first / image.width;
  int64_t column = first % image.width;
  for (int64_t k = 0; k < count; ++k) {
    body(k, image.offset(row, column));
    if (++column == image.width) {
      column = 0;
      ++row;
    }
  }
}

struct RowBand {
  int64_t begin;
  int64_t end;

  bool contains(int64_t row) const { return row >= begin && row < end; }
};

// Band `index` of `count` that share `rows` evenly.
inline RowBand row_band(int64_t rows, int64_t count, int64_t index) {
  return {rows * index / count, rows * (index + 1) / count};
}

// Rows of the image that have to do with some samples.
struct RowSpan {
  int32_t first;
  int32_t last;

  bool meets(RowBand band) const { return last >= band.begin && first < band.end; }
};

inline constexpr RowSpan kNoRows = {INT32_MAX, -1};

template <class T>
void zero_rows(const Image<T>& image, RowBand band) {
  const bool contiguous = image.column_stride == 1;
  const bool interleaved = image.channel_stride == 1 && image.column_stride == image.channels;
  if (contiguous && image.row_stride == image.width) {
    const auto count = static_cast<size_t>((band.end - band.begin) * image.width);
    for (int64_t channel = 0; channel < image.channels; ++channel) {
      std::memset(image.data + channel * image.channel_stride + image.offset(band.begin, 0), 0,
                  count * sizeof(T));
    }
    return;
  }
  for (int64_t row = band.begin; row < band.end; ++row) {
    T* first = image.data + row * image.row_stride;
    if (interleaved) {
      std::memset(first, 0, static_cast<size_t>(image.width * image.channels) * sizeof(T));
      continue;
    }
    for (int64_t channel = 0; channel < image.channels; ++channel, first += image.channel_stride) {
      if (contiguous) {
        std::memset(first, 0, static_cast<size_t>(image.width) * sizeof(T));
      } else {
        for (int64_t column = 0; column < image.width; ++column) first[column * image.column_stride] = T{};
      }
    }
  }
}

// One axis of the image as the grid sees it.
struct Axis {
  int64_t size;  // pixels
  Padding padding;
  bool align_corners;
  bool forward;  // whether a NaN reads pixel 0, where padding gives it a pixel; bicubic, it reads NaN
};

// `first` of a sample that has no place.
inline constexpr int32_t kNowhere = -(1 << 30);

// The pixel that tap `index` of a sample reads, or -1 for none. Only bicubic interpolation pads its taps; the samples of
// the others are padded already.
template <int kTaps>
constexpr int64_t tap_pixel(int64_t index, const Axis& axis) {
  if (index >= 0 && index < axis.size) return index;
  if (kTaps != 4 || axis.padding == Padding::zeros || index <= kNowhere + kTaps) return -1;
  if (axis.padding == Padding::border) return index < 0 ? 0 : axis.size - 1;
  if (axis.align_corners) {
    if (axis.size == 1) return 0;
    const int64_t period = 2 * (axis.size - 1);
    const int64_t place = (index < 0 ? -index : index) % period;
    return std::min(place, period - place);
  }
  const int64_t period = 2 * axis.size;
  const int64_t place = (index < 0 ? -1 - index : index) % period;
  return std::min(place, period - 1 - place);
}

// Where a place falls that is mirrored at the edges of the image, and whether the image runs backwards there.
template <class Real>
struct Mirrored {
  Real pixel;
  bool backwards;
};

// Exact for places of any size, since fmod is. Without align_corners the mirror lies half a pixel beyond the border.
template <class Real>
constexpr Mirrored<Real> mirror(Real place, const Axis& axis) {
  const Real low = axis.align_corners ? Real{0} : Real{-0.5};
  const auto span = static_cast<Real>(axis.align_corners ? axis.size - 1 : axis.size);
  if (span == 0) return {Real{0}, false};
  const Real distance = place - low;
  const Real rest = std::fmod(std::fabs(distance), 2 * span);
  const bool is_odd = rest >= span;
  return {(is_odd ? 2 * span - rest : rest) + low, is_odd != (distance < 0)};
}

// Whole numbers from here on have no half between them in float, and no 32-bit index in double.
template <class Real>
inline constexpr Real kFar = static_cast<Real>(std::is_same_v<Real, float> ? 1 << 23 : (1 << 30) - 64);

// Whether the whole number's neighbours may be the same number.
template <class Real>
constexpr bool has_no_neighbours(Real whole) {
  return std::fabs(whole) >= 2 / std::numeric_limits<Real>::epsilon();
}

// An index near the image, so that taps around it read the pixels that those around a far `whole` do.
template <class Real>
constexpr int32_t near_index(Real whole, const Axis& axis) {
  const auto last = static_cast<Real>(axis.size - 1);
  if (axis.padding != Padding::reflection) {
    return static_cast<int32_t>(std::clamp<Real>(whole, -4, last + 4));
  }
  const Mirrored<Real> at = mirror(whole, axis);
  const auto pixel = static_cast<int32_t>(std::clamp<Real>(at.pixel, 0, last));
  if (!at.backwards) return pixel;
  return axis.align_corners ? -pixel : -1 - pixel;
}

}  // namespace aclgrad::ops::grid_sampler
