// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Samples of a grid on a GPU whose places fit 32 bits, and the pixels that each reads. Most images and volumes are such, and
// few registers and instructions are what makes few channels fast.
#pragma once

#include "cuda/sums.h"
#include "ops/grid_sampler/cuda_samples.h"

namespace aclgrad::ops::grid_sampler {

// Of grids that are numbered in 32 bits: rectangles have at most a third more threads.
inline constexpr int64_t kMaxSamples = int64_t{1} << 30;

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

// A sample of a grid whose samples are numbered in 32 bits.
template <int kAxes>
struct NearPlace {
  int32_t batch, along[kAxes];  // x, y and z
  bool exists;

  __device__ Sample<kAxes> sample() const {
    int64_t place[kAxes];
    for (int axis = 0; axis < kAxes; ++axis) place[axis] = along[axis];
    return {batch, place};
  }
};

// How blocks share out the samples of a grid. A block has a rectangle of them, and each of its warps two rows of 16: however
// the grid is turned, they read little memory. Where samples fill rectangles badly, a block has a stretch of them.
template <int kAxes>
struct BlocksOfSamples {
  static constexpr int kWidth = 32, kHeight = kThreads / kWidth, kAcross = kWarp / 2;

  bool are_rectangles;
  Divisor across, down;  // rectangles, or samples
  Divisor slices;        // of a volume
  int32_t count;

  explicit BlocksOfSamples(const SamplingOf<kAxes>& problem)
      : are_rectangles(fill_rectangles(problem.output_width, problem.output_height)),
        across(are_rectangles ? divide_up(problem.output_width, int64_t{kWidth}) : problem.output_width),
        down(are_rectangles ? divide_up(problem.output_height, int64_t{kHeight}) : problem.output_height),
        slices(problem.output_depth) {
    count = static_cast<int32_t>(are_rectangles
                                     ? problem.batch * problem.output_depth * across.divisor * down.divisor
                                     : divide_up(Sample<kAxes>::count(problem), int64_t{kThreads}));
  }

  // Of this thread.
  __device__ NearPlace<kAxes> place(int32_t block, const SamplingOf<kAxes>& problem) const {
    const int thread = static_cast<int>(threadIdx.x % kThreads), lane = thread % kWarp, warp = thread / kWarp;
    constexpr int kWarpsAcross = kWidth / kAcross;
    const int32_t first = are_rectangles ? block : block * kThreads + thread;
    const int32_t row = across.quotient(first), slice = down.quotient(row);
    int32_t x = first - row * across.divisor, y = row - slice * down.divisor;
    if (are_rectangles) {
      x = x * kWidth + warp % kWarpsAcross * kAcross + lane % kAcross;
      y = y * kHeight + warp / kWarpsAcross * (kWarp / kAcross) + lane / kAcross;
    }
    NearPlace<kAxes> at{slice, {x, y}, false};
    if constexpr (kAxes == 3)
      at.batch = slices.quotient(slice), at.along[2] = slice - at.batch * slices.divisor;
    at.exists = at.batch < problem.batch && x < problem.output_width && y < problem.output_height;
    return at;
  }

 private:
  static bool fill_rectangles(int64_t width, int64_t height) {
    const int64_t threads =
        divide_up(width, int64_t{kWidth}) * divide_up(height, int64_t{kHeight}) * kThreads;
    return 4 * width * height >= 3 * threads;
  }
};

// From the first element of a channel, or of the grid, in the tensor's first image. `x_axis`: of that tensor; `first_axis`:
// 1 to leave out x.
template <int kAxes>
__device__ int32_t near_offset(const int32_t (&place)[kAxes], const Strides<kAxes>& strides, int x_axis,
                               int first_axis = 0) {
  int32_t offset = 0;
#pragma unroll
  for (int axis = first_axis; axis < kAxes; ++axis)
    offset += place[axis] * static_cast<int32_t>(strides[x_axis - axis]);
  return offset;
}

// Whether 32 bits hold each place of a channel and the numbers of samples and channels. `of_samples`: the strides of a tensor
// [N, C, Ho, Wo] or [N, C, Do, Ho, Wo].
template <int kAxes>
bool has_near_places(const SamplingOf<kAxes>& problem, const Strides<kAxes>& of_samples) {
  const int64_t sizes[] = {problem.width + 1, problem.height + 1, problem.depth + 1};
  const int64_t samples[] = {problem.output_width, problem.output_height, problem.output_depth};
  const auto is_near_along = [](const int64_t* extents, const Strides<kAxes>& strides, int x_axis) {
    int64_t last = 0;
    for (int axis = 0; axis < kAxes; ++axis) last += extents[axis] * std::abs(strides[x_axis - axis]);
    return is_near({{last, 1}});
  };
  const auto& of_grid = problem.grid_strides;
  return is_near_along(sizes, problem.input_strides, kAxes + 1) && is_near_along(samples, of_grid, kAxes) &&
         is_near({{kAxes, of_grid[kAxes + 1]}}) && is_near_along(samples, of_samples, kAxes + 1) &&
         is_near({{problem.channels, 1}}) && Sample<kAxes>::count(problem) <= kMaxSamples;
}

// Pixels of a row that lie side by side: a number that the compiler knows saves registers.
using Neighbours = std::integral_constant<int32_t, 1>;

// A sample and the pixels that it reads: the left and the right one of each row, upper before lower, front before back.
template <class T, int kTaps, int kAxes>
struct NearSample {
  using Real = RealOf<T>;
  static constexpr int kRows = kTaps == 1 ? 1 : 1 << (kAxes - 1), kPixels = kTaps * kRows;

