// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Bilinear sampling's gradient on a GPU for smooth grids: images are read and added to where they lie, in planes.
//
// A lane owns a strip, samples below each other, and the lanes of a warp neighbouring strips. Where a sample reads the pixels
// right of those of its left neighbour, or below those of the sample above, both add to the same pixels: these terms meet
// in registers, and memory sees one addition in place of four. That is tested sample by sample, so any grid is right.
#pragma once

#include "cuda/sums.h"
#include "ops/grid_sampler/cuda_samples.h"

namespace aclgrad::ops::grid_sampler {

inline constexpr int kStrip = 2;        // samples
inline constexpr int kStripBlocks = 4;  // at least, on a multiprocessor
inline constexpr int kWarp = 32, kWarps = cuda::kThreads / kWarp;

// What the lane has that is so many lanes on.
template <class Value>
__device__ Value from_lane(Value value, int distance) {
  return __shfl_sync(~0u, value, static_cast<int>(threadIdx.x) + distance);
}

// The four pixels of a sample, by their offsets in a plane, or -1 where there is none.
template <class Real>
struct Corners {
  int32_t upper[2] = {-1, -1}, lower[2] = {-1, -1};
  Real to_right = 0, to_below = 0;  // weights of the right and of the lower pixels
  bool takes = false;               // the right pixels of the lane before are its left ones
  bool gives = false;               // its own right ones are the next lane's left ones
  bool follows = false;             // its upper pixels are the lower ones of the sample above

  template <class Taps>
  __device__ void set(const Taps& taps, const Axes<2>& axes, int32_t width) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto x = taps.along[0].tap(i, axes[0]), top = taps.along[1].tap(0, axes[1]),
                 bottom = taps.along[1].tap(1, axes[1]);
      if (x.pixel >= 0 && top.pixel >= 0) upper[i] = top.pixel * width + x.pixel;
      if (x.pixel >= 0 && bottom.pixel >= 0) lower[i] = bottom.pixel * width + x.pixel;
      to_right = x.weight, to_below = bottom.weight;
    }
  }

  // `has_neighbour`: whether the lane before has the strip on the left. All lanes call it.
  __device__ void meet(bool has_neighbour, const Corners* above) {
    const int32_t other_upper = from_lane(upper[1], -1), other_lower = from_lane(lower[1], -1);
    takes = has_neighbour && other_upper == upper[0] && other_lower == lower[0];
    gives = from_lane(static_cast<int>(takes), 1) != 0 && threadIdx.x % kWarp != kWarp - 1;
    follows = above != nullptr && above->lower[0] == upper[0] && above->lower[1] == upper[1] &&
              above->gives == gives;
  }
};

