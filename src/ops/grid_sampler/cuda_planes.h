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

}  // namespace aclgrad::ops::grid_sampler
