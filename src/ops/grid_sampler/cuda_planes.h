// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Kernels for images that stay in planes on a GPU: a thread owns a sample and goes through the channels. Neighbouring threads
// own neighbouring samples, so memory is read in long pieces, as far as the grid is smooth.
#pragma once

#include <limits>

#include "cuda/sums.h"
#include "ops/grid_sampler/cuda_samples.h"

namespace aclgrad::ops::grid_sampler {

// ---- Forward

// Offset: an integer that holds the place of any pixel of a channel. The threads of a sample share its channels, where there
// are few samples.
template <class T, int kTaps, int kAxes, class Offset>
__global__ void __launch_bounds__(kThreads)
    interpolate(Condition condition, ForwardOf<kAxes> problem, Axes<kAxes> axes, int64_t channels_of_thread) {
  using Real = RealOf<T>;
  if (!condition.holds()) return;
  constexpr int kTogether = kTaps == 4 || kAxes == 3 ? 1 : 2;  // channels
  const int64_t samples = Sample<kAxes>::count(problem);
  const int64_t threads = samples * divide_up(problem.channels, channels_of_thread);
  const PiecesOfBlock pieces(divide_up(threads, int64_t{kThreads}));
  for (int64_t piece = pieces.first; piece < pieces.end; ++piece) {
    const int64_t index = piece * kThreads + threadIdx.x;
    if (index >= threads) return;
    const int64_t part = samples == threads ? 0 : index / samples, first_channel = part * channels_of_thread;
    const Sample<kAxes> sample(problem, index - part * samples);
    const SampleTaps<T, kTaps, kAxes> found(problem, sample, axes);
    const AllTaps<Real, kTaps, kAxes> taps(found, axes);
    const auto& strides = problem.input_strides;
    constexpr int kRows = taps.kRows;
    Offset rows[kRows], columns[kTaps];  // -1 for none
    Real weights[kRows];
    for (int k = 0; k < kRows; ++k) {
      const auto row = taps.row(k);
      rows[k] = row.is_row() ? static_cast<Offset>(row.offset(strides)) : Offset{-1};
      weights[k] = row.weight();
    }
    for (int i = 0; i < kTaps; ++i) {
      const int32_t pixel = taps.along[0][i].pixel;
      columns[i] = pixel < 0 ? Offset{-1} : static_cast<Offset>(pixel * strides[kAxes + 1]);
    }
    const T* input =
        static_cast<const T*>(problem.input) + sample.batch * strides[0] + first_channel * strides[1];
    T* output = static_cast<T*>(problem.output) + sample.offset(problem.output_strides) +
                first_channel * problem.output_strides[1];
    const Real start = found.is_finite() ? Real{0} : std::numeric_limits<Real>::quiet_NaN();
    const auto channels = static_cast<int>(min(channels_of_thread, problem.channels - first_channel));
    // All loads of some channels are on their way before anything is stored: the compiler does not know that what is stored
    // lies elsewhere.
    const auto next = [&]<int kCount>(std::integral_constant<int, kCount>) {
      Real sums[kCount];
#pragma unroll
      for (int c = 0; c < kCount; ++c, input += strides[1]) {
        sums[c] = start;
#pragma unroll
        for (int k = 0; k < kRows; ++k) {
#pragma unroll
          for (int i = 0; i < kTaps; ++i) {
            if (rows[k] < 0 || columns[i] < 0) continue;
            const Real value = widen(input[rows[k] + columns[i]]);
            sums[c] = std::fma(weights[k] * taps.along[0][i].weight, value, sums[c]);
          }
        }
      }
#pragma unroll
      for (int c = 0; c < kCount; ++c, output += problem.output_strides[1]) *output = narrow<T>(sums[c]);
    };
    int c = 0;
    for (; c + kTogether <= channels; c += kTogether) next(std::integral_constant<int, kTogether>());
    if (c < channels) next(std::integral_constant<int, 1>());
  }
}

// ---- Gradient by samples

// As many blocks on a multiprocessor as registers allow without spilling.
template <class T, int kTaps, int kAxes>
inline constexpr int kSampleBlocks = std::is_same_v<T, double> ? 1
                                     : kTaps == 4              ? 2
                                     : kAxes == 3              ? 3
                                                               : 4;

template <class T, int kTaps, class Sums, int kAxes>
__global__ void __launch_bounds__(kThreads, kSampleBlocks<T, kTaps, kAxes>)
    scatter_by_samples(Condition condition, BackwardOf<kAxes> problem, Sums sums, Strides<kAxes> sums_strides,
                       Axes<kAxes> axes) {
  using Real = RealOf<T>;
  if (!condition.holds()) return;
  if (problem.wants_input_grad) sums.begin();
  const int64_t samples = Sample<kAxes>::count(problem);
  const PiecesOfBlock pieces(divide_up(samples, int64_t{kThreads}));
  for (int64_t piece = pieces.first; piece < pieces.end; ++piece) {
    const int64_t index = piece * kThreads + threadIdx.x;
    if (index >= samples) return;
    const Sample<kAxes> sample(problem, index);
    const SampleTaps<T, kTaps, kAxes> found(problem, sample, axes);
    const AllTaps<Real, kTaps, kAxes> taps(found, axes);
    const auto& strides = problem.input_strides;
    const T* input = static_cast<const T*>(problem.input) + sample.batch * strides[0];
    const T* grad_output =
        static_cast<const T*>(problem.grad_output) + sample.offset(problem.grad_output_strides);
    auto* cells = sums.cells + sample.batch * sums_strides[0];
    constexpr int kRows = taps.kRows;
    int64_t rows[kRows], rows_of_sums[kRows];  // rows: -1 for none
    bool reads = false;
    for (int k = 0; k < kRows; ++k) {
      rows[k] = taps.row(k).is_row() ? taps.row(k).offset(strides) : -1;
      rows_of_sums[k] = taps.row(k).offset(sums_strides);
      for (const Tap<Real>& x : taps.along[0]) reads = reads || (rows[k] >= 0 && x.pixel >= 0);
    }
    Real gradients[kAxes] = {};
#pragma unroll 1
    for (int64_t c = 0; c < problem.channels; ++c) {
      const Real gradient = widen(*grad_output);
      // All pixels are read before anything is added: the compiler does not know that sums lie elsewhere.
      if (kTaps > 1 && problem.wants_grid_grad) {
        Real slopes[kAxes] = {};
#pragma unroll
        for (int k = 0; k < kRows; ++k) {
          Real row = 0, row_slope = 0;  // of the image along this row, at the sample's x
          for (const Tap<Real>& x : taps.along[0]) {
            const bool is_pixel = rows[k] >= 0 && x.pixel >= 0;
            const Real value = is_pixel ? widen(input[rows[k] + x.pixel * strides[kAxes + 1]]) : Real{0};
            row = std::fma(x.weight, value, row);
            row_slope = std::fma(x.slope, value, row_slope);
          }
          slopes[0] = std::fma(taps.row(k).weight(), row_slope, slopes[0]);
          slopes[1] = std::fma(taps.row(k).y_slope(), row, slopes[1]);
          if constexpr (kAxes == 3) slopes[2] = std::fma(taps.row(k).z_slope(), row, slopes[2]);
        }
        for (int axis = 0; axis < kAxes; ++axis)
          gradients[axis] = std::fma(slopes[axis], gradient, gradients[axis]);
      }
      if (problem.wants_input_grad) {
#pragma unroll
        for (int k = 0; k < kRows; ++k) {
          for (const Tap<Real>& x : taps.along[0]) {
            if (rows[k] < 0 || x.pixel < 0) continue;
            sums.add_to(cells + rows_of_sums[k] + x.pixel * sums_strides[kAxes + 1],
                        taps.row(k).weight() * x.weight * gradient);
          }
        }
      }
      input += strides[1];
      grad_output += problem.grad_output_strides[1];
      cells += sums_strides[1];
    }
    if (!problem.wants_grid_grad) continue;
    T* grid_grad = static_cast<T*>(problem.grid_grad) + sample.offset_in_grid(problem.grid_grad_strides);
    for (int axis = 0; axis < kAxes; ++axis) {
      grid_grad[axis * problem.grid_grad_strides[kAxes + 1]] =
          narrow<T>(kTaps > 1 && reads ? found.along[axis].multiplier * gradients[axis] : Real{0});
    }
  }
}

// ---- Gradient by strips
//
// Of bilinear sampling. A lane owns a strip, samples below each other, and the lanes of a warp neighbouring strips. Where a
// sample reads the pixels right of those of its left neighbour, or below those of the sample above, both add to the same
// pixels: these terms meet in registers, and memory sees one addition in place of four. That is tested sample by sample, so
// any grid is right.

inline constexpr int kStrip = 2;        // samples
inline constexpr int kStripBlocks = 4;  // at least, on a multiprocessor

// The four pixels of a sample, by their offsets in a plane, or -1 where there is none.
template <class Real>
struct Corners {
  int32_t upper[2] = {-1, -1}, lower[2] = {-1, -1};
  Real to_right = 0, to_below = 0;  // weights of the right and of the lower pixels
  bool takes = false;               // the right pixels of the lane before are its left ones
  bool gives = false;               // its own right ones are the next lane's left ones
  bool follows = false;             // its upper pixels are the lower ones of the sample above

