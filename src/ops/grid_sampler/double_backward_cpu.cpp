// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient's gradient on the CPU: which implementation computes it, and what needs none.
#include "ops/grid_sampler/double_backward.h"
#include "ops/grid_sampler/implementations.h"
#include "ops/grid_sampler/kernel.h"

namespace aclgrad::ops::grid_sampler {
namespace {

bool is_zero(const DoubleBackward& sampling) {
  return is_empty(sampling) || !(sampling.has_grad_grad_input || sampling.has_grad_grad_grid);
}

bool has_work(const DoubleBackward& sampling) {
  return !is_zero(sampling) &&
         (sampling.wants_grad_grad_output || sampling.wants_input_grad || sampling.wants_grid_grad);
}

// Nearest interpolation is linear in the image, and does not depend on the grid otherwise.
Sampling nearest_of(const DoubleBackward& sampling) {
  Sampling nearest = sampling;
  nearest.input = sampling.grad_grad_input;
  nearest.output = sampling.grad_grad_output;
  return nearest;
}

}  // namespace

size_t kernel_workspace_size(const GridSampler2DDoubleBackward& problem) {
  const DoubleBackward sampling = sampling_of(problem);
  if (!has_work(sampling)) return 0;
  if (sampling.interpolation == Interpolation::nearest)
    return workspace_size(forward_implementations(), nearest_of(sampling));
  return sampling.vectorises_over_channels ? double_backward_by_channels_workspace_size(sampling)
                                           : double_backward_by_samples_workspace_size(sampling);
}

void run_kernel(const GridSampler2DDoubleBackward& problem, void* workspace) {
  const DoubleBackward sampling = sampling_of(problem);
  const bool zeros = is_zero(sampling);
  if (problem.wants_grad_grad_output && zeros) zero_images(sampling.grad_grad_output, sampling.batch);
  if (problem.wants_input_grad && (zeros || !sampling.wants_input_grad))
    zero_images(sampling.input_grad, sampling.batch);
  if (problem.wants_grid_grad && (zeros || !sampling.wants_grid_grad))
    zero_images(sampling.grid_grad, sampling.batch);
  if (!has_work(sampling)) return;
  if (sampling.interpolation == Interpolation::nearest)
    return run("GridSampler2DDoubleBackward", forward_implementations(), nearest_of(sampling), workspace);
  sampling.vectorises_over_channels ? double_backward_by_channels(sampling, workspace)
                                    : double_backward_by_samples(sampling, workspace);
}

}  // namespace aclgrad::ops::grid_sampler
