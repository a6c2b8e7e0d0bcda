// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of grid sampling on the CPU: which implementation computes it, and what needs none.
#include "ops/grid_sampler/grad.h"
#include "ops/grid_sampler/kernel.h"

namespace aclgrad::ops::grid_sampler {
namespace {

bool has_work(const Sampling& sampling) {
  return !is_empty(sampling) && (sampling.wants_input_grad || sampling.wants_grid_grad);
}

}  // namespace

size_t kernel_workspace_size(const GridSampler2DBackward& problem) {
  const Sampling sampling = sampling_of(problem);
  if (!has_work(sampling)) return 0;
  if (!sampling.vectorises_over_channels) return grad_by_samples_workspace_size(sampling);
  const size_t size = grad_by_channels_workspace_size(sampling);
  return sampling.may_have_lines ? std::max(size, grad_by_samples_workspace_size(sampling)) : size;
}

double kernel_nanoseconds(const GridSampler2DBackward& problem) {
  return gradient_nanoseconds(sampling_of(problem));
}

void run_kernel(const GridSampler2DBackward& problem, void* workspace) {
  const Sampling sampling = sampling_of(problem);
  if (problem.wants_input_grad && is_empty(sampling)) zero_images(sampling.input_grad, sampling.batch);
  if (problem.wants_grid_grad && (is_empty(sampling) || !sampling.wants_grid_grad))
    zero_images(sampling.grid_grad, sampling.batch);
  if (!has_work(sampling)) return;
  vectorises_over_samples(sampling) ? grad_by_samples(sampling, workspace)
                                    : grad_by_channels(sampling, workspace);
}

}  // namespace aclgrad::ops::grid_sampler
