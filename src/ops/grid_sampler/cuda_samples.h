// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The problems of aclgrad/grid_sampler.h as the kernels on a GPU take them, and a sample of a grid: where it lies, and what
// it reads along each axis.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "aclgrad/grid_sampler.h"
#include "cuda/kernel.h"
#include "ops/grid_sampler/axis.h"
#include "ops/grid_sampler/image.h"

namespace aclgrad::ops::grid_sampler {

using namespace cuda;  // in files for GPUs alone

// ---- Problems

// Sizes, strides and addresses by name. kAxes is 2 for images and 3 for volumes.
template <int kAxes>
struct SamplingOf {
  using Strides = std::array<int64_t, 2 + kAxes>;

  DataType type;
  Interpolation interpolation;
  Padding padding;
  bool align_corners;

  int64_t batch;          // N
  int64_t channels;       // C
  int64_t depth;          // D; 1 for images
  int64_t height;         // H
  int64_t width;          // W
  int64_t output_depth;   // Do; 1 for images
  int64_t output_height;  // Ho
  int64_t output_width;   // Wo

  const void* input;
  Strides input_strides;
  const void* grid;
  Strides grid_strides;

  explicit SamplingOf(const GridSampling& problem)
      : type(problem.input.type),
        interpolation(problem.interpolation),
        padding(problem.padding),
        align_corners(problem.align_corners),
        batch(problem.input.size(0)),
        channels(problem.input.size(1)),
        depth(kAxes == 3 ? problem.input.size(2) : 1),
        height(problem.input.size(kAxes)),
        width(problem.input.size(kAxes + 1)),
        output_depth(kAxes == 3 ? problem.grid.size(1) : 1),
        output_height(problem.grid.size(kAxes - 1)),
        output_width(problem.grid.size(kAxes)),
        input(problem.input.data),
        input_strides(strides_of(problem.input)),
        grid(problem.grid.data),
        grid_strides(strides_of(problem.grid)) {}

  static Strides strides_of(const ConstTensor& tensor) {
    Strides strides;
    for (size_t k = 0; k < strides.size(); ++k) {
      const int axis = static_cast<int>(k);
      strides[k] = tensor.size(axis) == 1 ? 0 : tensor.stride(axis);  // of one element it may be any number
    }
    return strides;
  }
};

template <int kAxes>
struct ForwardOf : SamplingOf<kAxes> {
  void* output;
  typename SamplingOf<kAxes>::Strides output_strides;

  template <class Problem>
  explicit ForwardOf(const Problem& problem)
      : SamplingOf<kAxes>(problem),
        output(problem.output.data),
        output_strides(this->strides_of(problem.output)) {}
};

template <int kAxes>
struct BackwardOf : SamplingOf<kAxes> {
  using Strides = typename SamplingOf<kAxes>::Strides;

  const void* grad_output;
  Strides grad_output_strides;
  bool wants_input_grad;
  bool wants_grid_grad;
  void* input_grad;
  Strides input_grad_strides;
  void* grid_grad;
  Strides grid_grad_strides;

  template <class Problem>
  explicit BackwardOf(const Problem& problem)
      : SamplingOf<kAxes>(problem),
        grad_output(problem.grad_output.data),
        grad_output_strides(this->strides_of(problem.grad_output)),
        wants_input_grad(problem.grad_input.defined()),
        wants_grid_grad(problem.grad_grid.defined()),
        input_grad(problem.grad_input.data),
        input_grad_strides(this->strides_of(problem.grad_input)),
        grid_grad(problem.grad_grid.data),
        grid_grad_strides(this->strides_of(problem.grad_grid)) {}
};

// Of an image, or the voxels of a volume.
template <int kAxes>
__host__ __device__ int64_t samples_of(const SamplingOf<kAxes>& problem) {
  return problem.output_depth * problem.output_height * problem.output_width;
}
template <int kAxes>
int64_t pixels_of(const SamplingOf<kAxes>& problem) {
  return problem.depth * problem.height * problem.width;
}

// ---- Coordinates

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

// ---- Samples

template <int kAxes>
using Strides = typename SamplingOf<kAxes>::Strides;
template <int kAxes>
using Axes = std::array<Axis, kAxes>;

// x, y and z.
template <int kAxes>
Axes<kAxes> axes_of(const SamplingOf<kAxes>& problem, bool forward) {
  const int64_t sizes[] = {problem.width, problem.height, problem.depth};
  Axes<kAxes> axes;
  for (size_t k = 0; k < kAxes; ++k) axes[k] = {sizes[k], problem.padding, problem.align_corners, forward};
  return axes;
}

// Whether 32 bits hold the places along axes of these extents and strides.
inline bool is_near(std::initializer_list<std::pair<int64_t, int64_t>> axes) {
  int64_t last = 0;
  for (const auto& [extent, stride] : axes) last += extent * std::abs(stride);
  return last <= std::numeric_limits<int32_t>::max();
}
// Those of the pixels of a channel.
template <int kAxes>
bool has_near_pixels(const SamplingOf<kAxes>& problem) {
  const auto& strides = problem.input_strides;
  return is_near({{problem.width, strides[kAxes + 1]},
                  {problem.height, strides[kAxes]},
                  {problem.depth, kAxes == 3 ? strides[2] : 0}});
}

template <int kAxes>
struct Sample {
  int64_t batch;
  int64_t place[kAxes];  // x, y and z