  int32_t first[kAxes];                  // x, y and z of the first pixel, which may lie beside the image
  Real rest[kAxes], multipliers[kAxes];  // rest: from there to the sample
  bool reads, are_pixels[1 << kAxes];

  __device__ NearSample(const SamplingOf<kAxes>& problem, const Axes<kAxes>& axes,
                        const NearPlace<kAxes>& at) {
    const auto& strides = problem.grid_strides;
    const T* grid = static_cast<const T*>(problem.grid) + at.batch * strides[0] +
                    near_offset<kAxes>(at.along, strides, kAxes);
    bool is_there = at.exists, are_inside[kAxes][2];
    reads = true;
#pragma unroll
    for (int axis = 0; axis < kAxes; ++axis) {
      const T* coordinate = grid + axis * static_cast<int32_t>(strides[kAxes + 1]);
      const Taps<Real, kTaps> along(at.exists ? widen(*coordinate) : Real{0}, axes[axis]);
      const auto size = static_cast<int32_t>(axis == 0   ? problem.width
                                             : axis == 1 ? problem.height
                                                         : problem.depth);
      first[axis] = along.first(), rest[axis] = along.rest(), multipliers[axis] = along.multiplier;
      is_there = is_there && along.reads();
      are_inside[axis][0] = first[axis] >= 0 && first[axis] < size;
      are_inside[axis][1] = first[axis] >= -1 && first[axis] < size - 1;
      reads = reads && (are_inside[axis][0] || are_inside[axis][1]);
    }
    reads = reads && is_there;
#pragma unroll
    for (int i = 0; i < 1 << kAxes; ++i) {
      are_pixels[i] = is_there;
      for (int axis = 0; axis < kAxes; ++axis)
        are_pixels[i] = are_pixels[i] && are_inside[axis][i >> axis & 1];
    }
  }

  // Whether most samples of a warp read pixels of a plane far from those of the lane beside them. All lanes call it.
  template <class PixelStride>
  __device__ bool is_scattered(PixelStride) const {
    if (!std::is_same_v<PixelStride, Neighbours>) return false;
    constexpr int kFar = 16;
    bool is_far = false;
#pragma unroll
    for (int axis = 0; axis < kAxes; ++axis)
      is_far |= abs(first[axis] - __shfl_xor_sync(~0u, first[axis], 1)) > kFar;
    return __popc(__ballot_sync(~0u, is_far)) > kWarp / 2;
  }

  // Of the first pixel in a channel.
  template <class PixelStride>
  __device__ int32_t offset(const Strides<kAxes>& strides, PixelStride pixel) const {
    return reads ? first[0] * pixel + near_offset<kAxes>(first, strides, kAxes + 1, 1) : 0;
  }
  // From there to the left pixel of a row.
  __device__ static int64_t step_to(int row, const Strides<kAxes>& strides) {
    return row % 2 * strides[kAxes] + row / 2 * strides[2];
  }

  // Of the pixels of a row: y, and z of volumes.
  __device__ Real row_weight(int row) const {
    const Real of_y = row % 2 == 0 ? 1 - rest[1] : rest[1];
    if constexpr (kAxes == 2) return of_y;
    return (row / 2 == 0 ? 1 - rest[kAxes - 1] : rest[kAxes - 1]) * of_y;
  }

  // Where the left pixels of the rows lie.
  template <class PixelStride>
  __device__ void find_rows(const SamplingOf<kAxes>& problem, const NearPlace<kAxes>& at, int64_t channel,
                            PixelStride pixel, const T* (&rows)[kRows]) const {
    const auto& strides = problem.input_strides;
    const T* first_row = static_cast<const T*>(problem.input) + at.batch * strides[0] + channel * strides[1] +
                         offset(strides, pixel);
#pragma unroll
    for (int k = 0; k < kRows; ++k) rows[k] = first_row + step_to(k, strides);
  }

