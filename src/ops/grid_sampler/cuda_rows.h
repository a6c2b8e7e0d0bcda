// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Forward, bilinear and nearest, and the gradient of the grid alone, on a GPU: images whose places fit 32 bits. Most images
// are such, and few registers and instructions are what makes few channels fast. And whether a grid is smooth.
#pragma once

#include "ops/grid_sampler/cuda_samples.h"

namespace aclgrad::ops::grid_sampler {

// Of grids that are numbered in 32 bits: rectangles have at most a third more threads.
inline constexpr int64_t kMostSamples = int64_t{1} << 30;

// Division by a number that the host knows, of numbers below 2^31: a multiplication and a shift.
struct Divisor {
  int32_t divisor;
  uint32_t factor;
  int shift = 0;

  explicit Divisor(int64_t by) : divisor(static_cast<int32_t>(std::max<int64_t>(by, 1))) {
    const auto number = static_cast<uint64_t>(divisor);
    while (uint64_t{1} << shift < number) ++shift;
    factor = static_cast<uint32_t>((((uint64_t{1} << shift) - number) << 32) / number + 1);
  }
  __device__ int32_t quotient(int32_t of) const {
    const auto number = static_cast<uint32_t>(of);
    return static_cast<int32_t>((__umulhi(number, factor) + number) >> shift);
  }
};

// How blocks share out the samples of a grid. A block has a rectangle of them, and each of its warps two rows of 16: however
// the grid is turned, they read little memory. Where samples fill rectangles badly, a block has a stretch of them.
struct BlocksOfSamples {
  static constexpr int kWidth = 32, kHeight = kThreads / kWidth, kAcross = kWarp / 2;

  bool are_rectangles;
  Divisor across, down;  // rectangles, or samples
  int32_t count;

  struct Sample {
    int32_t batch, x, y;
    bool exists;
  };

  explicit BlocksOfSamples(const SamplingOf<2>& problem)
      : are_rectangles(fill_rectangles(problem.output_width, problem.output_height)),
        across(are_rectangles ? divide_up(problem.output_width, int64_t{kWidth}) : problem.output_width),
        down(are_rectangles ? divide_up(problem.output_height, int64_t{kHeight}) : problem.output_height) {
    const int64_t samples = problem.batch * problem.output_height * problem.output_width;
    count = static_cast<int32_t>(are_rectangles ? problem.batch * across.divisor * down.divisor
                                                : divide_up(samples, int64_t{kThreads}));
  }

  // Of this thread.
  __device__ Sample sample(int32_t block, const SamplingOf<2>& problem) const {
    const int thread = static_cast<int>(threadIdx.x % kThreads), lane = thread % kWarp, warp = thread / kWarp;
    constexpr int kWarpsAcross = kWidth / kAcross;
    const int32_t first = are_rectangles ? block : block * kThreads + thread;
    const int32_t row = across.quotient(first), batch = down.quotient(row);
    int32_t x = first - row * across.divisor, y = row - batch * down.divisor;
    if (are_rectangles) {
      x = x * kWidth + warp % kWarpsAcross * kAcross + lane % kAcross;
      y = y * kHeight + warp / kWarpsAcross * (kWarp / kAcross) + lane / kAcross;
    }
    return {batch, x, y, batch < problem.batch && x < problem.output_width && y < problem.output_height};
  }

 private:
  static bool fill_rectangles(int64_t width, int64_t height) {
    const int64_t threads =
        divide_up(width, int64_t{kWidth}) * divide_up(height, int64_t{kHeight}) * kThreads;
    return 4 * width * height >= 3 * threads;
  }
};

// Of an element of a channel, or of the grid, in the tensor's first image.
__device__ inline int32_t near_offset(int32_t x, int64_t x_stride, int32_t y, int64_t y_stride) {
  return y * static_cast<int32_t>(y_stride) + x * static_cast<int32_t>(x_stride);
}

// Whether 32 bits hold each place of a channel and the numbers of samples and channels. `of_samples`: the strides of a tensor
// [N, C, Ho, Wo].
inline bool has_near_places(const SamplingOf<2>& problem, const Strides<2>& of_samples) {
  const int64_t height = problem.output_height, width = problem.output_width;
  const auto &of_input = problem.input_strides, &of_grid = problem.grid_strides;
  return is_near({{problem.height + 1, of_input[2]}, {problem.width + 1, of_input[3]}}) &&
         is_near({{height, of_grid[1]}, {width, of_grid[2]}, {1, of_grid[3]}}) &&
         is_near({{height, of_samples[2]}, {width, of_samples[3]}}) && is_near({{problem.channels, 1}}) &&
         problem.batch * height * width <= kMostSamples;
}

// Pixels of a row that lie side by side: a number that the compiler knows saves registers.
using Neighbours = std::integral_constant<int32_t, 1>;

// A sample and the pixels that it reads: upper left, upper right, lower left and lower right.
template <class T, int kTaps>
struct NearSample {
  using Real = RealOf<T>;

