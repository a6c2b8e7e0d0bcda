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

template <class Problem>
void run_forward(const char* name, const Problem& problem, void* workspace) {
  const Sampling sampling = sampling_of(problem);
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

size_t double_backward_workspace_size(const DoubleBackward& sampling) {
  if (!has_second(sampling)) return 0;
  if (sampling.interpolation == Interpolation::nearest)
    return workspace_size(forward_implementations(), nearest_of(sampling));
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
    return run(name, forward_implementations(), nearest_of(sampling), workspace);
  sampling.vectorises_over_channels ? double_backward_by_channels(sampling, workspace)
                                    : double_backward_by_samples(sampling, workspace);
}

}  // namespace

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
