// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The operators on the CPU: what of their problems needs an implementation, and what none.
#include "ops/grid_sampler/kernel.h"

#include "ops/grid_sampler/implementations.h"

namespace aclgrad::ops::grid_sampler {
namespace {

// ---- Forward

// Whether there is something to write.
bool has_output(const Sampling& sampling) {
  return sampling.batch != 0 && sampling.channels != 0 && sampling.samples != 0;
}

size_t forward_workspace_size(const Sampling& sampling) {
  return has_output(sampling) ? workspace_size(forward_implementations(), sampling) : 0;
}

void run_forward(const char* name, const Sampling& sampling, void* workspace) {
  if (has_output(sampling)) run(name, forward_implementations(), sampling, workspace);
}

// ---- Gradient

bool has_gradient(const Sampling& sampling) {
  return !is_empty(sampling) && (sampling.wants_input_grad || sampling.wants_grid_grad);
}

size_t gradient_workspace_size(const Sampling& sampling) {
  return has_gradient(sampling) ? workspace_size(gradient_implementations(), sampling) : 0;
}

template <class Problem>
void run_gradient(const char* name, const Problem& problem, void* workspace) {
  const Sampling sampling = sampling_of(problem);
  if (sampling.wants_input_grad && is_empty(sampling)) zero_images(sampling.input_grad, sampling.batch);
  if (problem.grad_grid.defined() && (is_empty(sampling) || !sampling.wants_grid_grad))
    zero_images(sampling.grid_grad, sampling.batch);
  if (has_gradient(sampling)) run(name, gradient_implementations(), sampling, workspace);
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

size_t second_workspace_size(const DoubleBackward& sampling) {
  if (!has_second(sampling)) return 0;
  if (sampling.interpolation == Interpolation::nearest)
    return workspace_size(forward_implementations(), nearest_of(sampling));
  return sampling.vectorises_over_channels ? double_backward_by_channels_workspace_size(sampling)
                                           : double_backward_by_samples_workspace_size(sampling);
}

template <class Problem>
void run_second(const char* name, const Problem& problem, void* workspace) {
  const DoubleBackward sampling = sampling_of(problem);
  const bool zeros = is_zero(sampling);
  if (sampling.wants_grad_grad_output && zeros) zero_images(sampling.grad_grad_output, sampling.batch);
  if (problem.grad_input.defined() && (zeros || !sampling.wants_input_grad))
    zero_images(sampling.input_grad, sampling.batch);
  if (problem.grad_grid.defined() && (zeros || !sampling.wants_grid_grad))
    zero_images(sampling.grid_grad, sampling.batch);
  if (!has_second(sampling)) return;
  if (sampling.interpolation == Interpolation::nearest)
    return run(name, forward_implementations(), nearest_of(sampling), workspace);
  sampling.vectorises_over_channels ? double_backward_by_channels(sampling, workspace)
                                    : double_backward_by_samples(sampling, workspace);
}

}  // namespace

size_t kernel_workspace_size(const GridSampler2D& problem) {
  return forward_workspace_size(sampling_of(problem));
}
size_t kernel_workspace_size(const GridSampler3D& problem) {
  return forward_workspace_size(sampling_of(problem));
}
size_t kernel_workspace_size(const GridSampler2DBackward& problem) {
  return gradient_workspace_size(sampling_of(problem));
}
size_t kernel_workspace_size(const GridSampler3DBackward& problem) {
  return gradient_workspace_size(sampling_of(problem));
}
size_t kernel_workspace_size(const GridSampler2DDoubleBackward& problem) {
  return second_workspace_size(sampling_of(problem));
}
size_t kernel_workspace_size(const GridSampler3DDoubleBackward& problem) {
  return second_workspace_size(sampling_of(problem));
}

double kernel_nanoseconds(const GridSampler2D& problem) {
  return forward_nanoseconds(sampling_of(problem));
}
double kernel_nanoseconds(const GridSampler3D& problem) {
  return forward_nanoseconds(sampling_of(problem));
}
double kernel_nanoseconds(const GridSampler2DBackward& problem) {
  return gradient_nanoseconds(sampling_of(problem));
}
double kernel_nanoseconds(const GridSampler3DBackward& problem) {
  return gradient_nanoseconds(sampling_of(problem));
}

void run_kernel(const GridSampler2D& problem, void* workspace) {
  run_forward("GridSampler2D", sampling_of(problem), workspace);
}
void run_kernel(const GridSampler3D& problem, void* workspace) {
  run_forward("GridSampler3D", sampling_of(problem), workspace);
}
void run_kernel(const GridSampler2DBackward& problem, void* workspace) {
  run_gradient("GridSampler2DBackward", problem, workspace);
}
void run_kernel(const GridSampler3DBackward& problem, void* workspace) {
  run_gradient("GridSampler3DBackward", problem, workspace);
}
void run_kernel(const GridSampler2DDoubleBackward& problem, void* workspace) {
  run_second("GridSampler2DDoubleBackward", problem, workspace);
}
void run_kernel(const GridSampler3DDoubleBackward& problem, void* workspace) {
  run_second("GridSampler3DDoubleBackward", problem, workspace);
}

}  // namespace aclgrad::ops::grid_sampler
