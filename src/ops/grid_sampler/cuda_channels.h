// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Kernels for scattered grids on a GPU, and images of many channels: a group of lanes owns a sample, and each lane four
// channels of it. What is read of a pixel and added to it lies side by side, however wild the grid is. Images whose pixels
// do not hold their channels side by side are brought into that order first.
#pragma once

#include "cuda/sums.h"
#include "ops/grid_sampler/cuda_samples.h"

namespace aclgrad::ops::grid_sampler {

// ---- Gradient

// Images and their gradient sums have strides of 1 between channels.
template <class T, int kTaps, class Sums>
__global__ void __launch_bounds__(kThreads, kTaps == 4 ? 3 : kBlocksForHalf)
    scatter_by_channels(Condition condition, BackwardOf<2> problem, Sums sums, Strides<2> sums_strides,
                        Axes<2> axes, int lane_count, bool whole) {
  using Real = RealOf<T>;
  if (!condition.holds()) return;
  if (problem.wants_input_grad) sums.begin();
  const Lanes lanes(lane_count);
  const int64_t samples = Sample<2>::count(problem);
  const int groups = kThreads / lane_count;
  const PiecesOfBlock pieces(divide_up(samples, int64_t{groups}));
  for (int64_t piece = pieces.first; piece < pieces.end; ++piece) {
    const int64_t index = piece * groups + threadIdx.x / lane_count;
    if (index >= samples) return;
    const Sample<2> sample(problem, index);
    const SampleTaps<T, kTaps, 2> taps(problem, sample, axes);
    const auto& strides = problem.input_strides;
    const T* input = static_cast<const T*>(problem.input) + sample.batch * strides[0];
    const T* grad_output =
        static_cast<const T*>(problem.grad_output) + sample.offset(problem.grad_output_strides);
    const int64_t sums_at = sample.batch * sums_strides[0];
    Tap<Real> x[kTaps];
    for (int k = 0; k < kTaps; ++k) x[k] = taps.along[0].tap(k, axes[0]);
    Real x_gradient = 0, y_gradient = 0;
    for (int64_t c = kQuad * lanes.index; c < problem.channels; c += kQuad * lanes.count) {
      const int64_t left = problem.channels - c;
      const Quad<Real> gradient = load_quad(grad_output + c, left, whole);
      // Bicubic, the taps of one row at a time are enough for the registers.
#pragma unroll(kTaps == 4 ? 1 : kTaps)
      for (int j = 0; j < kTaps; ++j) {
        const Tap<Real> y = taps.along[1].tap(j, axes[1]);
        if (y.pixel < 0 || problem.width == 0) continue;
        if (kTaps > 1 && problem.wants_grid_grad) {
          // All on their way before anything is added; what reads no pixel loads the first.
          Quad<Real> values[kTaps];
#pragma unroll
          for (int i = 0; i < kTaps; ++i) {
            const int64_t column = x[i].pixel < 0 ? 0 : x[i].pixel;
            values[i] = load_quad(input + y.pixel * strides[2] + column * strides[3] + c, left, whole);
          }
#pragma unroll
          for (int i = 0; i < kTaps; ++i) {
            if (x[i].pixel < 0) continue;
            const Real product = dot(gradient, values[i], Real{0});
            x_gradient = std::fma(y.weight * x[i].slope, product, x_gradient);
            y_gradient = std::fma(y.slope * x[i].weight, product, y_gradient);
          }
        }
        if (!problem.wants_input_grad) continue;
#pragma unroll
        for (int i = 0; i < kTaps; ++i) {
          if (x[i].pixel < 0) continue;
          Quad<Real> term;
          for (int k = 0; k < kQuad; ++k) term.lane[k] = y.weight * x[i].weight * gradient.lane[k];
          const int64_t row = sums_at + y.pixel * sums_strides[2] + x[i].pixel * sums_strides[3];
          sums.add_quad(sums.cell(row, c), term, left, whole);
        }
      }
    }
    if (!problem.wants_grid_grad) continue;
    Real gradients[] = {x_gradient, y_gradient};
    lanes.sum(gradients);
    if (lanes.index != 0) continue;
    T* grid_grad = static_cast<T*>(problem.grid_grad) + sample.offset_in_grid(problem.grid_grad_strides);
    grid_grad[0] = narrow<T>(taps.along[0].multiplier * gradients[0]);
    grid_grad[problem.grid_grad_strides[3]] = narrow<T>(taps.along[1].multiplier * gradients[1]);
  }
}

// An image [N, C, H, W], in planes, that is copied from or to the workspace. There channels lie side by side.
struct PlanarImage {
  int64_t batch, channels, height, width;
  Strides<2> strides;
  int64_t packed_pixel;  // elements from one pixel to the next in the workspace

