// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Forward, bilinear and nearest, the gradient of the grid alone, and both gradients of few channels or of volumes, on a GPU,
// where places fit 32 bits: a thread owns a sample. And whether a grid is smooth.
#pragma once

#include "ops/grid_sampler/cuda_near.h"

namespace aclgrad::ops::grid_sampler {

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

// ---- Gradient

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
