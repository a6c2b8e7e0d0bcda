// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of three-dimensional grid sampling on the CPU: which implementation computes it, and what needs none.
#include "base/parallel.h"
#include "ops/grid_sampler/grad.h"
#include "ops/grid_sampler/kernel.h"
#include "ops/grid_sampler/volume.h"

namespace aclgrad::ops::grid_sampler {
namespace {

// What is left of the problem for the kernels: nearest interpolation has no grid_grad.
GridSampler3DBackward differentiable_part(const GridSampler3DBackward& problem) {
  GridSampler3DBackward part = problem;
  if (problem.interpolation == Interpolation::nearest) part.wants_grid_grad = false;
  return part;
}

bool is_empty(const GridSampler3DBackward& problem) {
  return problem.batch == 0 || problem.channels == 0 || samples_of(problem) == 0 || pixels_of(problem) == 0;
}

// volume(T, n) is volume n of `batch`.
template <class VolumeOf>
void zero_volumes(const GridSampler3DBackward& problem, int64_t depth, VolumeOf&& volume) {
  visit_element_type(problem.type, [&]<class T>(T type) {
    const double elements = static_cast<double>(problem.batch * depth) *
                            static_cast<double>(volume(type, 0).channels) *
                            static_cast<double>(volume(type, 0).height * volume(type, 0).width);
    parallel_for(problem.batch * depth, 0.1 * elements, [&](int64_t task) {
      const Image slice = volume(type, task / depth).slice(task % depth);
      zero_rows(slice, RowBand{0, slice.height});
    });
  });
}

void zero_input_grad(const GridSampler3DBackward& problem) {
  zero_volumes(problem, problem.depth,
               [&]<class T>(T, int64_t n) { return input_grad_volume<T>(problem, n); });
}

void zero_grid_grad(const GridSampler3DBackward& problem) {
  zero_volumes(problem, problem.output_depth,
               [&]<class T>(T, int64_t n) { return grid_grad_volume<T>(problem, n); });
}

}  // namespace

size_t kernel_workspace_size(const GridSampler3DBackward& problem) {
  const GridSampler3DBackward part = differentiable_part(problem);
  if (is_empty(part) || (!part.wants_input_grad && !part.wants_grid_grad)) return 0;
  return vectorises_over_channels(part) ? grad_by_channels_workspace_size(part)
                                        : grad_by_samples_workspace_size(part);
}

double kernel_nanoseconds(const GridSampler3DBackward& problem) {
  const auto samples = static_cast<double>(problem.batch * samples_of(problem));
  const auto voxels = static_cast<double>(problem.batch * pixels_of(problem));
  const auto channels = static_cast<double>(problem.channels);
  const bool by_channels = vectorises_over_channels(problem);
  const double of_voxel = problem.wants_input_grad ? 0.5 : 0;
  return samples * (10 + (by_channels ? 1.5 : 10) * channels) + voxels * of_voxel * channels;
}

void run_kernel(const GridSampler3DBackward& problem, void* workspace) {
  const GridSampler3DBackward part = differentiable_part(problem);
  if (is_empty(part)) {
    if (problem.wants_input_grad) zero_input_grad(problem);
    if (problem.wants_grid_grad) zero_grid_grad(problem);
    return;
  }
  if (problem.wants_grid_grad && !part.wants_grid_grad) zero_grid_grad(problem);
  if (!part.wants_input_grad && !part.wants_grid_grad) return;
  vectorises_over_channels(part) ? grad_by_channels(part, workspace) : grad_by_samples(part, workspace);
}

}  // namespace aclgrad::ops::grid_sampler
