// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of grid sampling on the CPU: what needs no implementation.
#include "ops/grid_sampler/implementations.h"
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
  return workspace_size(gradient_implementations(), sampling);
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
  run("GridSampler2DBackward", gradient_implementations(), sampling, workspace);
}

}  // namespace aclgrad::ops::grid_sampler
