// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Three-dimensional grid sampling and its gradient on a GPU. A thread owns a sample and goes through the channels.
// Neighbouring threads own neighbouring samples, so volumes in which the voxels of a channel lie side by side are read in
// long pieces, as far as the grid is smooth.
#include "cuda/sums.h"
#include "ops/grid_sampler/cuda_taps.h"
#include "ops/grid_sampler/kernel.h"
#include "ops/grid_sampler/volume.h"

namespace aclgrad::ops::grid_sampler {

using namespace cuda;

namespace {

using Strides = GridSampling3D::Strides;

// The number of an element in a tensor, from its place on five axes.
__device__ int64_t element_at(const Strides& strides, int64_t n, int64_t c, int64_t z, int64_t y, int64_t x) {
  return n * strides[0] + c * strides[1] + z * strides[2] + y * strides[3] + x * strides[4];
}

struct Sample3D {
  int64_t n, z, y, x;

  __device__ Sample3D(const GridSampling3D& problem, int64_t index)
      : n(index / (problem.output_depth * problem.output_height * problem.output_width)),
        z(index / (problem.output_height * problem.output_width) % problem.output_depth),
        y(index / problem.output_width % problem.output_height),
        x(index % problem.output_width) {}

  // Of the first channel in a tensor [N, C, Do, Ho, Wo].
  __device__ int64_t offset(const Strides& strides) const { return element_at(strides, n, 0, z, y, x); }
  // Of x in a tensor [N, Do, Ho, Wo, 3].
  __device__ int64_t offset_in_grid(const Strides& strides) const {
    return n * strides[0] + z * strides[1] + y * strides[2] + x * strides[3];
  }
};

// The taps of a sample along each axis.
template <class T, int kTaps>
struct SampleTaps3D {
  using Real = RealOf<T>;

  Real multiplier[3];  // voxels for each unit of x, y and z
  Tap<Real> x[kTaps], y[kTaps], z[kTaps];

  __device__ SampleTaps3D(const GridSampling3D& problem, const Sample3D& sample, const VolumeAxes& axes) {
    const T* grid = static_cast<const T*>(problem.grid) + sample.offset_in_grid(problem.grid_strides);
    const int64_t stride = problem.grid_strides[4];
    multiplier[0] = find(grid[0], axes.x, x);
    multiplier[1] = find(grid[stride], axes.y, y);
    multiplier[2] = find(grid[2 * stride], axes.z, z);
  }

