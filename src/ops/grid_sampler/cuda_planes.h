// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Kernels for images that stay in planes on a GPU: a thread owns a sample and goes through the channels. Neighbouring threads
// own neighbouring samples, so memory is read in long pieces, as far as the grid is smooth. And whether it is.
#pragma once

#include <limits>

#include "cuda/sums.h"
#include "ops/grid_sampler/cuda_near.h"

namespace aclgrad::ops::grid_sampler {

// ---- Forward, of any interpolation and strides

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

// ---- Gradient, of any interpolation and strides

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

// ---- Forward, nearest and bilinear, where places fit 32 bits

// Calls next(number of channels that are read before any is used, as a constant) until all are done. Where samples are
// scattered, it is one: each load is of another piece of memory then, and the cache cannot hold more of them.
template <int kTogether, class Next>
__device__ void for_channels(int channels, bool scattered, Next&& next) {
  int together = scattered ? 0 : channels / kTogether, alone = channels - together * kTogether;
#pragma unroll 1
  for (; together > 0; --together) next(std::integral_constant<int, kTogether>());
#pragma unroll 1
  for (; alone > 0; --alone) next(std::integral_constant<int, 1>());
}

// `parts`: so many threads share the channels of a sample. kTogether: channels that are read before any is written. (The
// compiler does not know that what is written lies elsewhere.)
template <class T, int kTaps, int kAxes, int kTogether, class PixelStride>
__global__ void __launch_bounds__(kThreads)
    interpolate_rows(Condition condition, ForwardOf<kAxes> problem, Axes<kAxes> axes,
                     BlocksOfSamples<kAxes> blocks, Divisor parts, int channels_of_thread,
                     PixelStride pixel) {
  using Real = RealOf<T>;
  using Found = NearSample<T, kTaps, kAxes>;
  if (!condition.holds()) return;
  const PiecesOfBlock pieces(int64_t{blocks.count} * parts.divisor);
  for (int64_t piece = pieces.first; piece < pieces.end; ++piece) {
    const int32_t block = parts.quotient(static_cast<int32_t>(piece));
    const int64_t first_channel =
        (static_cast<int32_t>(piece) - block * parts.divisor) * int64_t{channels_of_thread};
    const auto at = blocks.place(block, problem);
    const Found sample(problem, axes, at);
    const bool scattered = channels_of_thread >= kTogether && sample.is_scattered(pixel);
    if (!at.exists) continue;
    const auto &of_input = problem.input_strides, &of_output = problem.output_strides;
    const T* rows[Found::kRows];
    sample.find_rows(problem, at, first_channel, pixel, rows);
    T* output = static_cast<T*>(problem.output) + at.batch * of_output[0] + first_channel * of_output[1] +
                near_offset<kAxes>(at.along, of_output, kAxes + 1);
    Real weights[Found::kPixels];
    for (int i = 0; i < Found::kPixels; ++i)
      weights[i] = (i % 2 == 0 ? 1 - sample.rest[0] : sample.rest[0]) * sample.row_weight(i / 2);
    const auto channels =
        static_cast<int>(min(int64_t{channels_of_thread}, problem.channels - first_channel));
    const auto next = [&]<int kCount>(std::integral_constant<int, kCount>) {
      Real values[kCount][Found::kPixels];
#pragma unroll
      for (int c = 0; c < kCount; ++c) {
        sample.load(rows, pixel, values[c]);
        for (const T*& row : rows) row += of_input[1];
      }
#pragma unroll
      for (int c = 0; c < kCount; ++c, output += of_output[1]) {
        Real sum = 0;
        for (int i = 0; i < Found::kPixels; ++i)
          sum = std::fma(kTaps == 1 ? 1 : weights[i], values[c][i], sum);
        *output = narrow<T>(sum);
      }
    };
    for_channels<kTogether>(channels, scattered, next);
  }
}

// ---- Gradient, bilinear, where places fit 32 bits

// At least, on a multiprocessor.
template <int kAxes>
inline constexpr int kSlopeBlocks = kAxes == 2 ? 5 : 4;
// Of fewer blocks, each thread has to have more loads under way.
inline constexpr int kManyBlocks = 512;

// The gradient of the grid alone, bilinear.
template <class T, int kAxes, class PixelStride>
__global__ void __launch_bounds__(kThreads, sizeof(T) < sizeof(double) ? kSlopeBlocks<kAxes> : 0)
    find_slopes(Condition condition, BackwardOf<kAxes> problem, Axes<kAxes> axes,
                BlocksOfSamples<kAxes> blocks, PixelStride pixel) {
  using Real = RealOf<T>;
  using Found = NearSample<T, 2, kAxes>;
  constexpr int kTogether = kAxes == 2 ? 4 : 2;
  if (!condition.holds()) return;
  const PiecesOfBlock pieces(blocks.count);
  for (int64_t piece = pieces.first; piece < pieces.end; ++piece) {
    const auto at = blocks.place(static_cast<int32_t>(piece), problem);
    const Found sample(problem, axes, at);
    const bool scattered = blocks.count >= kManyBlocks && sample.is_scattered(pixel);
    if (!at.exists) continue;
    const auto &of_input = problem.input_strides, &of_output = problem.grad_output_strides;
    const T* rows[Found::kRows];
    sample.find_rows(problem, at, 0, pixel, rows);
    const T* grad_output = static_cast<const T*>(problem.grad_output) + at.batch * of_output[0] +
                           near_offset<kAxes>(at.along, of_output, kAxes + 1);
    Real sums[kAxes] = {};
    const auto next = [&]<int kCount>(std::integral_constant<int, kCount>) {
      Real values[kCount][Found::kPixels], gradients[kCount];
#pragma unroll
      for (int c = 0; c < kCount; ++c) {
        gradients[c] = widen(*grad_output);
        sample.load(rows, pixel, values[c]);
        for (const T*& row : rows) row += of_input[1];
        grad_output += of_output[1];
      }
#pragma unroll
      for (int c = 0; c < kCount; ++c) add_slopes(values[c], sample.rest, gradients[c], sums);
    };
    for_channels<kTogether>(static_cast<int>(problem.channels), scattered, next);
    sample.store_grid_grad(problem, at, sums);
  }
}

template <int kAxes>
inline constexpr int kRowBlocks = kAxes == 2 ? 5 : 4;

// The gradient of the image, and of the grid if it is wanted. Pixels have the same places in images and in sums.
template <class T, int kAxes>
__global__ void __launch_bounds__(kThreads, sizeof(T) < sizeof(double) ? kRowBlocks<kAxes> : 1)
    scatter_rows(Condition condition, BackwardOf<kAxes> problem, FloatSums<RealOf<T>> sums,
                 Strides<kAxes> sums_strides, Axes<kAxes> axes, BlocksOfSamples<kAxes> blocks, int32_t pixel,
                 bool whole) {
  using Real = RealOf<T>;
  using Found = NearSample<T, 2, kAxes>;
  if (!condition.holds()) return;
  const Lanes lanes(kWarp);
  const PiecesOfBlock pieces(blocks.count);
  for (int64_t piece = pieces.first; piece < pieces.end; ++piece) {
    const auto at = blocks.place(static_cast<int32_t>(piece), problem);
    const Found sample(problem, axes, at);
    const auto &of_input = problem.input_strides, &of_output = problem.grad_output_strides;
    const int32_t offset = sample.offset(of_input, pixel);
    const auto [takes, gives] = sample.meet(lanes, at.batch, offset, pixel);
    const bool in_quads = whole && __popc(__ballot_sync(~0u, gives)) < kWarp / 2;
    const T* rows[Found::kRows];
    sample.find_rows(problem, at, 0, pixel, rows);
    const T* grad_output = static_cast<const T*>(problem.grad_output) + at.batch * of_output[0] +
                           near_offset<kAxes>(at.along, of_output, kAxes + 1);
    auto* cells = sums.cells + at.batch * sums_strides[0];
    Real slopes[kAxes] = {};
    const auto scatter = [&]<bool kInQuads>(std::bool_constant<kInQuads>) {
#pragma unroll 1
      for (int64_t c = 0; c < problem.channels; ++c) {
        const Real gradient = at.exists ? widen(*grad_output) : Real{0};
        if (problem.wants_grid_grad) {
          Real values[Found::kPixels];
          sample.load(rows, pixel, values);
          add_slopes(values, sample.rest, gradient, slopes);
        }
#pragma unroll
        for (int k = 0; k < Found::kRows; ++k) {
          const Real of_row = sample.row_weight(k) * gradient;
          Real terms[] = {(1 - sample.rest[0]) * of_row, sample.rest[0] * of_row};
          const Real taken = lanes.from(lanes.index - 1, terms[1]);
          if (takes) terms[0] += taken;
          const auto at_row = offset + static_cast<int32_t>(Found::step_to(k, sums_strides));
          add_row(sums, cells, sample.are_pixels[2 * k] ? at_row : -1,
                  sample.are_pixels[2 * k + 1] ? at_row + pixel : -1, terms, kInQuads, gives);
        }
        for (const T*& row : rows) row += of_input[1];
        grad_output += of_output[1];
        cells += sums_strides[1];
      }
    };
    in_quads ? scatter(std::true_type())
             : scatter(std::false_type());  // twice, so that neither needs the other's registers
    if (problem.wants_grid_grad && at.exists) sample.store_grid_grad(problem, at, slopes);
  }
}

// ---- Which grids are smooth

// A sample jumps that reads another piece of memory than those beside and above it: eight elements of a row. So many warps
// are looked at, by one block.
inline constexpr int kSampledBlocks = 8, kSampledWarps = kSampledBlocks * kWarps, kSamplingThreads = 1024;

// One of each of so many parts of all blocks, at another place in each part: otherwise all might be the first of an image.
__device__ inline int32_t sampled_block(int32_t count, int part) {
  const int32_t blocks_of_part = max(count / kSampledBlocks, 1);
  const uint32_t place = static_cast<uint32_t>(part) * 2654435761u % static_cast<uint32_t>(blocks_of_part);
  return static_cast<int32_t>(int64_t{count} * part / kSampledBlocks) + static_cast<int32_t>(place);
}

// How many samples jump.
template <class T>
__global__ void __launch_bounds__(kSamplingThreads)
    count_jumps(SamplingOf<2> problem, Axes<2> axes, BlocksOfSamples<2> blocks, unsigned* jumps) {
  __shared__ unsigned jumps_of_warps[kSamplingThreads / kWarp];
  constexpr int kRounds = kSampledWarps * kWarp / kSamplingThreads;
  const Lanes lanes(kWarp);
  unsigned found = 0;
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const int block = (round * kSamplingThreads + static_cast<int>(threadIdx.x)) / kThreads;
    const auto at = blocks.place(sampled_block(blocks.count, block), problem);
    int32_t piece = -1;
    if (at.exists) {
      const SampleTaps<T, 2, 2> taps(problem, at.sample(), axes);
      const auto x = taps.along[0].tap(0, axes[0]), y = taps.along[1].tap(0, axes[1]);
      if (x.pixel >= 0 && y.pixel >= 0) piece = (y.pixel * static_cast<int32_t>(problem.width) + x.pixel) / 8;
    }
    const int32_t beside = lanes.from(lanes.index - 1, piece);
    const int32_t above = lanes.from(lanes.index - blocks.kAcross, piece);
    const bool has_above = blocks.are_rectangles && lanes.index >= blocks.kAcross;
    const bool has_beside = lanes.index % (blocks.are_rectangles ? blocks.kAcross : kWarp) != 0;
    const bool jumps_beside = !has_beside || piece != beside, jumps_above = !has_above || piece != above;
    found += piece >= 0 && jumps_beside && jumps_above ? 1 : 0;
  }
  found = lanes.sum(found);
  if (lanes.index == 0) jumps_of_warps[threadIdx.x / kWarp] = found;
  __syncthreads();
  found = lanes.sum(jumps_of_warps[lanes.index]);
  if (threadIdx.x == 0) *jumps = found;
}

}  // namespace aclgrad::ops::grid_sampler
