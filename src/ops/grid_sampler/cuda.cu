// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Two-dimensional grid sampling and its gradient on a GPU.
//
// By samples: a thread owns a sample and goes through the channels. Neighbouring threads own neighbouring samples, so
// images in which the pixels of a channel lie side by side are read in long pieces, as far as the grid is smooth.
//
// By channels, for the gradient of many channels: a group of lanes owns a sample, and each lane four channels of it.
// What is added to a pixel then lies side by side, however wild the grid is. Images whose pixels do not hold their
// channels side by side are brought into that order first.
#include <limits>

#include "cuda/sums.h"
#include "ops/grid_sampler/cuda_taps.h"
#include "ops/grid_sampler/kernel.h"
#include "ops/grid_sampler/layout.h"

namespace aclgrad::ops::grid_sampler {

using namespace cuda;

namespace {

struct Sample {
  int64_t batch, row, column;

  __device__ Sample(const GridSampling& problem, int64_t index)
      : batch(index / (problem.output_height * problem.output_width)),
        row(index / problem.output_width % problem.output_height),
        column(index % problem.output_width) {}

  // Of the first channel in a tensor [N, C, Ho, Wo].
  __device__ int64_t offset(const GridSampling::Strides& strides) const {
    return batch * strides[0] + row * strides[2] + column * strides[3];
  }
  // Of x in a tensor [N, Ho, Wo, 2].
  __device__ int64_t offset_in_grid(const GridSampling::Strides& strides) const {
    return batch * strides[0] + row * strides[1] + column * strides[2];
  }
};

template <class T, int kTaps>
struct SampleTaps {
  using Real = RealOf<T>;

  Taps<Real, kTaps> x, y;

  __device__ SampleTaps(const GridSampling& problem, const Sample& sample, const Axis& x_axis,
                        const Axis& y_axis)
      : SampleTaps(static_cast<const T*>(problem.grid) + sample.offset_in_grid(problem.grid_strides),
                   problem.grid_strides[3], x_axis, y_axis) {}