 private:
  __device__ static Real find(T coordinate, const Axis& axis, Tap<Real> (&taps)[kTaps]) {
    const Taps<Real, kTaps> of_axis(widen(coordinate), axis);
    for (int k = 0; k < kTaps; ++k) taps[k] = of_axis.tap(k, axis);
    return of_axis.multiplier;
  }
};

template <class T, int kTaps>
__global__ void __launch_bounds__(kThreads) interpolate_3d(GridSampler3D problem, VolumeAxes axes) {
  using Real = RealOf<T>;
  const int64_t samples = problem.batch * problem.output_depth * problem.output_height * problem.output_width;
  for (int64_t index = thread_index(); index < samples; index += thread_count_of_grid()) {
    const Sample3D sample(problem, index);
    const SampleTaps3D<T, kTaps> taps(problem, sample, axes);
    const Strides& strides = problem.input_strides;
    const T* input = static_cast<const T*>(problem.input) + sample.n * strides[0];
    T* output = static_cast<T*>(problem.output) + sample.offset(problem.output_strides);
    for (int64_t c = 0; c < problem.channels; ++c, input += strides[1], output += problem.output_strides[1]) {
      Real sum = 0;
      for (const Tap<Real>& z : taps.z) {
        for (const Tap<Real>& y : taps.y) {
          for (const Tap<Real>& x : taps.x) {
            if (z.pixel < 0 || y.pixel < 0 || x.pixel < 0) continue;
            const Real value = widen(input[element_at(strides, 0, 0, z.pixel, y.pixel, x.pixel)]);
            sum = std::fma(z.weight * y.weight * x.weight, value, sum);
          }
        }
      }
      *output = narrow<T>(sum);
    }
  }
}

template <class T, int kTaps, class Sums>
__global__ void __launch_bounds__(kThreads)
    scatter_3d(GridSampler3DBackward problem, Sums sums, Strides sums_strides, VolumeAxes axes) {
  using Real = RealOf<T>;
  if (problem.wants_input_grad) sums.begin();
  const int64_t samples = problem.batch * problem.output_depth * problem.output_height * problem.output_width;
  for (int64_t index = thread_index(); index < samples; index += thread_count_of_grid()) {
    const Sample3D sample(problem, index);
    const SampleTaps3D<T, kTaps> taps(problem, sample, axes);
    const Strides& strides = problem.input_strides;
    const T* input = static_cast<const T*>(problem.input) + sample.n * strides[0];
    const T* grad_output =
        static_cast<const T*>(problem.grad_output) + sample.offset(problem.grad_output_strides);
    int64_t sums_at = sample.n * sums_strides[0];
    Real gradients[3] = {};
    for (int64_t c = 0; c < problem.channels; ++c) {
      const Real gradient = widen(*grad_output);
      Real slopes[3] = {};
      for (const Tap<Real>& z : taps.z) {
        for (const Tap<Real>& y : taps.y) {
          if (z.pixel < 0 || y.pixel < 0) continue;
          Real row = 0, row_slope = 0;  // of the volume along this row, at the sample's x
          for (const Tap<Real>& x : taps.x) {
            if (x.pixel < 0) continue;
            if (problem.wants_input_grad) {
              sums.add(sums_at + element_at(sums_strides, 0, 0, z.pixel, y.pixel, x.pixel),
                       z.weight * y.weight * x.weight * gradient);
            }
            if (kTaps == 1 || !problem.wants_grid_grad) continue;
            const Real value = widen(input[element_at(strides, 0, 0, z.pixel, y.pixel, x.pixel)]);
            row = std::fma(x.weight, value, row);
            row_slope = std::fma(x.slope, value, row_slope);
          }
          slopes[0] = std::fma(z.weight * y.weight, row_slope, slopes[0]);
          slopes[1] = std::fma(z.weight * y.slope, row, slopes[1]);
          slopes[2] = std::fma(z.slope * y.weight, row, slopes[2]);
        }
      }
      for (int k = 0; k < 3; ++k) gradients[k] = std::fma(slopes[k], gradient, gradients[k]);
      input += strides[1];
      grad_output += problem.grad_output_strides[1];
      sums_at += sums_strides[1];
    }
    if (!problem.wants_grid_grad) continue;
    T* grid_grad = static_cast<T*>(problem.grid_grad) + sample.offset_in_grid(problem.grid_grad_strides);
    for (int k = 0; k < 3; ++k) {
      grid_grad[k * problem.grid_grad_strides[4]] =
          narrow<T>(kTaps == 1 ? Real{0} : taps.multiplier[k] * gradients[k]);
    }
  }
}

// The largest element of grad_output; the largest weight of a term is at most 1.
template <class T>
__global__ void __launch_bounds__(kThreads)
    find_magnitudes_3d(GridSampler3DBackward problem, Magnitudes* magnitudes) {
  LargestMagnitude of_gradients;
  const int64_t samples = problem.batch * problem.output_depth * problem.output_height * problem.output_width;
  for (int64_t i = thread_index(); i < samples * problem.channels; i += thread_count_of_grid()) {
    const Sample3D sample(problem, i % samples);
    const int64_t at =
        sample.offset(problem.grad_output_strides) + i / samples * problem.grad_output_strides[1];
    of_gradients.see(widen(static_cast<const T*>(problem.grad_output)[at]));
  }
  of_gradients.leave_in(&magnitudes->largest[0]);
  if (thread_index() == 0) magnitudes->largest[1] = std::bit_cast<unsigned long long>(1.0);
}

// Sums lie as a contiguous tensor does.
template <class T, class Sums>
__global__ void __launch_bounds__(kThreads) store_gradient_3d(GridSampler3DBackward problem, Sums sums) {
  const int64_t voxels = problem.depth * problem.height * problem.width;
  for (int64_t i = thread_index(); i < problem.batch * problem.channels * voxels;
       i += thread_count_of_grid()) {
    const int64_t plane = i / voxels;
    const int64_t at =
        element_at(problem.input_grad_strides, plane / problem.channels, plane % problem.channels,
                   i / problem.width / problem.height % problem.depth, i / problem.width % problem.height,
                   i % problem.width);
    static_cast<T*>(problem.input_grad)[at] = narrow<T>(sums.value(i));
  }
}

Strides contiguous_strides(const GridSampling3D& problem) {
  const int64_t slice = problem.height * problem.width, volume = problem.depth * slice;
  return {problem.channels * volume, volume, slice, problem.width, 1};
}

int64_t sums_size(const GridSampler3DBackward& problem) {
  return problem.batch * problem.channels * pixels_of(problem);
}

// Gradients that lie side by side in their arithmetic type need no buffer: they are added up where they belong.
bool sums_in_place(const GridSampler3DBackward& problem) {
  const bool rounds = problem.type != DataType::float32 && problem.type != DataType::float64;
  return !rounds && problem.input_grad_strides == contiguous_strides(problem);
}

template <class T>
GradientSums<RealOf<T>> sums_of(const GridSampler3DBackward& problem, const CudaLaunch& on,
                                WorkspaceAllocator& allocator) {
  constexpr int64_t kMaxTaps = 8;  // padding may bring all taps of a sample to one voxel
  return {sums_size(problem), kMaxTaps * samples_of(problem),
          sums_in_place(problem) ? problem.input_grad : nullptr, on, allocator};
}

template <class T, class Sums>
void scatter(const GridSampler3DBackward& problem, const Sums& sums, const CudaLaunch& on) {
  visit_volume_taps(problem.interpolation, [&]<int kTaps>(std::integral_constant<int, kTaps>) {
    launch_for_each(on, problem.batch * samples_of(problem), scatter_3d<T, kTaps, Sums>, problem, sums,
                    contiguous_strides(problem), VolumeAxes(problem, false));
  });
}

template <class T>
void run(const GridSampler3DBackward& problem, void* workspace, const CudaLaunch& on) {
  if (!problem.wants_input_grad) return scatter<T>(problem, FloatSums<RealOf<T>>{nullptr}, on);
  WorkspaceAllocator allocator(workspace);
  sums_of<T>(problem, on, allocator)
      .add_up(
          on,
          [&](Magnitudes* magnitudes) {
            launch_to_fill(on, problem.batch * problem.channels * samples_of(problem), find_magnitudes_3d<T>,
                           problem, magnitudes);
          },
          [&](const auto& sums) { scatter<T>(problem, sums, on); },
          [&]<class Sums>(const Sums& sums) {
            launch_for_each(on, sums_size(problem), store_gradient_3d<T, Sums>, problem, sums);
          });
}

size_t backward_workspace_size(const aclgrad::GridSampler3DBackward& given, const CudaLaunch& on) {
  const GridSampler3DBackward problem(given);
  if (!problem.wants_input_grad) return 0;
  WorkspaceAllocator allocator;
  visit_element_type(problem.type, [&]<class T>(T) { sums_of<T>(problem, on, allocator); });
  return allocator.size();
}

void run_forward(const aclgrad::GridSampler3D& given, void*, const CudaLaunch& on) {
  const GridSampler3D problem(given);
  visit_element_type(problem.type, [&]<class T>(T) {
    visit_volume_taps(problem.interpolation, [&]<int kTaps>(std::integral_constant<int, kTaps>) {
      launch_for_each(on, problem.batch * samples_of(problem), interpolate_3d<T, kTaps>, problem,
                      VolumeAxes(problem, true));
    });
  });
}

void run_backward(const aclgrad::GridSampler3DBackward& given, void* workspace, const CudaLaunch& on) {
  GridSampler3DBackward problem(given);
  // Without voxels there is none to pad with: both gradients are zero, which is what zeros padding makes them.
  if (pixels_of(problem) == 0) problem.padding = Padding::zeros;
  if (!problem.wants_input_grad && !problem.wants_grid_grad) return;
  visit_element_type(problem.type, [&]<class T>(T) { run<T>(problem, workspace, on); });
}

const CudaKernel<aclgrad::GridSampler3D> kForward([](const aclgrad::GridSampler3D&,
                                                     const CudaLaunch&) { return size_t{0}; },
                                                  run_forward);
const CudaKernel<aclgrad::GridSampler3DBackward> kBackward(backward_workspace_size, run_backward);

}  // namespace
}  // namespace aclgrad::ops::grid_sampler