// `parts`: so many warps share the channels of a strip. Images and sums have rows of neighbouring pixels.
template <class T, class Sums>
__global__ void __launch_bounds__(cuda::kThreads, std::is_same_v<T, double> ? 1 : kStripBlocks)
    scatter_by_strips(cuda::Condition condition, BackwardOf<2> problem, Sums sums, Strides<2> sums_strides,
                      Axes<2> axes, int parts) {
  using Real = cuda::RealOf<T>;
  if (!condition.holds()) return;
  if (problem.wants_input_grad) sums.begin();
  __shared__ Real multipliers[2 * kStrip][cuda::kThreads], gradients_of_parts[2 * kStrip][cuda::kThreads];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  const int part = warp & (parts - 1), groups = kWarps / parts;
  const int64_t strips_down = divide_up(problem.output_height, int64_t{kStrip});
  // Samples of an image of as many rows as there are strips below each other.
  SamplingOf<2> strips_of = problem;
  strips_of.output_height = strips_down;
  const int64_t strips = Sample<2>::count(strips_of);
  const cuda::PiecesOfBlock pieces(divide_up(strips, int64_t{kWarp} * groups));
  for (int64_t piece = pieces.first; piece < pieces.end; ++piece) {
    const int64_t index = (piece * groups + warp / parts) * kWarp + lane;
    const Sample<2> strip(strips_of, index < strips ? index : 0);
    const int64_t n = strip.batch, column = strip.place[0], first_row = strip.place[1] * kStrip;
    const auto rows_left = static_cast<int>(min(int64_t{kStrip}, problem.output_height - first_row));
    const int count = index < strips ? rows_left : 0;
    Corners<Real> corners[kStrip];
#pragma unroll
    for (int k = 0; k < kStrip; ++k) {
      if (k < count) {
        const SampleTaps<T, 2, 2> taps(problem, Sample<2>(n, {column, first_row + k}), axes);
        corners[k].set(taps, axes, static_cast<int32_t>(problem.width));
        for (int axis = 0; axis < 2; ++axis) multipliers[2 * k + axis][thread] = taps.along[axis].multiplier;
      }
      corners[k].meet(lane > 0 && column > 0 && index < strips, k == 0 ? nullptr : &corners[k - 1]);
    }
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
      for (int k = 0; k < kStrip; ++k)
        gradient[k] = k < count ? cuda::widen(grad_output[k * strides[2]]) : Real{0};
      if (problem.wants_grid_grad) {
        // All on their way before anything is added.
        Real upper[kStrip][2], lower[kStrip][2];
        const auto load = [&](int32_t offset) { return offset < 0 ? Real{0} : cuda::widen(input[offset]); };
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
          const Real to_right = corners[k].to_right, to_below = corners[k].to_below;
          const Real along_upper = upper[k][1] - upper[k][0], along_lower = lower[k][1] - lower[k][0];
          const Real down_left = lower[k][0] - upper[k][0], down_right = lower[k][1] - upper[k][1];
          const Real x_slope = std::fma(1 - to_below, along_upper, to_below * along_lower);
          const Real y_slope = std::fma(1 - to_right, down_left, to_right * down_right);
          gradients[2 * k] = std::fma(x_slope, gradient[k], gradients[2 * k]);
          gradients[2 * k + 1] = std::fma(y_slope, gradient[k], gradients[2 * k + 1]);
        }
      }
      if (problem.wants_input_grad) {
        const auto add = [&](int32_t offset, Real value) {
          if (offset >= 0) sums.add_to(cells + offset, value);
        };
        Real carried[2] = {};  // to the lower pixels of the sample above
#pragma unroll
        for (int k = 0; k < kStrip; ++k) {
          const Corners<Real>& at = corners[k];
          const Real to_left = (1 - at.to_right) * gradient[k], to_right = at.to_right * gradient[k];
          Real upper[] = {(1 - at.to_below) * to_left, (1 - at.to_below) * to_right};
          Real lower[] = {at.to_below * to_left, at.to_below * to_right};
          const Real taken_above = from_lane(upper[1], -1), taken_below = from_lane(lower[1], -1);
          if (at.takes) upper[0] += taken_above, lower[0] += taken_below;
          if (at.follows) {
            upper[0] += carried[0], upper[1] += carried[1];
          } else if (k > 0) {
            const Corners<Real>& above = corners[k > 0 ? k - 1 : 0];
            add(above.lower[0], carried[0]);
            if (!above.gives) add(above.lower[1], carried[1]);
          }
          add(at.upper[0], upper[0]);
          if (!at.gives) add(at.upper[1], upper[1]);
          carried[0] = lower[0], carried[1] = lower[1];
        }
        const Corners<Real>& last = corners[kStrip - 1];
        add(last.lower[0], carried[0]);
        if (!last.gives) add(last.lower[1], carried[1]);
      }
      input += parts * problem.input_strides[1];
      grad_output += parts * strides[1];
      cells += parts * sums_strides[1];
    }
    if (!problem.wants_grid_grad) continue;
    if (parts > 1) {
#pragma unroll
      for (int i = 0; i < 2 * kStrip; ++i) gradients_of_parts[i][thread] = gradients[i];
      __syncthreads();
      for (int other = 1; part == 0 && other < parts; ++other) {
#pragma unroll
        for (int i = 0; i < 2 * kStrip; ++i) gradients[i] += gradients_of_parts[i][thread + other * kWarp];
      }
      __syncthreads();
    }
    if (part > 0) continue;
    T* grid_grad = static_cast<T*>(problem.grid_grad) +
                   Sample<2>(n, {column, first_row}).offset_in_grid(problem.grid_grad_strides);
#pragma unroll
    for (int i = 0; i < 2 * kStrip; ++i) {
      if (i / 2 >= count) continue;
      grid_grad[i / 2 * problem.grid_grad_strides[1] + i % 2 * problem.grid_grad_strides[3]] =
          cuda::narrow<T>(multipliers[i][thread] * gradients[i]);
    }
  }
}

// ---- Which grids are smooth

// Warps of neighbouring samples that are looked at. A sample jumps that reads another piece of memory than the one before:
// 32 bytes, in which memory is moved. Where so few of a warp do, they read mostly the pixels next to each other.
inline constexpr int kSampledWarps = 1024, kFewJumps = 9;

// How many samples jump.
template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    count_jumps(SamplingOf<2> problem, Axes<2> axes, unsigned* jumps) {
  const int64_t samples = Sample<2>::count(problem);
  const int64_t warp = cuda::thread_index() / kWarp, warps = cuda::thread_count_of_grid() / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t first = samples / warps * warp;
  const Sample<2> sample(problem, min(first + lane, samples - 1));
  const SampleTaps<T, 2, 2> taps(problem, sample, axes);
  const auto x = taps.along[0].tap(0, axes[0]), y = taps.along[1].tap(0, axes[1]);
  const int64_t piece = x.pixel < 0 || y.pixel < 0 ? -1 : (y.pixel * problem.width + x.pixel) / 8;
  const int64_t before = from_lane(piece, -1);
  const unsigned jumps_of_warp =
      cuda::Lanes(kWarp).sum(piece >= 0 && (lane == 0 || piece != before) ? 1u : 0u);
  if (lane == 0) atomicAdd(jumps, jumps_of_warp);
}

}  // namespace aclgrad::ops::grid_sampler