  __host__ __device__ int64_t pixels() const { return height * width; }
};

inline constexpr int kTileChannels = 32, kTilePixels = 64;

inline int64_t tiles_of(const PlanarImage& image) {
  return image.batch * divide_up(image.channels, kTileChannels) * divide_up(image.pixels(), kTilePixels);
}

// Calls load and store for the whole image: on one side in_plane(offset, value) for neighbouring pixels, on the other
// packed(offset of the pixel, channel, value) for neighbouring channels. kPacks: values come from the planes.
template <class T, bool kPacks, class InPlane, class Packed>
__device__ void transpose(const PlanarImage& image, InPlane&& in_plane, Packed&& packed) {
  __shared__ T tile[kTileChannels][kTilePixels + 1];  // one more, so that columns do not meet in one bank
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  // 32 bits count the tiles of all that fits any memory.
  const auto pixel_tiles = static_cast<uint32_t>(divide_up(image.pixels(), kTilePixels));
  const auto channel_tiles = static_cast<uint32_t>(divide_up(image.channels, kTileChannels));
  const uint32_t tiles = static_cast<uint32_t>(image.batch) * channel_tiles * pixel_tiles;
  for (uint32_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const uint32_t plane = t / pixel_tiles, n = plane / channel_tiles;
    const int64_t first_pixel = int64_t{kTilePixels} * (t - plane * pixel_tiles);
    const int64_t first_channel = int64_t{kTileChannels} * (plane - n * channel_tiles);
    const auto pixels = static_cast<int>(min(int64_t{kTilePixels}, image.pixels() - first_pixel));
    const auto channels = static_cast<int>(min(int64_t{kTileChannels}, image.channels - first_channel));
    const auto visit_planes = [&] {
      for (int x = lane; x < pixels; x += kWarp) {
        const int64_t pixel = first_pixel + x, row = pixel / image.width;
        int64_t at = n * image.strides[0] + (first_channel + warp) * image.strides[1] +
                     row * image.strides[2] + (pixel - row * image.width) * image.strides[3];
#pragma unroll
        for (int c = warp; c < kTileChannels; c += kWarps, at += kWarps * image.strides[1]) {
          if (c < channels) in_plane(at, tile[c][x]);
        }
      }
    };
    const auto visit_packed = [&] {
      int64_t at = (n * image.pixels() + first_pixel + warp) * image.packed_pixel;
#pragma unroll
      for (int x = warp; x < kTilePixels; x += kWarps, at += kWarps * image.packed_pixel) {
        if (x < pixels && lane < channels) packed(at, first_channel + lane, tile[lane][x]);
      }
    };
    kPacks ? visit_planes() : visit_packed();
    __syncthreads();
    kPacks ? visit_packed() : visit_planes();
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    pack_pixels(Condition condition, PlanarImage image, const T* planes, T* to) {
  if (!condition.holds()) return;
  transpose<T, true>(
      image, [&](int64_t at, T& value) { value = planes[at]; },
      [&](int64_t pixel, int64_t c, T value) { to[pixel + c] = value; });
}

template <class T, class Sums>
__global__ void __launch_bounds__(kThreads)
    store_pixels(Condition condition, PlanarImage image, Sums sums, T* planes) {
  using Real = RealOf<T>;
  if (!condition.holds()) return;
  sums.begin();
  transpose<Real, false>(
      image, [&](int64_t at, Real value) { planes[at] = narrow<T>(value); },
      [&](int64_t pixel, int64_t c, Real& value) { value = sums.value(pixel, c); });
}

// ---- Forward

// Pixels of the input have their channels side by side. A block's samples go through shared memory to planes of the output.
template <class T, int kTaps>
__global__ void __launch_bounds__(kThreads, kBlocksForHalf)
    interpolate_by_channels(Condition condition, ForwardOf<2> problem, Axes<2> axes, int lane_count,
                            bool whole) {
  using Real = RealOf<T>;
  if (!condition.holds()) return;
  __shared__ T tile[kQuad * kThreads + kTileChannels];
  const Lanes lanes(lane_count);
  const int samples_of_tile = kThreads / lanes.count, line = samples_of_tile + 1;
  const int thread = static_cast<int>(threadIdx.x), row = thread / lanes.count;
  const int stored = thread % samples_of_tile, first_stored = thread / samples_of_tile;
  const int64_t samples = Sample<2>::count(problem);
  const PiecesOfBlock pieces(divide_up(samples, int64_t{samples_of_tile}));
  for (int64_t piece = pieces.first; piece < pieces.end; ++piece) {
    const int64_t first = samples_of_tile * piece;
    if (first >= samples) return;
    const Sample<2> sample(problem, min(first + row, samples - 1));
    const Sample<2> to(problem, min(first + stored, samples - 1));
    const SampleTaps<T, kTaps, 2> taps(problem, sample, axes);
    const T* input = static_cast<const T*>(problem.input) + sample.batch * problem.input_strides[0];
    T* output = static_cast<T*>(problem.output) + to.offset(problem.output_strides);
    Tap<Real> x[kTaps];
    for (int k = 0; k < kTaps; ++k) x[k] = taps.along[0].tap(k, axes[0]);
    for (int64_t round = 0; round < problem.channels; round += kQuad * lanes.count) {
      const int64_t c = round + kQuad * lanes.index, left = problem.channels - c;
      Quad<Real> sum;
      for (Real& of : sum.lane) of = taps.is_finite() ? Real{0} : std::numeric_limits<Real>::quiet_NaN();
#pragma unroll(kTaps == 4 ? 1 : kTaps)
      for (int j = 0; j < kTaps; ++j) {
        const Tap<Real> y = taps.along[1].tap(j, axes[1]);
        if (y.pixel < 0 || left <= 0) continue;
#pragma unroll
        for (int i = 0; i < kTaps; ++i) {
          if (x[i].pixel < 0) continue;
          const T* pixel = input + y.pixel * problem.input_strides[2] + x[i].pixel * problem.input_strides[3];
          add_scaled(sum, y.weight * x[i].weight, load_quad(pixel + c, left, whole));
        }
      }
      for (int i = 0; i < kQuad; ++i) tile[(kQuad * lanes.index + i) * line + row] = narrow<T>(sum.lane[i]);
      __syncthreads();
      for (int k = first_stored; k < kQuad * lanes.count; k += lanes.count) {
        if (round + k < problem.channels && first + stored < samples)
          output[(round + k) * problem.output_strides[1]] = tile[k * line + stored];
      }
      __syncthreads();
    }
  }
}

}  // namespace aclgrad::ops::grid_sampler
