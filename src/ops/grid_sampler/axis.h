// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// One axis of an image or a volume as a grid sees it: where taps fall on it that lie outside.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "aclgrad/grid_sampler.h"

namespace aclgrad::ops::grid_sampler {

// Calls function with the number of taps on each axis as a std::integral_constant. Volumes have no bicubic interpolation.
template <int kAxes, class Function>
void visit_taps_of(Interpolation interpolation, Function&& function) {
  if (interpolation == Interpolation::nearest) return function(std::integral_constant<int, 1>());
  if constexpr (kAxes == 2) {
    if (interpolation == Interpolation::bicubic) return function(std::integral_constant<int, 4>());
  }
  function(std::integral_constant<int, 2>());
}

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

// The last pixel. In float, which does not hold all numbers from 2^24 on, the one before it that it holds: none beyond.
template <class Real>
constexpr Real last_pixel(const Axis& axis) {
  const auto rounded = static_cast<Real>(axis.size - 1);
  constexpr Real kToPrevious = 1 - Real{0x1p-24};
  return static_cast<int64_t>(rounded) < axis.size ? rounded : rounded * kToPrevious;
}

// An index near the image, so that taps around it read the pixels that those around a far `whole` do.
template <class Real>
constexpr int32_t near_index(Real whole, const Axis& axis) {
  const auto last = last_pixel<Real>(axis);
  constexpr Real kBeyond = 256;  // four times what lies between two floats below 2^30
  if (axis.padding != Padding::reflection) {
    return static_cast<int32_t>(std::clamp<Real>(whole, -4, last + kBeyond));
  }
  const Mirrored<Real> at = mirror(whole, axis);
  const auto pixel = static_cast<int32_t>(std::clamp<Real>(at.pixel, 0, last));
  if (!at.backwards) return pixel;
  return axis.align_corners ? -pixel : -1 - pixel;
}

}  // namespace aclgrad::ops::grid_sampler