  __device__ bool reads() const { return (upper[0] & upper[1] & lower[0] & lower[1]) >= 0; }

  template <class Taps>
  __device__ void set(const Taps& taps, const Axes<2>& axes, int32_t row, int32_t pixel) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto x = taps.along[0].tap(i, axes[0]), top = taps.along[1].tap(0, axes[1]),
                 bottom = taps.along[1].tap(1, axes[1]);
      if (x.pixel >= 0 && top.pixel >= 0) upper[i] = top.pixel * row + x.pixel * pixel;
      if (x.pixel >= 0 && bottom.pixel >= 0) lower[i] = bottom.pixel * row + x.pixel * pixel;
      to_right = x.weight, to_below = bottom.weight;
    }
  }

  // `has_neighbour`: whether the lane before has the strip on the left. All lanes of the warp call it.
  __device__ void meet(const Lanes& lanes, bool has_neighbour, const Corners* above) {
    const int32_t other_upper = lanes.from(lanes.index - 1, upper[1]);
    const int32_t other_lower = lanes.from(lanes.index - 1, lower[1]);
    takes = has_neighbour && other_upper == upper[0] && other_lower == lower[0];
    gives = lanes.from(lanes.index + 1, static_cast<int>(takes)) != 0 && lanes.index != kWarp - 1;
    follows = above != nullptr && above->lower[0] == upper[0] && above->lower[1] == upper[1] &&
              above->gives == gives;
  }
};