  int32_t x, y;  // of the first pixel, which may lie beside the image
  Real to_right, to_below, multipliers[2];
  bool reads, are_pixels[4];

  __device__ NearSample(const SamplingOf<2>& problem, const Axes<2>& axes,
                        const BlocksOfSamples::Sample& at) {
    const auto& strides = problem.grid_strides;
    const T* grid = static_cast<const T*>(problem.grid) + at.batch * strides[0] +
                    near_offset(at.x, strides[2], at.y, strides[1]);
    const Taps<Real, kTaps> along_x(at.exists ? widen(grid[0]) : Real{0}, axes[0]);
    const Taps<Real, kTaps> along_y(at.exists ? widen(grid[static_cast<int32_t>(strides[3])]) : Real{0},
                                    axes[1]);
    const auto width = static_cast<int32_t>(problem.width), height = static_cast<int32_t>(problem.height);
    x = along_x.first(), y = along_y.first();
    to_right = along_x.rest(), to_below = along_y.rest();
    multipliers[0] = along_x.multiplier, multipliers[1] = along_y.multiplier;
    const bool is_there = at.exists && along_x.reads() && along_y.reads();
    const bool left = is_there && x >= 0 && x < width, right = is_there && x >= -1 && x < width - 1;
    const bool top = y >= 0 && y < height, bottom = y >= -1 && y < height - 1;
    are_pixels[0] = left && top, are_pixels[1] = right && top;
    are_pixels[2] = left && bottom, are_pixels[3] = right && bottom;
    reads = (left || right) && (top || bottom);
  }

  // Whether most samples of a warp read pixels of a plane far from those of the lane beside them. All lanes call it.
  template <class PixelStride>
  __device__ bool is_scattered(PixelStride) const {
    if (!std::is_same_v<PixelStride, Neighbours>) return false;
    constexpr int kFar = 16;
    const int32_t from_x = x - __shfl_xor_sync(~0u, x, 1), from_y = y - __shfl_xor_sync(~0u, y, 1);
    return __popc(__ballot_sync(~0u, abs(from_x) > kFar || abs(from_y) > kFar)) > kWarp / 2;
  }

  // Of the first pixel in a channel.
  template <class PixelStride>
  __device__ int32_t offset(int64_t row, PixelStride pixel) const {
    return reads ? near_offset(x, pixel, y, row) : 0;
  }

