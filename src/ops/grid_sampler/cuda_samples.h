// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A sample of a grid on a GPU: where it lies, and what it reads along each axis.
#pragma once

#include <limits>

#include "ops/grid_sampler/cuda_problem.h"
#include "ops/grid_sampler/cuda_taps.h"

namespace aclgrad::ops::grid_sampler {

using namespace cuda;  // in files for GPUs alone

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

  __device__ static int64_t count(const SamplingOf<kAxes>& problem) {
    return problem.batch * problem.output_depth * problem.output_height * problem.output_width;
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