// `parts`: so many warps share the channels of a strip. Pixels have the same places in images and in sums. `whole`: pixels
// lie in rows, and each fourth one on a boundary of four sums.
template <class T>
__global__ void __launch_bounds__(kThreads, std::is_same_v<T, double> ? 1 : kStripBlocks)
    scatter_by_strips(Condition condition, BackwardOf<2> problem, FloatSums<RealOf<T>> sums,
                      Strides<2> sums_strides, Axes<2> axes, int parts, bool whole) {
  using Real = RealOf<T>;
  if (!condition.holds()) return;
  __shared__ Real multipliers[2 * kStrip][kThreads], gradients_of_parts[2 * kStrip][kThreads];
  const Lanes lanes(kWarp);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp;
  const int part = warp & (parts - 1), groups = kWarps / parts;
  const int64_t strips_down = divide_up(problem.output_height, int64_t{kStrip});
  // Samples of an image of as many rows as there are strips below each other.
  SamplingOf<2> strips_of = problem;
  strips_of.output_height = strips_down;
  const int64_t strips = Sample<2>::count(strips_of);
  const PiecesOfBlock pieces(divide_up(strips, int64_t{kWarp} * groups));
  for (int64_t piece = pieces.first; piece < pieces.end; ++piece) {
    const int64_t index = (piece * groups + warp / parts) * kWarp + lanes.index;
    const Sample<2> strip(strips_of, index < strips ? index : 0);
    const int64_t n = strip.batch, column = strip.place[0], first_row = strip.place[1] * kStrip;
    const auto rows_left = static_cast<int>(min(int64_t{kStrip}, problem.output_height - first_row));
    const int count = index < strips ? rows_left : 0;
    Corners<Real> corners[kStrip];
#pragma unroll
    for (int k = 0; k < kStrip; ++k) {
      if (k < count) {
        const SampleTaps<T, 2, 2> taps(problem, Sample<2>(n, {column, first_row + k}), axes);
        const auto& of_input = problem.input_strides;
        corners[k].set(taps, axes, static_cast<int32_t>(of_input[2]), static_cast<int32_t>(of_input[3]));
        for (int axis = 0; axis < 2; ++axis) multipliers[2 * k + axis][thread] = taps.along[axis].multiplier;
      }
      corners[k].meet(lanes, lanes.index > 0 && column > 0 && index < strips,
                      k == 0 ? nullptr : &corners[k - 1]);
    }
    // Where terms seldom meet, two of a row go to memory together.
    constexpr bool kAddsQuads = kAddsFourAtOnce && std::is_same_v<Real, float>;
    const bool goes_in_quads =
        kAddsQuads && whole && __popc(__ballot_sync(~0u, corners[0].gives)) < kWarp / 2;
    const T* input =
        static_cast<const T*>(problem.input) + n * problem.input_strides[0] + part * problem.input_strides[1];
    const auto& strides = problem.grad_output_strides;
    const T* grad_output = static_cast<const T*>(problem.grad_output) + n * strides[0] + part * strides[1] +
                           first_row * strides[2] + column * strides[3];
    auto* cells = sums.cells + n * sums_strides[0] + part * sums_strides[1];
    Real gradients[2 * kStrip] = {};
#pragma unroll 1
    for (int64_t c = part; c < problem.channels; c += parts) {
      Real gradient[kStrip];
#pragma unroll
      for (int k = 0; k < kStrip; ++k) gradient[k] = k < count ? widen(grad_output[k * strides[2]]) : Real{0};
      if (problem.wants_grid_grad) {
        // All on their way before anything is added.
        Real upper[kStrip][2], lower[kStrip][2];
        const auto load = [&](int32_t offset) { return offset < 0 ? Real{0} : widen(input[offset]); };
#pragma unroll
        for (int k = 0; k < kStrip; ++k) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            upper[k][i] =
                k > 0 && corners[k].follows ? lower[k > 0 ? k - 1 : 0][i] : load(corners[k].upper[i]);
            lower[k][i] = load(corners[k].lower[i]);
          }
        }
#pragma unroll
        for (int k = 0; k < kStrip; ++k) {
          const Real pixels[] = {upper[k][0], upper[k][1], lower[k][0], lower[k][1]};
          add_slopes(pixels, corners[k].to_right, corners[k].to_below, gradient[k], gradients + 2 * k);
        }
      }
      if (problem.wants_input_grad) {
        const auto add = [&](int32_t offset, Real value) {
          if (offset >= 0) sums.add_to(cells + offset, value);
        };
        // `gives`: the right one is the next lane's.
        const auto add_row = [&](const int32_t(&offsets)[2], const Real(&values)[2], bool gives) {
          const int place = offsets[0] & (kQuad - 1);
          if (goes_in_quads && !gives && place != kQuad - 1 && offsets[0] >= 0 &&
              offsets[1] == offsets[0] + 1) {
            Quad<Real> quad;
            for (int i = 0; i < kQuad; ++i)
              quad.lane[i] = i == place ? values[0] : i == place + 1 ? values[1] : Real{0};
            return sums.add_quad(cells + offsets[0] - place, quad, kQuad, true);
          }
          add(offsets[0], values[0]);
          if (!gives) add(offsets[1], values[1]);
        };
        Real carried[2] = {};  // to the lower pixels of the sample above
#pragma unroll
        for (int k = 0; k < kStrip; ++k) {
          const Corners<Real>& at = corners[k];
          const Real to_left = (1 - at.to_right) * gradient[k], to_right = at.to_right * gradient[k];
          Real upper[] = {(1 - at.to_below) * to_left, (1 - at.to_below) * to_right};
          Real lower[] = {at.to_below * to_left, at.to_below * to_right};
          const Real taken_above = lanes.from(lanes.index - 1, upper[1]);
          const Real taken_below = lanes.from(lanes.index - 1, lower[1]);
          if (at.takes) upper[0] += taken_above, lower[0] += taken_below;
          if (at.follows) {
            upper[0] += carried[0], upper[1] += carried[1];
          } else if (k > 0) {
            const Corners<Real>& above = corners[k > 0 ? k - 1 : 0];
            add_row(above.lower, carried, above.gives);
          }
          add_row(at.upper, upper, at.gives);
          carried[0] = lower[0], carried[1] = lower[1];
        }
        const Corners<Real>& last = corners[kStrip - 1];
        add_row(last.lower, carried, last.gives);
      }
      input += parts * problem.input_strides[1];
      grad_output += parts * strides[1];
      cells += parts * sums_strides[1];
    }
    if (!problem.wants_grid_grad) continue;
#pragma unroll
    for (int k = 0; k < kStrip; ++k) {
      if (!corners[k].reads()) gradients[2 * k] = gradients[2 * k + 1] = 0;  // infinity times zero is no zero
    }
    if (parts > 1) sum_parts(gradients, part, parts, &gradients_of_parts[0][0]);
    if (part == 0)
      store_grid_grad<T>(problem, Sample<2>(n, {column, first_row}), count, multipliers, gradients);
  }
}

}  // namespace aclgrad::ops::grid_sampler