 private:
  __device__ SampleTaps(const T* grid, int64_t stride, const Axis& x_axis, const Axis& y_axis)
      : x(widen(grid[0]), x_axis), y(widen(grid[stride]), y_axis) {}
};

// ---- Forward

template <class T, int kTaps>
__global__ void __launch_bounds__(kThreads) interpolate(GridSampler2D problem, Axis x_axis, Axis y_axis) {
  using Real = RealOf<T>;
  const int64_t samples = problem.batch * problem.output_height * problem.output_width;
  for (int64_t index = thread_index(); index < samples; index += thread_count_of_grid()) {
    const Sample sample(problem, index);
    const SampleTaps<T, kTaps> taps(problem, sample, x_axis, y_axis);
    const auto& strides = problem.input_strides;
    const T* input = static_cast<const T*>(problem.input) + sample.batch * strides[0];
    T* output = static_cast<T*>(problem.output) + sample.offset(problem.output_strides);
    Tap<Real> x[kTaps], y[kTaps];
    for (int k = 0; k < kTaps; ++k) x[k] = taps.x.tap(k, x_axis), y[k] = taps.y.tap(k, y_axis);
    const bool is_finite = taps.x.is_finite && taps.y.is_finite;
    for (int64_t c = 0; c < problem.channels; ++c, input += strides[1], output += problem.output_strides[1]) {
      Real sum = is_finite ? Real{0} : std::numeric_limits<Real>::quiet_NaN();
      for (int j = 0; j < kTaps; ++j) {
        for (int i = 0; i < kTaps; ++i) {
          if (y[j].pixel < 0 || x[i].pixel < 0) continue;
          const Real value = widen(input[y[j].pixel * strides[2] + x[i].pixel * strides[3]]);
          sum = std::fma(y[j].weight * x[i].weight, value, sum);
        }
      }
      *output = narrow<T>(sum);
    }
  }
}

// ---- Gradient by samples

template <class T, int kTaps, class Sums>
__global__ void __launch_bounds__(kThreads)
    scatter_by_samples(GridSampler2DBackward problem, Sums sums, GridSampling::Strides sums_strides,
                       Axis x_axis, Axis y_axis) {
  using Real = RealOf<T>;
  if (problem.wants_input_grad) sums.begin();
  const int64_t samples = problem.batch * problem.output_height * problem.output_width;
  for (int64_t index = thread_index(); index < samples; index += thread_count_of_grid()) {
    const Sample sample(problem, index);
    const SampleTaps<T, kTaps> taps(problem, sample, x_axis, y_axis);
    const auto& strides = problem.input_strides;
    const T* input = static_cast<const T*>(problem.input) + sample.batch * strides[0];
    const T* grad_output =
        static_cast<const T*>(problem.grad_output) + sample.offset(problem.grad_output_strides);
    Tap<Real> x_taps[kTaps], y_taps[kTaps];
    for (int k = 0; k < kTaps; ++k) x_taps[k] = taps.x.tap(k, x_axis), y_taps[k] = taps.y.tap(k, y_axis);
    int64_t sums_at = sample.batch * sums_strides[0];
    Real x_gradient = 0, y_gradient = 0;
    for (int64_t c = 0; c < problem.channels; ++c) {
      const Real gradient = widen(*grad_output);
      Real x_slope = 0, y_slope = 0;
      for (int j = 0; j < kTaps; ++j) {
        const Tap<Real> y = y_taps[j];
        if (y.pixel < 0) continue;
        Real row = 0, row_slope = 0;  // of the image along this row, at the sample's x
        for (int i = 0; i < kTaps; ++i) {
          const Tap<Real> x = x_taps[i];
          if (x.pixel < 0) continue;
          if (problem.wants_input_grad) {
            sums.add(sums_at + y.pixel * sums_strides[2] + x.pixel * sums_strides[3],
                     y.weight * x.weight * gradient);
          }
          if (kTaps == 1 || !problem.wants_grid_grad) continue;
          const Real value = widen(input[y.pixel * strides[2] + x.pixel * strides[3]]);
          row = std::fma(x.weight, value, row);
          row_slope = std::fma(x.slope, value, row_slope);
        }
        x_slope = std::fma(y.weight, row_slope, x_slope);
        y_slope = std::fma(y.slope, row, y_slope);
      }
      x_gradient = std::fma(x_slope, gradient, x_gradient);
      y_gradient = std::fma(y_slope, gradient, y_gradient);
      input += strides[1];
      grad_output += problem.grad_output_strides[1];
      sums_at += sums_strides[1];
    }
    if (!problem.wants_grid_grad) continue;
    T* grid_grad = static_cast<T*>(problem.grid_grad) + sample.offset_in_grid(problem.grid_grad_strides);
    grid_grad[0] = narrow<T>(kTaps == 1 ? Real{0} : taps.x.multiplier * x_gradient);
    grid_grad[problem.grid_grad_strides[3]] =
        narrow<T>(kTaps == 1 ? Real{0} : taps.y.multiplier * y_gradient);
  }
}

// ---- Gradient by channels

// From so many on, the channels of a pixel fill 32 bytes, which is what memory is moved in, in every type.
constexpr int64_t kFewestChannels = 16;

bool scatters_by_channels(const GridSampler2DBackward& problem) {
  return vectorises_over_channels(problem) && problem.channels >= kFewestChannels;
}

// Images and their gradient sums have strides of 1 between channels.
template <class T, int kTaps, class Sums>
__global__ void __launch_bounds__(kThreads, kBlocksForHalf)
    scatter_by_channels(GridSampler2DBackward problem, Sums sums, GridSampling::Strides sums_strides,
                        Axis x_axis, Axis y_axis, int lane_count, bool whole) {
  using Real = RealOf<T>;
  if (problem.wants_input_grad) sums.begin();
  const Lanes lanes(lane_count);
  const int64_t samples = problem.batch * problem.output_height * problem.output_width;
  for (int64_t index = lanes.group(); index < samples; index += lanes.groups()) {
    const Sample sample(problem, index);
    const SampleTaps<T, kTaps> taps(problem, sample, x_axis, y_axis);
    const auto& strides = problem.input_strides;
    const T* input = static_cast<const T*>(problem.input) + sample.batch * strides[0];
    const T* grad_output =
        static_cast<const T*>(problem.grad_output) + sample.offset(problem.grad_output_strides);
    const int64_t sums_at = sample.batch * sums_strides[0];
    Tap<Real> x[kTaps];
    for (int k = 0; k < kTaps; ++k) x[k] = taps.x.tap(k, x_axis);
    Real x_gradient = 0, y_gradient = 0;
    for (int64_t c = kQuad * lanes.index; c < problem.channels; c += kQuad * lanes.count) {
      const int64_t left = problem.channels - c;
      const Quad<Real> gradient = load_quad(grad_output + c, left, whole);
      // Bicubic, the taps of one row at a time are enough for the registers.
#pragma unroll(kTaps == 4 ? 1 : kTaps)
      for (int j = 0; j < kTaps; ++j) {
        const Tap<Real> y = taps.y.tap(j, y_axis);
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
          sums.add_quad(sums_at + y.pixel * sums_strides[2] + x[i].pixel * sums_strides[3] + c, term, left,
                        whole);
        }
      }
    }
    if (!problem.wants_grid_grad) continue;
    x_gradient = lanes.sum(x_gradient);
    y_gradient = lanes.sum(y_gradient);
    if (lanes.index != 0) continue;
    T* grid_grad = static_cast<T*>(problem.grid_grad) + sample.offset_in_grid(problem.grid_grad_strides);
    grid_grad[0] = narrow<T>(taps.x.multiplier * x_gradient);
    grid_grad[problem.grid_grad_strides[3]] = narrow<T>(taps.y.multiplier * y_gradient);
  }
}

// An image [N, C, H, W] whose axes lie in another order on the other side of a copy.
struct Image {
  int64_t batch, channels, height, width;