  // From the first pixel of a channel, and the one below it. Beside the image they are zero.
  template <class PixelStride>
  __device__ void load(const T* upper, const T* lower, PixelStride pixel, Real (&values)[4]) const {
    values[0] = are_pixels[0] ? widen(*upper) : Real{0};
    if constexpr (kTaps == 2) {
      values[1] = are_pixels[1] ? widen(upper[pixel]) : Real{0};
      values[2] = are_pixels[2] ? widen(*lower) : Real{0};
      values[3] = are_pixels[3] ? widen(lower[pixel]) : Real{0};
    }
  }
};

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
template <class T, int kTaps, int kTogether, class PixelStride>
__global__ void __launch_bounds__(kThreads)
    interpolate_rows(Condition condition, ForwardOf<2> problem, Axes<2> axes, BlocksOfSamples blocks,
                     Divisor parts, int channels_of_thread, PixelStride pixel) {
  using Real = RealOf<T>;
  if (!condition.holds()) return;
  const PiecesOfBlock pieces(int64_t{blocks.count} * parts.divisor);
  for (int64_t piece = pieces.first; piece < pieces.end; ++piece) {
    const int32_t block = parts.quotient(static_cast<int32_t>(piece));
    const int64_t first_channel =
        (static_cast<int32_t>(piece) - block * parts.divisor) * int64_t{channels_of_thread};
    const auto at = blocks.sample(block, problem);
    const NearSample<T, kTaps> sample(problem, axes, at);
    const bool scattered = channels_of_thread >= kTogether && sample.is_scattered(pixel);
    if (!at.exists) continue;
    const auto &of_input = problem.input_strides, &of_output = problem.output_strides;
    const T* upper = static_cast<const T*>(problem.input) + at.batch * of_input[0] +
                     first_channel * of_input[1] + sample.offset(of_input[2], pixel);
    const T* lower = upper + of_input[2];
    T* output = static_cast<T*>(problem.output) + at.batch * of_output[0] + first_channel * of_output[1] +
                near_offset(at.x, of_output[3], at.y, of_output[2]);
    const Real to_right = sample.to_right, to_below = sample.to_below;
    const Real weights[] = {(1 - to_right) * (1 - to_below), to_right * (1 - to_below),
                            (1 - to_right) * to_below, to_right * to_below};
    const auto channels =
        static_cast<int>(min(int64_t{channels_of_thread}, problem.channels - first_channel));
    const auto next = [&]<int kCount>(std::integral_constant<int, kCount>) {
      Real values[kCount][4];
#pragma unroll
      for (int c = 0; c < kCount; ++c) {
        sample.load(upper, lower, pixel, values[c]);
        upper += of_input[1], lower += of_input[1];
      }
#pragma unroll
      for (int c = 0; c < kCount; ++c, output += of_output[1]) {
        Real sum = 0;
        for (int i = 0; i < kTaps * kTaps; ++i)
          sum = std::fma(kTaps == 1 ? 1 : weights[i], values[c][i], sum);
        *output = narrow<T>(sum);
      }
    };
    for_channels<kTogether>(channels, scattered, next);
  }
}

inline constexpr int kSlopeBlocks = 6;  // at least, on a multiprocessor
// Of fewer blocks, each thread has to have more loads under way.
inline constexpr int kManyBlocks = 512;

// The gradient of the grid alone, bilinear.
template <class T, class PixelStride>
__global__ void __launch_bounds__(kThreads, sizeof(T) < sizeof(double) ? kSlopeBlocks : 0)
    find_slopes(Condition condition, BackwardOf<2> problem, Axes<2> axes, BlocksOfSamples blocks,
                PixelStride pixel) {
  using Real = RealOf<T>;
  if (!condition.holds()) return;
  const PiecesOfBlock pieces(blocks.count);
  for (int64_t piece = pieces.first; piece < pieces.end; ++piece) {
    const auto at = blocks.sample(static_cast<int32_t>(piece), problem);
    const NearSample<T, 2> sample(problem, axes, at);
    const bool scattered = blocks.count >= kManyBlocks && sample.is_scattered(pixel);
    if (!at.exists) continue;
    const auto &of_input = problem.input_strides, &of_output = problem.grad_output_strides;
    const T* upper =
        static_cast<const T*>(problem.input) + at.batch * of_input[0] + sample.offset(of_input[2], pixel);
    const T* lower = upper + of_input[2];
    const T* grad_output = static_cast<const T*>(problem.grad_output) + at.batch * of_output[0] +
                           near_offset(at.x, of_output[3], at.y, of_output[2]);
    Real sums[2] = {};
    const auto next = [&]<int kCount>(std::integral_constant<int, kCount>) {
      Real values[kCount][4], gradients[kCount];
#pragma unroll
      for (int c = 0; c < kCount; ++c) {
        gradients[c] = widen(*grad_output);
        sample.load(upper, lower, pixel, values[c]);
        upper += of_input[1], lower += of_input[1], grad_output += of_output[1];
      }
#pragma unroll
      for (int c = 0; c < kCount; ++c)
        add_slopes(values[c], sample.to_right, sample.to_below, gradients[c], sums);
    };
    for_channels<kQuad>(static_cast<int>(problem.channels), scattered, next);
    const auto& strides = problem.grid_grad_strides;
    T* grid_grad =
        static_cast<T*>(problem.grid_grad) + Sample<2>(at.batch, {at.x, at.y}).offset_in_grid(strides);
    // Of a sample that reads nothing: infinity times zero is no zero.
    grid_grad[0] = narrow<T>(sample.reads ? sample.multipliers[0] * sums[0] : Real{0});
    grid_grad[strides[3]] = narrow<T>(sample.reads ? sample.multipliers[1] * sums[1] : Real{0});
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
    count_jumps(SamplingOf<2> problem, Axes<2> axes, BlocksOfSamples blocks, unsigned* jumps) {
  __shared__ unsigned jumps_of_warps[kSamplingThreads / kWarp];
  constexpr int kRounds = kSampledWarps * kWarp / kSamplingThreads;
  const Lanes lanes(kWarp);
  unsigned found = 0;
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const int block = (round * kSamplingThreads + static_cast<int>(threadIdx.x)) / kThreads;
    const auto [n, column, row, exists] = blocks.sample(sampled_block(blocks.count, block), problem);
    int32_t piece = -1;
    if (exists) {
      const SampleTaps<T, 2, 2> taps(problem, Sample<2>(n, {column, row}), axes);
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
