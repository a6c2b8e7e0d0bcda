// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Runs the operators on the CPU: answers empty problems, and chooses an implementation for all others.
#include "ops/grid_sampler/implementations.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "ops/grid_sampler/kernel.h"

namespace aclgrad::ops::grid_sampler {
namespace {

// ---- The implementations: what each is right for, and where it is the fastest

bool is_nearest(const Sampling& sampling) {
  return sampling.interpolation == Interpolation::nearest;
}

bool interpolates(const Sampling& sampling) {
  return !is_nearest(sampling);
}

bool has_floats(const Sampling& sampling) {
  return sampling.type != DataType::float64;
}

Suits suits_all(const Sampling&) {
  return Suits::all_grids;
}

size_t no_workspace(const Sampling&) {
  return 0;
}

// Few channels that do not lie side by side in rows.
Suits suits_planes(const Sampling& sampling) {
  if (sampling.has_plain_rows || sampling.channels > kFewChannels) return Suits::no;
  return are_dense(sampling.samples, sampling.pixels) ? Suits::all_grids : Suits::no;
}

// More channels are packed for the other way, which takes long where pixels lie side by side in rows.
Suits suits_samples(const Sampling& sampling) {
  const bool is_bicubic = sampling.interpolation == Interpolation::bicubic;
  if (has_few_channels(sampling) || !sampling.vectorises_over_channels) return Suits::all_grids;
  if (!sampling.has_plain_rows || sampling.input.first.column_stride != 1) return Suits::no;
  constexpr int64_t kMaxOfVolumes = 16, kMaxBicubic = 8, kMinPacked = 8;  // channels
  if (sampling.axis_count == 3)
    return sampling.channels <= kMaxOfVolumes ? Suits::all_grids : Suits::rough_grids;
  if (sampling.type != DataType::float32 || !sampling.output.first.has_contiguous_channels())
    return Suits::no;
  if (is_bicubic) return sampling.channels <= kMaxBicubic ? Suits::smooth_grids : Suits::no;
  constexpr int64_t kCacheElements = 1 << 21;
  const bool is_large = sampling.channels * sampling.pixels > kCacheElements;
  return sampling.channels < kMinPacked || is_large ? Suits::smooth_grids : Suits::no;
}

Suits suits_nearest(const Sampling& sampling) {
  if (has_few_channels(sampling) || !sampling.vectorises_over_channels || sampling.axis_count == 3)
    return Suits::all_grids;
  // Many channels of scattered pixels are far apart, unless the second-level cache holds them all.
  int64_t max_elements = 1 << 17;
  if (sampling.type == DataType::float32) max_elements = sampling.channels <= 16 ? 1 << 19 : 1 << 18;
  const bool is_small = sampling.channels * sampling.pixels <= max_elements;
  return sampling.input.first.column_stride != 1 || is_small ? Suits::all_grids : Suits::smooth_grids;
}

// The gradient has other bits by channels, which therefore must not depend on strides, nor on the grid; but for sums that
// are the same.
Suits suits_gradient_of_samples(const Sampling& sampling) {
  constexpr int64_t kCacheElements = 1 << 21, kMaxScattered = 1 << 22;
  if (!sampling.vectorises_over_channels) return Suits::all_grids;
  if (!sums_lanes(sampling)) return Suits::no;
  const int64_t elements = sampling.channels * sampling.pixels;
  if (elements < kCacheElements) return Suits::all_grids;
  return elements <= kMaxScattered ? Suits::scattered_grids : Suits::no;
}

// Of nearest interpolation all have the same bits.
Suits suits_gradient_of_nearest(const Sampling& sampling) {
  const Image &sums = sampling.input_grad.first, &output = sampling.output.first;
  const bool has_channels_last = sums.channel_stride == 1 && output.channel_stride == 1;
  constexpr int64_t kMaxChannels = 16, kMaxElements = 1 << 21;  // of volumes, of images
  const bool is_small = sampling.axis_count == 3 ? sampling.channels <= kMaxChannels
                                                 : sampling.channels * sampling.pixels <= kMaxElements;
  return is_small || has_channels_last || !sampling.vectorises_over_channels ? Suits::all_grids : Suits::no;
}

Suits suits(const Implementation& implementation, const Sampling& sampling) {
  return implementation.applies(sampling) ? implementation.suits(sampling) : Suits::no;
}

// Forward all give the same bits.
constexpr Implementation kForward[] = {
    {"nearest", is_nearest, suits_nearest, no_workspace, sample_nearest},
    {"by_samples_of_planes", interpolates, suits_planes, sample_planes_workspace_size, sample_planes},
    {"by_samples", interpolates, suits_samples, no_workspace, sample_by_samples},
    {"by_channels", has_floats, suits_all, sample_by_channels_workspace_size, sample_by_channels},
};

// By samples each term of grad_input is rounded before it is added, and grad_grid comes from differences of pixels.
// "by_channels" fuses product and sum.
constexpr Implementation kGradient[] = {
    {"nearest", is_nearest, suits_gradient_of_nearest, grad_nearest_workspace_size, grad_nearest},
    {"by_samples", interpolates, suits_gradient_of_samples, grad_by_samples_workspace_size, grad_by_samples},
    {"by_channels", has_floats, suits_all, grad_by_channels_workspace_size, grad_by_channels},
};

// ---- The choice, for samplings that are not empty

// Returns the bytes that suffice for every implementation that may be chosen.
size_t workspace_size(std::span<const Implementation> implementations, const Sampling& sampling) {
  size_t size = 0;
  for (const Implementation& candidate : implementations) {
    const Suits grids = suits(candidate, sampling);
    if (grids != Suits::no) size = std::max(size, candidate.workspace_size(sampling));
    if (grids == Suits::all_grids) break;
  }
  return size;
}

bool has_such_grids(const Sampling& sampling, Suits grids) {
  if (grids == Suits::all_grids) return true;
  if (grids == Suits::scattered_grids) return is_grid_scattered(sampling);
  return is_grid_smooth(sampling) == (grids == Suits::smooth_grids);
}

// The first one in the list that applies and suits. Its name is logged at the debug level.
void run(const char* operator_name, std::span<const Implementation> implementations, const Sampling& sampling,
         void* workspace) {
  for (const Implementation& candidate : implementations) {
    const Suits grids = suits(candidate, sampling);
    if (grids == Suits::no) continue;
    if (!has_such_grids(sampling, grids)) continue;
    if (log_enabled(LogLevel::debug))
      log(LogLevel::debug, fmt::format("{}: {}", operator_name, candidate.name));
    return candidate.run(sampling, workspace);
  }
}

// ---- Forward

// Whether there is something to write.
bool has_output(const Sampling& sampling) {
  return sampling.batch != 0 && sampling.channels != 0 && sampling.samples != 0;
}

size_t forward_workspace_size(const Sampling& sampling) {
  return has_output(sampling) ? workspace_size(kForward, sampling) : 0;
}

template <class Problem>
void run_forward(const char* name, const Problem& problem, void* workspace) {
  const Sampling sampling = sampling_of(problem);
  if (has_output(sampling)) run(name, kForward, sampling, workspace);
}

// ---- Gradient

bool has_gradient(const Sampling& sampling) {
  return !is_empty(sampling) && (sampling.wants_input_grad || sampling.wants_grid_grad);
}

size_t gradient_workspace_size(const Sampling& sampling) {
  return has_gradient(sampling) ? workspace_size(kGradient, sampling) : 0;
}

template <class Problem>
void run_gradient(const char* name, const Problem& problem, void* workspace) {
  const Sampling sampling = sampling_of(problem);
  if (sampling.wants_input_grad && is_empty(sampling)) zero_images(sampling.input_grad, sampling.batch);
  if (problem.grad_grid.defined() && (is_empty(sampling) || !sampling.wants_grid_grad))
    zero_images(sampling.grid_grad, sampling.batch);
  if (has_gradient(sampling)) run(name, kGradient, sampling, workspace);
}

// ---- The gradient's gradient

bool is_zero(const DoubleBackward& sampling) {
  return is_empty(sampling) || !(sampling.has_grad_grad_input || sampling.has_grad_grad_grid);
}

bool has_second(const DoubleBackward& sampling) {
  return !is_zero(sampling) &&
         (sampling.wants_grad_grad_output || sampling.wants_input_grad || sampling.wants_grid_grad);
}

// Nearest interpolation is linear in the image, and does not depend on the grid otherwise.
Sampling nearest_of(const DoubleBackward& sampling) {
  Sampling nearest = sampling;
  nearest.input = sampling.grad_grad_input;
  nearest.has_plain_rows = has_plain_rows(nearest.input.first);
  nearest.output = sampling.grad_grad_output;
  return nearest;
}

size_t double_backward_workspace_size(const DoubleBackward& sampling) {
  if (!has_second(sampling)) return 0;
  if (sampling.interpolation == Interpolation::nearest) return workspace_size(kForward, nearest_of(sampling));
  return sampling.vectorises_over_channels ? double_backward_by_channels_workspace_size(sampling)
                                           : double_backward_by_samples_workspace_size(sampling);
}

template <class Problem>
void run_double_backward(const char* name, const Problem& problem, void* workspace) {
  const DoubleBackward sampling = sampling_of(problem);
  const bool zeros = is_zero(sampling);
  if (sampling.wants_grad_grad_output && zeros) zero_images(sampling.grad_grad_output, sampling.batch);
  if (problem.grad_input.defined() && (zeros || !sampling.wants_input_grad))
    zero_images(sampling.input_grad, sampling.batch);
  if (problem.grad_grid.defined() && (zeros || !sampling.wants_grid_grad))
    zero_images(sampling.grid_grad, sampling.batch);
  if (!has_second(sampling)) return;
  if (sampling.interpolation == Interpolation::nearest)
    return run(name, kForward, nearest_of(sampling), workspace);
  sampling.vectorises_over_channels ? double_backward_by_channels(sampling, workspace)
                                    : double_backward_by_samples(sampling, workspace);
}

}  // namespace

std::span<const Implementation> forward_implementations() {
  return kForward;
}

std::span<const Implementation> gradient_implementations() {
  return kGradient;
}

// The functions of a problem, which differ in nothing but names.
#define ACLGRAD_DEFINE_KERNEL(Problem, operation)            \
  size_t kernel_workspace_size(const Problem& problem) {     \
    return operation##_workspace_size(sampling_of(problem)); \
  }                                                          \
  double kernel_nanoseconds(const Problem& problem) {        \
    return operation##_nanoseconds(sampling_of(problem));    \
  }                                                          \
  void run_kernel(const Problem& problem, void* workspace) { \
    run_##operation(#Problem, problem, workspace);           \
  }
ACLGRAD_DEFINE_KERNEL(GridSampler2D, forward)
ACLGRAD_DEFINE_KERNEL(GridSampler2DBackward, gradient)
ACLGRAD_DEFINE_KERNEL(GridSampler2DDoubleBackward, double_backward)
ACLGRAD_DEFINE_KERNEL(GridSampler3D, forward)
ACLGRAD_DEFINE_KERNEL(GridSampler3DBackward, gradient)
ACLGRAD_DEFINE_KERNEL(GridSampler3DDoubleBackward, double_backward)
#undef ACLGRAD_DEFINE_KERNEL

}  // namespace aclgrad::ops::grid_sampler