  __device__ int64_t offset(const GridSampling::Strides& strides, int64_t n, int64_t c, int64_t pixel) const {
    return n * strides[0] + c * strides[1] + pixel / width * strides[2] + pixel % width * strides[3];
  }
};

constexpr int kTile = 32;

int64_t tiles_of(const Image& image) {
  return image.batch * divide_up(image.channels, kTile) * divide_up(image.height * image.width, kTile);
}

// Calls store(n, c, pixel, load(n, c, pixel)) for the whole image. Neighbouring threads load neighbouring pixels and store
// neighbouring channels, or the other way round.
template <class T, bool kLoadsPixels, class Load, class Store>
__device__ void transpose(const Image& image, Load&& load, Store&& store) {
  __shared__ T tile[kTile][kTile + 1];  // one more, so that columns do not meet in one bank
  const int lane = static_cast<int>(threadIdx.x) % kTile, first_line = static_cast<int>(threadIdx.x) / kTile;
  constexpr int kLines = kThreads / kTile;
  const int64_t pixels = image.height * image.width;
  const int64_t pixel_tiles = divide_up(pixels, kTile), channel_tiles = divide_up(image.channels, kTile);
  for (int64_t t = blockIdx.x; t < image.batch * channel_tiles * pixel_tiles; t += gridDim.x) {
    const int64_t n = t / pixel_tiles / channel_tiles;
    const int64_t first_channel = t / pixel_tiles % channel_tiles * kTile;
    const int64_t first_pixel = t % pixel_tiles * kTile;
    const auto visit = [&](bool along_pixels, int line, auto&& move) {
      const int64_t c = first_channel + (along_pixels ? line : lane);
      const int64_t pixel = first_pixel + (along_pixels ? lane : line);
      if (c < image.channels && pixel < pixels) move(c, pixel);
    };
    for (int line = first_line; line < kTile; line += kLines) {
      visit(kLoadsPixels, line, [&](int64_t c, int64_t pixel) { tile[line][lane] = load(n, c, pixel); });
    }
    __syncthreads();
    for (int line = first_line; line < kTile; line += kLines) {
      visit(!kLoadsPixels, line, [&](int64_t c, int64_t pixel) { store(n, c, pixel, tile[lane][line]); });
    }
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    pack_pixels(Image image, const T* from, GridSampling::Strides from_strides, T* to,
                GridSampling::Strides to_strides) {
  transpose<T, true>(
      image,
      [&](int64_t n, int64_t c, int64_t pixel) { return from[image.offset(from_strides, n, c, pixel)]; },
      [&](int64_t n, int64_t c, int64_t pixel, T value) {
        to[image.offset(to_strides, n, c, pixel)] = value;
      });
}

template <class T, class Sums>
__global__ void __launch_bounds__(kThreads)
    store_pixels(Image image, Sums sums, GridSampling::Strides sums_strides, T* to,
                 GridSampling::Strides to_strides) {
  transpose<RealOf<T>, false>(
      image,
      [&](int64_t n, int64_t c, int64_t pixel) {
        return sums.value(image.offset(sums_strides, n, c, pixel));
      },
      [&](int64_t n, int64_t c, int64_t pixel, RealOf<T> value) {
        to[image.offset(to_strides, n, c, pixel)] = narrow<T>(value);
      });
}

// Of images in the workspace: whole quads of channels.
int64_t pixel_stride(const GridSampling& problem) {
  return divide_up(problem.channels, kQuad) * kQuad;
}

GridSampling::Strides channels_last_strides(int64_t height, int64_t width, int64_t pixel) {
  return {height * width * pixel, 1, width * pixel, pixel};
}

bool reads_input(const GridSampler2DBackward& problem) {
  return problem.wants_grid_grad && problem.interpolation != Interpolation::nearest;
}

template <class T>
bool pixels_hold_quads(const void* data, const GridSampling::Strides& strides) {
  return holds_quads<T>(data, {strides[0], strides[2], strides[3]});
}

// Brings an image into the workspace, unless its channels lie side by side already, and changes data and strides to where
// it then is. With a allocator without memory it only takes the room.
template <class T>
void pack_image(const Image& image, const void*& data, GridSampling::Strides& strides,
                WorkspaceAllocator& allocator, const CudaLaunch* on) {
  if (strides[1] == 1) return;
  const int64_t pixel = divide_up(image.channels, kQuad) * kQuad;
  T* packed = allocator.take<T>(image.batch * image.height * image.width * pixel);
  if (on == nullptr) return;
  const auto packed_strides = channels_last_strides(image.height, image.width, pixel);
  launch(*on, tiles_of(image), kThreads, 0, pack_pixels<T>, image, static_cast<const T*>(data), strides,
         packed, packed_strides);
  data = packed;
  strides = packed_strides;
}

// The problem with its images in the order that the gradient by channels wants. Without a launch it only takes their room.
template <class T>
GridSampler2DBackward with_channels_side_by_side(GridSampler2DBackward problem, WorkspaceAllocator& allocator,
                                                 const CudaLaunch* on) {
  pack_image<T>({problem.batch, problem.channels, problem.output_height, problem.output_width},
                problem.grad_output, problem.grad_output_strides, allocator, on);
  if (reads_input(problem)) {
    pack_image<T>({problem.batch, problem.channels, problem.height, problem.width}, problem.input,
                  problem.input_strides, allocator, on);
  }
  return problem;
}

// ---- Gradient, both implementations

// The largest element of grad_output; the largest weight of a term is at most 1.
template <class T>
__global__ void __launch_bounds__(kThreads)
    find_magnitudes(GridSampler2DBackward problem, Magnitudes* magnitudes) {
  LargestMagnitude of_gradients;
  const int64_t count = problem.batch * problem.channels * problem.output_height * problem.output_width;
  const auto& strides = problem.grad_output_strides;
  for (int64_t i = thread_index(); i < count; i += thread_count_of_grid()) {
    const int64_t row = i / problem.output_width, plane = row / problem.output_height;
    const int64_t at = plane / problem.channels * strides[0] + plane % problem.channels * strides[1] +
                       row % problem.output_height * strides[2] + i % problem.output_width * strides[3];
    of_gradients.see(widen(static_cast<const T*>(problem.grad_output)[at]));
  }
  of_gradients.leave_in(&magnitudes->largest[0]);
  if (thread_index() == 0) magnitudes->largest[1] = std::bit_cast<unsigned long long>(1.0);
}

template <class T, class Sums>
__global__ void __launch_bounds__(kThreads)
    store_gradient(GridSampler2DBackward problem, Sums sums, GridSampling::Strides sums_strides) {
  const int64_t count = problem.batch * problem.channels * problem.height * problem.width;
  const auto& strides = problem.input_grad_strides;
  for (int64_t i = thread_index(); i < count; i += thread_count_of_grid()) {
    const int64_t row = i / problem.width, plane = row / problem.height;
    const int64_t n = plane / problem.channels, c = plane % problem.channels;
    const int64_t y = row % problem.height, x = i % problem.width;
    const int64_t from =
        n * sums_strides[0] + c * sums_strides[1] + y * sums_strides[2] + x * sums_strides[3];
    static_cast<T*>(problem.input_grad)[n * strides[0] + c * strides[1] + y * strides[2] + x * strides[3]] =
        narrow<T>(sums.value(from));
  }
}

GridSampling::Strides planar_strides(const GridSampling& problem) {
  const int64_t plane = problem.height * problem.width;
  return {problem.channels * plane, plane, problem.width, 1};
}

// Gradients that lie side by side in their arithmetic type need no buffer: they are added up where they belong.
bool sums_in_place(const GridSampler2DBackward& problem, const CudaLaunch& on) {
  if (on.deterministic) return false;
  const bool rounds = problem.type != DataType::float32 && problem.type != DataType::float64;
  const auto strides = scatters_by_channels(problem)
                           ? channels_last_strides(problem.height, problem.width, problem.channels)
                           : planar_strides(problem);
  return !rounds && problem.input_grad_strides == strides;
}

GridSampling::Strides sums_strides(const GridSampler2DBackward& problem, const CudaLaunch& on) {
  if (sums_in_place(problem, on)) return problem.input_grad_strides;
  return scatters_by_channels(problem)
             ? channels_last_strides(problem.height, problem.width, pixel_stride(problem))
             : planar_strides(problem);
}

template <class T>
GradientSums<RealOf<T>> sums_of(const GridSampler2DBackward& problem, const CudaLaunch& on,
                                WorkspaceAllocator& allocator) {
  constexpr int64_t kMaxTaps = 16;  // padding may bring all taps of a sample to one pixel
  const bool in_place = sums_in_place(problem, on);
  const int64_t channels =
      scatters_by_channels(problem) && !in_place ? pixel_stride(problem) : problem.channels;
  return {problem.batch * channels * pixels_of(problem), kMaxTaps * samples_of(problem),
          in_place ? problem.input_grad : nullptr, on, allocator};
}

template <class T, class Sums>
void scatter(const GridSampler2DBackward& problem, const Sums& sums, const GridSampling::Strides& strides,
             WorkspaceAllocator& allocator, const CudaLaunch& on) {
  const Axis x_axis = x_axis_of(problem, false), y_axis = y_axis_of(problem, false);
  const int64_t samples = problem.batch * samples_of(problem);
  visit_taps(problem.interpolation, [&]<int kTaps>(std::integral_constant<int, kTaps>) {
    if constexpr (!std::is_same_v<T, double>) {
      if (scatters_by_channels(problem)) {
        const auto packed = with_channels_side_by_side<T>(problem, allocator, &on);
        const bool whole =
            pixels_hold_quads<T>(packed.grad_output, packed.grad_output_strides) &&
            (!reads_input(problem) || pixels_hold_quads<T>(packed.input, packed.input_strides)) &&
            pixels_hold_quads<typename Sums::Cell>(sums.cells, strides);
        const int lanes = lanes_for(problem.channels);
        return launch_for_each(on, samples * lanes, scatter_by_channels<T, kTaps, Sums>, packed, sums,
                               strides, x_axis, y_axis, lanes, whole);
      }
    }
    launch_for_each(on, samples, scatter_by_samples<T, kTaps, Sums>, problem, sums, strides, x_axis, y_axis);
  });
}

template <class T, class Sums>
void store(const GridSampler2DBackward& problem, const Sums& sums, const GridSampling::Strides& strides,
           const CudaLaunch& on) {
  if constexpr (!std::is_same_v<T, double>) {
    if (scatters_by_channels(problem)) {
      const Image image{problem.batch, problem.channels, problem.height, problem.width};
      return launch(on, tiles_of(image), kThreads, 0, store_pixels<T, Sums>, image, sums, strides,
                    static_cast<T*>(problem.input_grad), problem.input_grad_strides);
    }
  }
  launch_for_each(on, problem.batch * problem.channels * pixels_of(problem), store_gradient<T, Sums>, problem,
                  sums, strides);
}

template <class T>
void run(const GridSampler2DBackward& problem, void* workspace, const CudaLaunch& on) {
  WorkspaceAllocator allocator(workspace);
  const GridSampling::Strides strides = sums_strides(problem, on);
  if (!problem.wants_input_grad) {
    return scatter<T>(problem, FloatSums<RealOf<T>>{nullptr}, strides, allocator, on);
  }
  sums_of<T>(problem, on, allocator)
      .add_up(
          on,
          [&](Magnitudes* magnitudes) {
            launch_to_fill(on, problem.batch * problem.channels * samples_of(problem), find_magnitudes<T>,
                           problem, magnitudes);
          },
          [&](const auto& sums) { scatter<T>(problem, sums, strides, allocator, on); },
          [&](const auto& sums) { store<T>(problem, sums, strides, on); });
}

size_t backward_workspace_size(const aclgrad::GridSampler2DBackward& given, const CudaLaunch& on) {
  const GridSampler2DBackward problem(given);
  WorkspaceAllocator allocator;
  visit_element_type(problem.type, [&]<class T>(T) {
    if (problem.wants_input_grad) sums_of<T>(problem, on, allocator);
    if constexpr (!std::is_same_v<T, double>) {
      if (scatters_by_channels(problem)) with_channels_side_by_side<T>(problem, allocator, nullptr);
    }
  });
  return allocator.size();
}

void run_forward(const aclgrad::GridSampler2D& given, void*, const CudaLaunch& on) {
  const GridSampler2D problem(given);
  visit_element_type(problem.type, [&]<class T>(T) {
    visit_taps(problem.interpolation, [&]<int kTaps>(std::integral_constant<int, kTaps>) {
      launch_for_each(on, problem.batch * samples_of(problem), interpolate<T, kTaps>, problem,
                      x_axis_of(problem, true), y_axis_of(problem, true));
    });
  });
}

void run_backward(const aclgrad::GridSampler2DBackward& given, void* workspace, const CudaLaunch& on) {
  GridSampler2DBackward problem(given);
  // Without pixels there is none to pad with: both gradients are zero, which is what zeros padding makes them.
  if (pixels_of(problem) == 0) problem.padding = Padding::zeros;
  if (!problem.wants_input_grad && !problem.wants_grid_grad) return;
  visit_element_type(problem.type, [&]<class T>(T) { run<T>(problem, workspace, on); });
}

const CudaKernel<aclgrad::GridSampler2D> kForward([](const aclgrad::GridSampler2D&,
                                                     const CudaLaunch&) { return size_t{0}; },
                                                  run_forward);
const CudaKernel<aclgrad::GridSampler2DBackward> kBackward(backward_workspace_size, run_backward);

}  // namespace
}  // namespace aclgrad::ops::grid_sampler
