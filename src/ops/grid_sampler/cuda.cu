// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Grid sampling and its gradient on a GPU.
//
// In planes: a thread owns a sample and goes through the channels. Neighbouring threads own neighbouring samples, so
// images in which the pixels of a channel lie side by side are read in long pieces, as far as the grid is smooth. Terms of
// the bilinear gradient that meet in a pixel are added up in registers first (cuda_planes.h).
//
// By channels, for scattered grids and images of many channels: a group of lanes owns a sample, and each lane four channels of it. What is read
// of a pixel and added to it then lies side by side, however wild the grid is. Images whose pixels do not hold their channels
// side by side are brought into that order first.
#include <limits>

#include "cuda/sums.h"
#include "ops/grid_sampler/cuda_planes.h"
#include "ops/grid_sampler/kernel.h"
#include "ops/grid_sampler/layout.h"

namespace aclgrad::ops::grid_sampler {

using namespace cuda;

namespace {

// The same, tap by tap.
template <class Real, int kTaps, int kAxes>
struct AllTaps {
  Tap<Real> along[kAxes][kTaps];

  template <class Sample>
  __device__ AllTaps(const Sample& taps, const Axes<kAxes>& axes) {
    for (int axis = 0; axis < kAxes; ++axis) {
      for (int k = 0; k < kTaps; ++k) along[axis][k] = taps.along[axis].tap(k, axes[axis]);
    }
  }
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

// Calls body(RowTaps) for the rows of pixels that a sample reads.
template <class Real, int kTaps, int kAxes, class Body>
__device__ void for_each_row(const AllTaps<Real, kTaps, kAxes>& taps, Body&& body) {
  for (int slice = 0; slice < (kAxes == 2 ? 1 : kTaps); ++slice) {
    for (int row = 0; row < kTaps; ++row) {
      const RowTaps<Real, kAxes> of{taps.along[1][row], taps.along[kAxes - 1][slice]};
      if (of.is_row()) body(of);
    }
  }
}

// ---- Forward

// Offset: an integer that holds the place of any pixel of a channel. The threads of a sample share its channels, where there
// are few samples.
template <class T, int kTaps, int kAxes, class Offset>
__global__ void __launch_bounds__(kThreads)
    interpolate(Condition condition, ForwardOf<kAxes> problem, Axes<kAxes> axes, int64_t channels_of_thread) {
  using Real = RealOf<T>;
  if (!condition.holds()) return;
  // Channels that are read together. Of a scattered grid each fills another part of the first-level cache.
  int together = condition.count == nullptr ? 2 : *condition.count <= kFewJumps * kSampledWarps ? 4 : 1;
  if (kTaps == 4 || kAxes == 3) together = 1;
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
    constexpr int kRows = kAxes == 2 ? kTaps : kTaps * kTaps;
    Offset rows[kRows], columns[kTaps];  // -1 for none
    Real weights[kRows];
    for (int k = 0; k < kRows; ++k) {
      const RowTaps<Real, kAxes> row{taps.along[1][k % kTaps], taps.along[kAxes - 1][k / kTaps]};
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
      return kCount;
    };
    for (int c = 0; c < channels;) {
      const int count = min(together, channels - c);
      c += count >= 4   ? next(std::integral_constant<int, 4>())
           : count >= 2 ? next(std::integral_constant<int, 2>())
                        : next(std::integral_constant<int, 1>());
    }
  }
}

// Whether 32 bits hold the place of each pixel of a channel.
template <int kAxes>
bool is_near(const SamplingOf<kAxes>& problem) {
  const auto& strides = problem.input_strides;
  const int64_t sizes[] = {problem.width, problem.height, problem.depth};
  int64_t last = 0;
  for (int axis = 0; axis < kAxes; ++axis) {
    if (strides[kAxes + 1 - axis] < 0) return false;
    last += sizes[axis] * strides[kAxes + 1 - axis];
  }
  return last <= std::numeric_limits<int32_t>::max();
}

// ---- Gradient by samples

template <class T, int kTaps, class Sums, int kAxes>
__global__ void __launch_bounds__(kThreads, std::is_same_v<T, double> ? 1 : 3)
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
    int64_t sums_at = sample.batch * sums_strides[0];
    Real gradients[kAxes] = {};
    for (int64_t c = 0; c < problem.channels; ++c) {
      const Real gradient = widen(*grad_output);
      Real slopes[kAxes] = {};
      for_each_row(taps, [&](const RowTaps<Real, kAxes>& of) {
        Real row = 0, row_slope = 0;  // of the image along this row, at the sample's x
        for (const Tap<Real>& x : taps.along[0]) {
          if (x.pixel < 0) continue;
          if (problem.wants_input_grad) {
            sums.add(sums_at + of.offset(sums_strides) + x.pixel * sums_strides[kAxes + 1],
                     of.weight() * x.weight * gradient);
          }
          if (kTaps == 1 || !problem.wants_grid_grad) continue;
          const Real value = widen(input[of.offset(strides) + x.pixel * strides[kAxes + 1]]);
          row = std::fma(x.weight, value, row);
          row_slope = std::fma(x.slope, value, row_slope);
        }
        slopes[0] = std::fma(of.weight(), row_slope, slopes[0]);
        slopes[1] = std::fma(of.y_slope(), row, slopes[1]);
        if constexpr (kAxes == 3) slopes[2] = std::fma(of.z_slope(), row, slopes[2]);
      });
      for (int axis = 0; axis < kAxes; ++axis)
        gradients[axis] = std::fma(slopes[axis], gradient, gradients[axis]);
      input += strides[1];
      grad_output += problem.grad_output_strides[1];
      sums_at += sums_strides[1];
    }
    if (!problem.wants_grid_grad) continue;
    T* grid_grad = static_cast<T*>(problem.grid_grad) + sample.offset_in_grid(problem.grid_grad_strides);
    for (int axis = 0; axis < kAxes; ++axis) {
      grid_grad[axis * problem.grid_grad_strides[kAxes + 1]] =
          narrow<T>(kTaps == 1 ? Real{0} : found.along[axis].multiplier * gradients[axis]);
    }
  }
}