  // The pixels of a channel, from the left one of each row. Beside the image they are zero.
  template <class PixelStride>
  __device__ void load(const T* const (&rows)[kRows], PixelStride pixel, Real (&values)[kPixels]) const {
#pragma unroll
    for (int i = 0; i < kPixels; ++i) values[i] = are_pixels[i] ? widen(rows[i / 2][i % 2 * pixel]) : Real{0};
  }

  // Where neighbouring lanes read the same pixels, this one's left ones are the right ones of the lane before. Terms for these
  // can meet in registers: one lane takes them, and the other gives them. Any grid is right. All lanes call it.
  struct Meeting {
    bool takes, gives;
  };
  __device__ Meeting meet(const Lanes& lanes, int32_t batch, int32_t offset, int32_t pixel) const {
    // Pixels are the same if they lie in the same place; but beside the image, other pixels may lie there.
    unsigned left = static_cast<unsigned>(batch) << kRows, right = left;
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      left |= are_pixels[2 * k] ? 1u << k : 0u;
      right |= are_pixels[2 * k + 1] ? 1u << k : 0u;
    }
    const int32_t taken = lanes.from(lanes.index - 1, offset + pixel);
    const unsigned taken_pixels = lanes.from(lanes.index - 1, right);
    const bool takes = lanes.index > 0 && taken == offset && taken_pixels == left;
    const bool is_taken = lanes.from(lanes.index + 1, static_cast<int>(takes)) != 0;
    const bool gives = lanes.index != kWarp - 1 && is_taken;
    return {takes, gives};
  }

  // From the sums of add_slopes(). Of a sample that reads nothing: infinity times zero is no zero.
  __device__ void store_grid_grad(const BackwardOf<kAxes>& problem, const NearPlace<kAxes>& at,
                                  const Real (&sums)[kAxes]) const {
    const auto& strides = problem.grid_grad_strides;
    T* grid_grad = static_cast<T*>(problem.grid_grad) + at.sample().offset_in_grid(strides);
#pragma unroll
    for (int axis = 0; axis < kAxes; ++axis)
      grid_grad[axis * strides[kAxes + 1]] = narrow<T>(reads ? multipliers[axis] * sums[axis] : Real{0});
  }
};

// The derivatives of a bilinear sample between its upper left, upper right, lower left and lower right pixels. `rest`: from
// the first to the sample, along x and y.
template <class Real>
__device__ void add_slopes(const Real (&pixels)[4], const Real (&rest)[2], Real gradient, Real* sums) {
  const Real along_x = std::fma(1 - rest[1], pixels[1] - pixels[0], rest[1] * (pixels[3] - pixels[2]));
  const Real along_y = std::fma(1 - rest[0], pixels[2] - pixels[0], rest[0] * (pixels[3] - pixels[1]));
  sums[0] = std::fma(along_x, gradient, sums[0]);
  sums[1] = std::fma(along_y, gradient, sums[1]);
}
// Of a trilinear one between the same in front and behind.
template <class Real>
__device__ void add_slopes(const Real (&voxels)[8], const Real (&rest)[3], Real gradient, Real* sums) {
  Real front[4], back[4], across[4];
  for (int i = 0; i < 4; ++i) {
    front[i] = voxels[i], back[i] = voxels[i + 4], across[i] = back[i] - front[i];
  }
  const Real of_plane[] = {rest[0], rest[1]};
  add_slopes(front, of_plane, (1 - rest[2]) * gradient, sums);
  add_slopes(back, of_plane, rest[2] * gradient, sums);
  const Real above = std::fma(1 - rest[0], across[0], rest[0] * across[1]);
  const Real below = std::fma(1 - rest[0], across[2], rest[0] * across[3]);
  sums[2] = std::fma(std::fma(1 - rest[1], above, rest[1] * below), gradient, sums[2]);
}

// Adds to the left and the right pixel of a row, which lie at these offsets in a plane, or nowhere if these are negative.
// `in_quads`: every fourth offset is on a boundary of four sums. Where terms seldom meet, both then go to memory together, with
// zeros beside them. `gives_right`: the next lane adds the right one.
template <class Real>
__device__ void add_row(const FloatSums<Real>& sums, Real* plane, int32_t left, int32_t right,
                        const Real (&values)[2], bool in_quads, bool gives_right = false) {
  constexpr bool kAddsQuads = kAddsFourAtOnce && std::is_same_v<Real, float>;
  const int place = left & (kQuad - 1);
  if (kAddsQuads && in_quads && !gives_right && place != kQuad - 1 && (left | right) >= 0) {
    Quad<Real> quad;
    for (int i = 0; i < kQuad; ++i)
      quad.lane[i] = i == place ? values[0] : i == place + 1 ? values[1] : Real{0};
    return sums.add_quad(plane + left - place, quad, kQuad, true);
  }
  if (left >= 0) sums.add_to(plane + left, values[0]);
  if (right >= 0 && !gives_right) sums.add_to(plane + right, values[1]);
}

}  // namespace aclgrad::ops::grid_sampler