  // In all images.
  __host__ __device__ static int64_t count(const SamplingOf<kAxes>& problem) {
    return problem.batch * samples_of(problem);
  }

  __device__ Sample(int64_t n, const int64_t (&at)[kAxes]) : batch(n) {
    for (int axis = 0; axis < kAxes; ++axis) place[axis] = at[axis];
  }

  __device__ Sample(const SamplingOf<kAxes>& problem, int64_t index) {
    // Divisions of 64 bits take some hundred instructions.
    index < kLargest ? set(problem, static_cast<uint32_t>(index))
                     : set(problem, static_cast<uint64_t>(index));
  }

  // Of the first channel in a tensor [N, C, Ho, Wo] or [N, C, Do, Ho, Wo].
  __device__ int64_t offset(const Strides<kAxes>& strides) const {
    int64_t in_channel = 0;
    for (int axis = 0; axis < kAxes; ++axis) in_channel += place[axis] * strides[kAxes + 1 - axis];
    return batch * strides[0] + in_channel;
  }
  // Of x in a tensor [N, Ho, Wo, 2].
  __device__ int64_t offset_in_grid(const Strides<kAxes>& strides) const {
    int64_t offset = batch * strides[0];
    for (int axis = 0; axis < kAxes; ++axis) offset += place[axis] * strides[kAxes - axis];
    return offset;
  }

 private:
  static constexpr int64_t kLargest = std::numeric_limits<uint32_t>::max();

  template <class Index>
  __device__ void set(const SamplingOf<kAxes>& problem, Index index) {
    const int64_t sides[] = {problem.output_width, problem.output_height, problem.output_depth};
    for (int axis = 0; axis < kAxes; ++axis) {
      const auto side = static_cast<Index>(sizeof(Index) == 4 ? min(sides[axis], kLargest) : sides[axis]);
      const Index next = index / side;
      place[axis] = index - next * side;
      index = next;
    }
    batch = index;
  }
};

// What a sample reads along each axis.
template <class T, int kTaps, int kAxes>
struct SampleTaps {
  using Real = RealOf<T>;

  Taps<Real, kTaps> along[kAxes];  // x, y and z

  __device__ SampleTaps(const SamplingOf<kAxes>& problem, const Sample<kAxes>& sample,
                        const Axes<kAxes>& axes)
      : SampleTaps(static_cast<const T*>(problem.grid) + sample.offset_in_grid(problem.grid_strides),
                   problem.grid_strides[kAxes + 1], axes, std::make_integer_sequence<int, kAxes>()) {}

  __device__ bool is_finite() const {
    bool all = true;
    for (const auto& taps : along) all = all && taps.is_finite;
    return all;
  }

 private:
  template <int... kAxis>
  __device__ SampleTaps(const T* grid, int64_t stride, const Axes<kAxes>& axes,
                        std::integer_sequence<int, kAxis...>)
      : along{Taps<Real, kTaps>(widen(grid[kAxis * stride]), axes[kAxis])...} {}
};

// Taps of all axes but x: a row of pixels, if they are pixels.
template <class Real, int kAxes>
struct RowTaps {
  Tap<Real> y;
  Tap<Real> z;  // of volumes

  __device__ bool is_row() const { return y.pixel >= 0 && (kAxes == 2 || z.pixel >= 0); }
  __device__ int64_t offset(const Strides<kAxes>& strides) const {
    return y.pixel * strides[kAxes] + (kAxes == 2 ? 0 : z.pixel * strides[2]);
  }
  __device__ Real weight() const { return kAxes == 2 ? y.weight : z.weight * y.weight; }
  __device__ Real y_slope() const { return kAxes == 2 ? y.slope : z.weight * y.slope; }
  __device__ Real z_slope() const { return z.slope * y.weight; }
};

// The same as SampleTaps, tap by tap.
template <class Real, int kTaps, int kAxes>
struct AllTaps {
  static constexpr int kRows = kAxes == 2 ? kTaps : kTaps * kTaps;

  Tap<Real> along[kAxes][kTaps];

  template <class Sample>
  __device__ AllTaps(const Sample& taps, const Axes<kAxes>& axes) {
    for (int axis = 0; axis < kAxes; ++axis) {
      for (int k = 0; k < kTaps; ++k) along[axis][k] = taps.along[axis].tap(k, axes[axis]);
    }
  }
  __device__ RowTaps<Real, kAxes> row(int k) const {
    return {along[1][k % kTaps], along[kAxes - 1][k / kTaps]};
  }
};

}  // namespace aclgrad::ops::grid_sampler