// ---- Gradient by channels

// From so many on, the channels of a pixel fill 32 bytes, which is what memory is moved in, in every type.
constexpr int64_t kFewestChannels = 16;

bool works_by_channels(const GridSampling& problem) {
  return vectorises_over_channels(problem) && problem.channels >= kFewestChannels;
}

// Images and their gradient sums have strides of 1 between channels.
template <class T, int kTaps, class Sums>
__global__ void __launch_bounds__(kThreads, kTaps == 4 ? 3 : kBlocksForHalf)
    scatter_by_channels(Condition condition, GridSampler2DBackward problem, Sums sums,
                        Strides<2> sums_strides, Axes<2> axes, int lane_count, bool whole) {
  using Real = RealOf<T>;
  if (!condition.holds()) return;
  if (problem.wants_input_grad) sums.begin();
  const Lanes lanes(lane_count);
  const int64_t samples = problem.batch * problem.output_height * problem.output_width;
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
struct Image {
  int64_t batch, channels, height, width;
  Strides<2> strides;
  int64_t packed_pixel;  // elements from one pixel to the next in the workspace

  __host__ __device__ int64_t pixels() const { return height * width; }
};

constexpr int kTileChannels = 32, kTilePixels = 64;

int64_t tiles_of(const Image& image) {
  return image.batch * divide_up(image.channels, kTileChannels) * divide_up(image.pixels(), kTilePixels);
}

// Calls load and store for the whole image: on one side in_plane(offset, value) for neighbouring pixels, on the other
// packed(offset of the pixel, channel, value) for neighbouring channels. kPacks: values come from the planes.
template <class T, bool kPacks, class InPlane, class Packed>
__device__ void transpose(const Image& image, InPlane&& in_plane, Packed&& packed) {
  __shared__ T tile[kTileChannels][kTilePixels + 1];  // one more, so that columns do not meet in one bank
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  constexpr int kWarps = kThreads / 32;
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
      for (int x = lane; x < pixels; x += 32) {
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
    pack_pixels(Condition condition, Image image, const T* planes, T* to) {
  if (!condition.holds()) return;
  transpose<T, true>(
      image, [&](int64_t at, T& value) { value = planes[at]; },
      [&](int64_t pixel, int64_t c, T value) { to[pixel + c] = value; });
}

template <class T, class Sums>
__global__ void __launch_bounds__(kThreads)
    store_pixels(Condition condition, Image image, Sums sums, T* planes) {
  using Real = RealOf<T>;
  if (!condition.holds()) return;
  sums.begin();
  transpose<Real, false>(
      image, [&](int64_t at, Real value) { planes[at] = narrow<T>(value); },
      [&](int64_t pixel, int64_t c, Real& value) { value = sums.value(pixel, c); });
}

// Of images in the workspace: whole quads of channels.
int64_t pixel_stride(const GridSampling& problem) {
  return divide_up(problem.channels, kQuad) * kQuad;
}

Strides<2> channels_last_strides(int64_t height, int64_t width, int64_t pixel) {
  return {height * width * pixel, 1, width * pixel, pixel};
}

bool reads_input(const GridSampler2DBackward& problem) {
  return problem.wants_grid_grad && problem.interpolation != Interpolation::nearest;
}

template <class T>
bool pixels_hold_quads(const void* data, const Strides<2>& strides) {
  return holds_quads<T>(data, {strides[0], strides[2], strides[3]});
}

// Brings an image into the workspace, unless its channels lie side by side already, and changes data and strides to where
// it then is. With an allocator without memory it only takes the room.
template <class T>
void pack_image(const Image& image, const void*& data, Strides<2>& strides, WorkspaceAllocator& allocator,
                const CudaLaunch* on, const Condition& condition) {
  if (strides[1] == 1) return;
  T* packed = allocator.take<T>(image.batch * image.pixels() * image.packed_pixel);
  if (on == nullptr) return;
  launch_if(*on, condition, tiles_of(image), pack_pixels<T>, image, static_cast<const T*>(data), packed);
  data = packed;
  strides = channels_last_strides(image.height, image.width, image.packed_pixel);
}

// The problem with its images in the order that the gradient by channels wants. Without a launch it only takes their room.
template <class T>
GridSampler2DBackward with_channels_side_by_side(GridSampler2DBackward problem, WorkspaceAllocator& allocator,
                                                 const CudaLaunch* on, const Condition& condition) {
  pack_image<T>({problem.batch, problem.channels, problem.output_height, problem.output_width,
                 problem.grad_output_strides, pixel_stride(problem)},
                problem.grad_output, problem.grad_output_strides, allocator, on, condition);
  if (reads_input(problem)) {
    pack_image<T>({problem.batch, problem.channels, problem.height, problem.width, problem.input_strides,
                   pixel_stride(problem)},
                  problem.input, problem.input_strides, allocator, on, condition);
  }
  return problem;
}

// ---- Forward by channels

// Pixels of the input have their channels side by side. A block's samples go through shared memory to planes of the output.
template <class T, int kTaps>
__global__ void __launch_bounds__(kThreads, kBlocksForHalf)
    interpolate_by_channels(Condition condition, GridSampler2D problem, Axes<2> axes, int lane_count,
                            bool whole) {
  using Real = RealOf<T>;
  if (!condition.holds()) return;
  __shared__ T tile[kQuad * kThreads + kTileChannels];
  const Lanes lanes(lane_count);
  const int samples_of_tile = kThreads / lanes.count, line = samples_of_tile + 1;
  const int thread = static_cast<int>(threadIdx.x), row = thread / lanes.count;
  const int stored = thread % samples_of_tile, first_stored = thread / samples_of_tile;
  const int64_t samples = problem.batch * problem.output_height * problem.output_width;
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

// The problem with its input in that order. Without a launch it only takes the room.
template <class T>
GridSampler2D with_packed_input(GridSampler2D problem, WorkspaceAllocator& allocator, const CudaLaunch* on,
                                const Condition& condition) {
  pack_image<T>({problem.batch, problem.channels, problem.height, problem.width, problem.input_strides,
                 pixel_stride(problem)},
                problem.input, problem.input_strides, allocator, on, condition);
  return problem;
}

// ---- Which implementation

// Whether the gradient's strips can do it: rows of neighbouring pixels whose places fit 32 bits.
template <int kAxes>
bool has_rows(const SamplingOf<kAxes>& problem) {
  return problem.height * problem.width <= std::numeric_limits<int32_t>::max() &&
         problem.input_strides[kAxes] == problem.width && problem.input_strides[kAxes + 1] == 1;
}

// In the forward pass planes are faster than images that have to be brought into another order until so many of 32
// neighbouring samples jump.
constexpr int kMostJumps = 20;

// The same for the gradient. The larger the image is beside its samples, the more that order costs. The choice depends on
// how the images lie, and changes how sums are rounded: what is deterministic leaves it out.
template <int kAxes>
int most_jumps(const BackwardOf<kAxes>& problem, const CudaLaunch& on) {
  if (on.deterministic) return 0;
  const int64_t samples = std::max<int64_t>(samples_of<kAxes>(problem), 1);
  return static_cast<int>(std::min<int64_t>(7 + 2 * pixels_of<kAxes>(problem) / samples, kMostJumps));
}

// Calls way(by_channels, Condition) for each implementation that may be the right one. On smooth grids planes are read in long
// pieces where they lie, on others a pixel's channels. In small problems launches take longer than either.
template <class T, int kAxes, class Way>
void for_each_way(const SamplingOf<kAxes>& problem, int limit, WorkspaceAllocator& allocator,
                  const CudaLaunch* on, Way&& way) {
  if constexpr (!std::is_same_v<T, double> && kAxes == 2) {
    if (works_by_channels(problem)) {
      if (limit == 0 || !has_rows<2>(problem) || problem.interpolation == Interpolation::bicubic)
        return way(true, Condition{});
      constexpr int64_t kFewElements = int64_t{1} << 19;
      if (problem.batch * problem.channels * samples_of<2>(problem) <= kFewElements)
        return way(false, Condition{});
      const auto most = static_cast<unsigned>(limit * kSampledWarps);
      auto* jumps = allocator.take<unsigned>(1);
      if (on != nullptr) {
        zero(*on, jumps, sizeof(unsigned));
        launch(*on, kSampledWarps / kWarps, kThreads, 0, count_jumps<T>, problem, axes_of<2>(problem, true),
               jumps);
      }
      way(false, Condition{jumps, 0, most});
      return way(true, Condition{jumps, most + 1, ~0u});
    }
  }
  way(false, Condition{});
}

// ---- Gradient, all implementations

template <int kAxes>
Shape shape_of(const Strides<kAxes>& entries) {
  return {entries.data(), kAxes + 2};
}
// [N, C, H, W] or [N, C, D, H, W].
template <int kAxes>
Shape shape_of(const BackwardOf<kAxes>& problem, int64_t depth, int64_t height, int64_t width) {
  if constexpr (kAxes == 2) return {problem.batch, problem.channels, height, width};
  return {problem.batch, problem.channels, depth, height, width};
}

template <int kAxes>
Strides<kAxes> planar_strides(const SamplingOf<kAxes>& problem) {
  const int64_t slice = problem.height * problem.width, plane = problem.depth * slice;
  if constexpr (kAxes == 2) return {problem.channels * plane, plane, problem.width, 1};
  if constexpr (kAxes == 3) return {problem.channels * plane, plane, slice, problem.width, 1};
}

// Gradients that lie side by side in their arithmetic type need no buffer: they are added up where they belong.
template <int kAxes>
bool sums_in_place(const BackwardOf<kAxes>& problem, bool by_channels, const CudaLaunch& on) {
  if (on.deterministic) return false;
  const bool rounds = problem.type != DataType::float32 && problem.type != DataType::float64;
  auto strides = planar_strides<kAxes>(problem);
  if constexpr (kAxes == 2) {
    if (by_channels) strides = channels_last_strides(problem.height, problem.width, problem.channels);
  }
  return !rounds && problem.input_grad_strides == strides;
}

template <int kAxes>
Strides<kAxes> sums_strides(const BackwardOf<kAxes>& problem, bool by_channels, const CudaLaunch& on) {
  if (sums_in_place(problem, by_channels, on)) return problem.input_grad_strides;
  if constexpr (kAxes == 2) {
    if (by_channels) return channels_last_strides(problem.height, problem.width, pixel_stride(problem));
  }
  return planar_strides<kAxes>(problem);
}

template <class T, int kAxes>
GradientSums<RealOf<T>> sums_of(const BackwardOf<kAxes>& problem, bool by_channels, const CudaLaunch& on,
                                WorkspaceAllocator& allocator) {
  constexpr int64_t kMaxTaps = kAxes == 2 ? 16 : 8;  // padding may bring all taps of a sample to one pixel
  const bool in_place = sums_in_place(problem, by_channels, on);
  int64_t channels = problem.channels, channels_of_row = 0;
  if constexpr (kAxes == 2) {
    if (by_channels && !in_place) channels = channels_of_row = pixel_stride(problem);
  }
  return {problem.batch * channels * pixels_of<kAxes>(problem),
          kMaxTaps * samples_of<kAxes>(problem),
          channels_of_row,
          in_place ? problem.input_grad : nullptr,
          on,
          allocator};
}

// Warps that share the channels of a strip: more where there are few strips, and as long as each has some channels.
int parts_of(int64_t strips, int64_t channels) {
  constexpr int64_t kManyWarps = 8192, kChannelsOfPart = 2;
  int parts = 1;
  while (parts < kWarps && strips * parts < kManyWarps * kWarp && channels >= 2 * kChannelsOfPart * parts)
    parts *= 2;
  return parts;
}

template <class T, int kTaps, class Sums, int kAxes>
void scatter_in_planes(const BackwardOf<kAxes>& problem, const Sums& sums, const Strides<kAxes>& strides,
                       const Condition& condition, const CudaLaunch& on) {
  const auto axes = axes_of<kAxes>(problem, false);
  const int64_t samples = problem.batch * samples_of<kAxes>(problem);
  if constexpr (kAxes == 2 && kTaps == 2 && std::is_same_v<Sums, FloatSums<RealOf<T>>>) {
    if (!on.deterministic && has_rows<2>(problem)) {
      const int64_t strips =
          problem.batch * divide_up(problem.output_height, int64_t{kStrip}) * problem.output_width;
      const int parts = parts_of(strips, problem.channels);
      return launch_if(on, condition, divide_up(strips * parts, kThreads), scatter_by_strips<T, Sums>,
                       problem, sums, strides, axes, parts);
    }
  }
  const int64_t blocks = divide_up(samples, kThreads);
  launch_if(on, condition, blocks, scatter_by_samples<T, kTaps, Sums, kAxes>, problem, sums, strides, axes);
}

template <class T, int kTaps, class Sums>
void scatter_channels(const BackwardOf<2>& problem, const Sums& sums, const Strides<2>& strides,
                      const Condition& condition, WorkspaceAllocator& allocator, const CudaLaunch& on) {
  const auto packed = with_channels_side_by_side<T>(problem, allocator, &on, condition);
  const bool whole = pixels_hold_quads<T>(packed.grad_output, packed.grad_output_strides) &&
                     (!reads_input(problem) || pixels_hold_quads<T>(packed.input, packed.input_strides)) &&
                     pixels_hold_quads<typename Sums::Cell>(sums.cells, strides);
  const int lanes = lanes_for(problem.channels);
  const int64_t blocks = divide_up(problem.batch * samples_of<2>(problem) * lanes, kThreads);
  // Of blocks that go on and on, those that run together are at places further apart, which takes longer than starting them.
  launch(on, condition.count == nullptr ? blocks : divide_up(blocks, 2), kThreads, 0,
         scatter_by_channels<T, kTaps, Sums>, condition, packed, sums, strides, axes_of<2>(problem, false),
         lanes, whole);
}

template <class T, class Sums, int kAxes>
void scatter(const BackwardOf<kAxes>& problem, const Sums& sums, const Strides<kAxes>& strides,
             bool by_channels, const Condition& condition, WorkspaceAllocator& allocator,
             const CudaLaunch& on) {
  visit_taps_of<kAxes>(problem.interpolation, [&]<int kTaps>(std::integral_constant<int, kTaps>) {
    if constexpr (!std::is_same_v<T, double> && kAxes == 2) {
      if (by_channels) return scatter_channels<T, kTaps>(problem, sums, strides, condition, allocator, on);
    }
    scatter_in_planes<T, kTaps>(problem, sums, strides, condition, on);
  });
}

template <class T, class Sums, int kAxes>
void store(const BackwardOf<kAxes>& problem, const Sums& sums, bool by_channels, const Condition& condition,
           const CudaLaunch& on) {
  if constexpr (!std::is_same_v<T, double> && kAxes == 2) {
    if (by_channels) {
      const Image image{problem.batch, problem.channels,           problem.height,
                        problem.width, problem.input_grad_strides, pixel_stride(problem)};
      return launch_if(on, condition, tiles_of(image), store_pixels<T, Sums>, image, sums,
                       static_cast<T*>(problem.input_grad));
    }
  }
  store_sums(sums, static_cast<T*>(problem.input_grad),
             shape_of(problem, problem.depth, problem.height, problem.width),
             shape_of<kAxes>(problem.input_grad_strides), on, condition);
}

template <class T, int kAxes>
void run(const BackwardOf<kAxes>& problem, bool by_channels, const Condition& condition,
         WorkspaceAllocator& allocator, const CudaLaunch& on) {
  const auto strides = sums_strides(problem, by_channels, on);
  if (!problem.wants_input_grad)
    return scatter<T>(problem, FloatSums<RealOf<T>>{nullptr}, strides, by_channels, condition, allocator, on);
  sums_of<T>(problem, by_channels, on, allocator)
      .add_up(
          on,
          [&](Magnitudes* magnitudes) {
            // The largest weight of a term is at most 1.
            const Shape shape =
                shape_of(problem, problem.output_depth, problem.output_height, problem.output_width);
            find_magnitude_of(static_cast<const T*>(problem.grad_output), shape,
                              shape_of<kAxes>(problem.grad_output_strides), on, magnitudes, 0, true);
          },
          [&](const auto& sums) {
            scatter<T>(problem, sums, strides, by_channels, condition, allocator, on);
          },
          [&](const auto& sums) { store<T>(problem, sums, by_channels, condition, on); }, condition);
}

// What one of the implementations takes, in the same place as the other.
template <class T, int kAxes>
void take_workspace(const BackwardOf<kAxes>& problem, bool by_channels, const CudaLaunch& on,
                    WorkspaceAllocator& allocator) {
  if (problem.wants_input_grad) sums_of<T>(problem, by_channels, on, allocator);
  if constexpr (!std::is_same_v<T, double> && kAxes == 2) {
    if (by_channels) with_channels_side_by_side<T>(problem, allocator, nullptr, Condition{});
  }
}

template <int kAxes, class Problem>
size_t backward_workspace_size(const Problem& given, const CudaLaunch& on) {
  const BackwardOf<kAxes> problem(given);
  size_t largest = 0;
  visit_element_type(problem.type, [&]<class T>(T) {
    WorkspaceAllocator shared;
    for_each_way<T, kAxes>(problem, most_jumps(problem, on), shared, nullptr,
                           [&](bool by_channels, const Condition&) {
                             WorkspaceAllocator own = shared;
                             take_workspace<T>(problem, by_channels, on, own);
                             largest = std::max(largest, own.size());
                           });
  });
  return largest;
}

template <int kAxes, class Problem>
size_t forward_workspace_size(const Problem& given, const CudaLaunch&) {
  const ForwardOf<kAxes> problem(given);
  size_t largest = 0;
  visit_element_type(problem.type, [&]<class T>(T) {
    WorkspaceAllocator shared;
    for_each_way<T, kAxes>(problem, kMostJumps, shared, nullptr, [&](bool by_channels, const Condition&) {
      WorkspaceAllocator own = shared;
      if constexpr (kAxes == 2) {
        if (by_channels) with_packed_input<T>(problem, own, nullptr, Condition{});
      }
      largest = std::max(largest, own.size());
    });
  });
  return largest;
}

template <class T, int kTaps, int kAxes>
void interpolate_all(const ForwardOf<kAxes>& problem, bool by_channels, const Condition& condition,
                     [[maybe_unused]] WorkspaceAllocator& allocator, const CudaLaunch& on) {
  const auto axes = axes_of<kAxes>(problem, true);
  const int64_t samples = problem.batch * samples_of<kAxes>(problem);
  if constexpr (!std::is_same_v<T, double> && kAxes == 2) {
    if (by_channels) {
      const auto packed = with_packed_input<T>(problem, allocator, &on, condition);
      const int lanes = std::min(kTileChannels / kQuad, lanes_for(problem.channels));
      const int64_t blocks = divide_up(samples * lanes, kThreads);
      return launch_if(on, condition, blocks, interpolate_by_channels<T, kTaps>, packed, axes, lanes,
                       pixels_hold_quads<T>(packed.input, packed.input_strides));
    }
  }
  constexpr int64_t kManyThreads = int64_t{1} << 19, kFewestOfThread = 4;
  const int64_t parts = std::clamp<int64_t>(
      std::min(kManyThreads / std::max<int64_t>(samples, 1), problem.channels / kFewestOfThread), 1,
      problem.channels + 1);
  const int64_t channels_of_thread = std::max<int64_t>(divide_up(problem.channels, parts), 1);
  const int64_t blocks = divide_up(samples * divide_up(problem.channels, channels_of_thread), kThreads);
  is_near(problem) ? launch_if(on, condition, blocks, interpolate<T, kTaps, kAxes, int32_t>, problem, axes,
                               channels_of_thread)
                   : launch_if(on, condition, blocks, interpolate<T, kTaps, kAxes, int64_t>, problem, axes,
                               channels_of_thread);
}

template <int kAxes, class Problem>
void run_forward(const Problem& given, void* workspace, const CudaLaunch& on) {
  const ForwardOf<kAxes> problem(given);
  visit_element_type(problem.type, [&]<class T>(T) {
    WorkspaceAllocator shared(workspace);
    for_each_way<T, kAxes>(
        problem, kMostJumps, shared, &on, [&](bool by_channels, const Condition& condition) {
          WorkspaceAllocator own = shared;
          visit_taps_of<kAxes>(problem.interpolation, [&]<int kTaps>(std::integral_constant<int, kTaps>) {
            interpolate_all<T, kTaps>(problem, by_channels, condition, own, on);
          });
        });
  });
}

template <int kAxes, class Problem>
void run_backward(const Problem& given, void* workspace, const CudaLaunch& on) {
  BackwardOf<kAxes> problem(given);
  // Without pixels there is none to pad with: both gradients are zero, which is what zeros padding makes them.
  if (pixels_of<kAxes>(problem) == 0) problem.padding = Padding::zeros;
  if (!problem.wants_input_grad && !problem.wants_grid_grad) return;
  visit_element_type(problem.type, [&]<class T>(T) {
    WorkspaceAllocator shared(workspace);
    for_each_way<T, kAxes>(problem, most_jumps(problem, on), shared, &on,
                           [&](bool by_channels, const Condition& condition) {
                             WorkspaceAllocator own = shared;
                             run<T>(problem, by_channels, condition, own, on);
                           });
  });
}

const CudaKernel<aclgrad::GridSampler2D> kForward(forward_workspace_size<2, aclgrad::GridSampler2D>,
                                                  run_forward<2, aclgrad::GridSampler2D>);
const CudaKernel<aclgrad::GridSampler3D> kForward3D(forward_workspace_size<3, aclgrad::GridSampler3D>,
                                                    run_forward<3, aclgrad::GridSampler3D>);
const CudaKernel<aclgrad::GridSampler2DBackward> kBackward(
    backward_workspace_size<2, aclgrad::GridSampler2DBackward>,
    run_backward<2, aclgrad::GridSampler2DBackward>);
const CudaKernel<aclgrad::GridSampler3DBackward> kBackward3D(
    backward_workspace_size<3, aclgrad::GridSampler3DBackward>,
    run_backward<3, aclgrad::GridSampler3DBackward>);

}  // namespace
}  // namespace aclgrad::ops::grid_sampler
