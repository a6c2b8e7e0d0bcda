// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What a coordinate of a grid reads along one axis, on a GPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/kernel.h"
#include "ops/grid_sampler/axis.h"
#include "ops/grid_sampler/image.h"

namespace aclgrad::ops::grid_sampler {

template <class Real>
struct Place {
  Real pixel;
  Real multiplier;  // pixels for each unit of the grid's coordinate
};

template <class Real>
__device__ Place<Real> unnormalised(Real coordinate, const Axis& axis) {
  const auto size =
      static_cast<Real>(static_cast<int32_t>(axis.size));  // which GPUs convert faster than 64 bits
  if (axis.align_corners) return {(coordinate + 1) / 2 * (size - 1), (size - 1) / 2};
  return {((coordinate + 1) * size - 1) / 2, size / 2};
}

template <class Real>
__device__ Place<Real> clipped(Place<Real> at, const Axis& axis) {
  const auto last = last_pixel<Real>(axis);
  if (at.pixel <= 0) return {0, 0};
  if (at.pixel >= last) return {last, 0};
  return at;
}

template <class Real>
__device__ Place<Real> reflected(Place<Real> at, const Axis& axis) {
  if (std::isnan(at.pixel)) return at;
  const Mirrored<Real> mirrored = mirror(at.pixel, axis);
  return {mirrored.pixel, mirrored.backwards ? -at.multiplier : at.multiplier};
}

// Weight of a pixel at that distance, and its derivative.
template <class Real>
__device__ Real cubic_weight(Real distance) {
  const Real a = Real{-0.75}, x = std::fabs(distance);
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}
template <class Real>
__device__ Real cubic_slope(Real distance) {
  const Real a = Real{-0.75}, x = std::fabs(distance);
  const Real slope = x <= 1 ? (3 * (a + 2) * x - 2 * (a + 3)) * x : (3 * a * x - 10 * a) * x + 8 * a;
  return distance < 0 ? -slope : slope;
}

template <class Real>
struct Tap {
  int32_t pixel;  // -1 for none
  Real weight;
  Real slope;  // derivative of the weight by the place, in pixels
};

// What a coordinate reads along one axis.
template <class Real, int kTaps>
class Taps {
 public:
  Real multiplier = 0;    // pixels for each unit of the grid's coordinate
  bool is_finite = true;  // or the result is NaN: forward and bicubic

  __device__ Taps(Real coordinate, const Axis& axis) {
    Place<Real> at = unnormalised(coordinate, axis);
    if constexpr (kTaps == 4) {
      set_cubic(at, axis);
    } else {
      if (axis.padding == Padding::reflection) at = reflected(at, axis);
      if (axis.padding != Padding::zeros) at = clipped(at, axis);
      set(at, axis);
    }
  }

  __device__ Tap<Real> tap(int k, const Axis& axis) const {
    if (!reads_) return {-1, Real{0}, Real{0}};
    const int step = kTaps == 4 ? k - 1 : k;
    const auto pixel = static_cast<int32_t>(tap_pixel<kTaps>(int64_t{first_} + step, axis));
    if constexpr (kTaps == 1) {
      return {pixel, Real{1}, Real{0}};
    } else if constexpr (kTaps == 2) {
      return {pixel, k == 0 ? 1 - rest_ : rest_, k == 0 ? Real{-1} : Real{1}};
    } else {
      const Real distance = rest_ - static_cast<Real>(step);
      return {pixel, cubic_weight(distance), cubic_slope(distance)};
    }
  }

  // Whether it reads anything; the pixel at or before the place, which may lie beside the image; from there to the place.
  __device__ bool reads() const { return reads_; }
  __device__ int32_t first() const { return first_; }
  __device__ Real rest() const { return rest_; }

 private:
  __device__ void set(Place<Real> at, const Axis& axis) {
    constexpr Real kFarthest = (1 << 30) - 64;
    if (!(std::fabs(at.pixel) < kFarthest)) {
      if (!axis.forward || axis.padding == Padding::zeros) return;
      const bool above = axis.padding == Padding::border && at.pixel > 0;
      at.pixel = above ? last_pixel<Real>(axis) : Real{0};
    }
    multiplier = at.multiplier;
    reads_ = true;
    const Real whole = kTaps == 1 ? std::rint(at.pixel) : std::floor(at.pixel);
    first_ = static_cast<int32_t>(whole);
    rest_ = at.pixel - whole;
  }

  // The taps are padded, not the sample.
  __device__ void set_cubic(const Place<Real>& at, const Axis& axis) {
    if (!std::isfinite(at.pixel)) {
      is_finite = !axis.forward;
      return;
    }
    const Real whole = std::floor(at.pixel);
    const bool is_far = std::fabs(whole) >= kFar<Real>;
    if (!is_far || !has_no_neighbours(whole)) multiplier = at.multiplier;
    reads_ = true;
    first_ = is_far ? near_index(whole, axis) : static_cast<int32_t>(whole);
    rest_ = at.pixel - whole;
  }

  int32_t first_ = 0;  // the pixel at or before the place
  Real rest_ = 0;      // from there to the place
  bool reads_ = false;
};

}  // namespace aclgrad::ops::grid_sampler
