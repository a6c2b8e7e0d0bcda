// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Forward, bilinear and nearest, on a GPU: images whose rows of pixels lie side by side, and whose places fit 32 bits. Most
// images are such, and few registers and instructions are what makes few channels fast. And whether a grid is smooth.
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

// Whether kernels with 32 bits can do it: channels of the input have rows of neighbouring pixels, and 32 bits hold each place
// of a channel and the number of each sample.
inline bool has_near_rows(const ForwardOf<2>& problem) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  const auto extent = [](int64_t height, int64_t y_stride, int64_t width, int64_t x_stride) {
    return height * std::abs(y_stride) + width * std::abs(x_stride);
  };
  const int64_t height = problem.output_height, width = problem.output_width;
  const auto &of_input = problem.input_strides, &of_grid = problem.grid_strides,
             &of_output = problem.output_strides;
  return of_input[3] == 1 && extent(problem.height + 1, of_input[2], problem.width, 1) <= kLargest &&
         extent(height, of_grid[1], width, of_grid[2]) + std::abs(of_grid[3]) <= kLargest &&
         extent(height, of_output[2], width, of_output[3]) <= kLargest &&
         problem.batch * height * width <= kMostSamples;
}

// As many blocks as a multiprocessor has threads for: these kernels do little but wait for memory. 0 leaves it to the
// compiler. For four channels it needs 32 registers, which are as few; for three it would take more.
template <class T, int kTogether>
inline constexpr int kRowBlocks = kTogether == 3 && sizeof(T) < sizeof(double) ? 2048 / kThreads : 0;

// `parts`: so many threads share the channels of a sample. kTogether: channels that are read before any is written. (The
// compiler does not know that what is written lies elsewhere.)
template <class T, int kTaps, int kTogether>
__global__ void __launch_bounds__(kThreads, kRowBlocks<T, kTogether>)
    interpolate_rows(Condition condition, ForwardOf<2> problem, Axes<2> axes, BlocksOfSamples blocks,
                     Divisor parts, int channels_of_thread) {
  using Real = RealOf<T>;
  if (!condition.holds()) return;
  const PiecesOfBlock pieces(int64_t{blocks.count} * parts.divisor);
  for (int64_t piece = pieces.first; piece < pieces.end; ++piece) {
    const int32_t block = parts.quotient(static_cast<int32_t>(piece));
    const int64_t first_channel =
        (static_cast<int32_t>(piece) - block * parts.divisor) * int64_t{channels_of_thread};
    const auto [n, column, row, exists] = blocks.sample(block, problem);
    if (!exists) continue;
    const auto& of_grid = problem.grid_strides;
    const T* grid = static_cast<const T*>(problem.grid) + n * of_grid[0] +
                    near_offset(column, of_grid[2], row, of_grid[1]);
    const Taps<Real, kTaps> along_x(widen(grid[0]), axes[0]);
    const Taps<Real, kTaps> along_y(widen(grid[static_cast<int32_t>(of_grid[3])]), axes[1]);
    const auto width = static_cast<int32_t>(problem.width), height = static_cast<int32_t>(problem.height);
    const int32_t x = along_x.first(), y = along_y.first();
    const bool reads = along_x.reads() && along_y.reads();
    const bool left = reads && x >= 0 && x < width, right = reads && x >= -1 && x < width - 1;
    const bool top = y >= 0 && y < height, bottom = y >= -1 && y < height - 1;
    const bool are_pixels[] = {left && top, right && top, left && bottom, right && bottom};
    const Real to_right = along_x.rest(), to_below = along_y.rest();
    const Real weights[] = {(1 - to_right) * (1 - to_below), to_right * (1 - to_below),
                            (1 - to_right) * to_below, to_right * to_below};
    constexpr int kPixels = kTaps * kTaps;
    const auto &of_input = problem.input_strides, &of_output = problem.output_strides;
    const bool has_pixels = (left || right) && (top || bottom);
    const T* upper = static_cast<const T*>(problem.input) + n * of_input[0] + first_channel * of_input[1] +
                     (has_pixels ? near_offset(x, 1, y, of_input[2]) : 0);
    const T* lower = upper + of_input[2];
    T* output = static_cast<T*>(problem.output) + n * of_output[0] + first_channel * of_output[1] +
                near_offset(column, of_output[3], row, of_output[2]);
    const auto channels =
        static_cast<int>(min(int64_t{channels_of_thread}, problem.channels - first_channel));
    const auto next = [&]<int kCount>(std::integral_constant<int, kCount>) {
      Real values[kCount][4];
#pragma unroll
      for (int c = 0; c < kCount; ++c) {
        values[c][0] = are_pixels[0] ? widen(upper[0]) : Real{0};
        if constexpr (kTaps == 2) {
          values[c][1] = are_pixels[1] ? widen(upper[1]) : Real{0};
          values[c][2] = are_pixels[2] ? widen(lower[0]) : Real{0};
          values[c][3] = are_pixels[3] ? widen(lower[1]) : Real{0};
        }
        upper += of_input[1], lower += of_input[1];
      }
#pragma unroll
      for (int c = 0; c < kCount; ++c, output += of_output[1]) {
        Real sum = 0;
        for (int i = 0; i < kPixels; ++i) sum = std::fma(kTaps == 1 ? 1 : weights[i], values[c][i], sum);
        *output = narrow<T>(sum);
      }
    };
    int c = 0;
    for (; c + kTogether <= channels; c += kTogether) next(std::integral_constant<int, kTogether>());
    for (; c < channels; ++c) next(std::integral_constant<int, 1>());
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
