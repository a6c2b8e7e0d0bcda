// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A loop over the modes of a sampling, which failing tests name, and calls of the samplers and their gradients through the C
// interface, in two and three dimensions.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "aclnnop/aclnn_grid_sampler3d.h"
#include "aclnnop/aclnn_grid_sampler3d_backward.h"
#include "ops/grid_sampler/cases.h"
#include "support/test_tensor.h"

namespace aclgrad::test::grid_sampler_cases {

// A problem in the messages of failed tests.
template <class AnySampling>
std::string describe(const AnySampling& s, DataType type) {
  return testing::PrintToString(input_shape(s)) + " to " + testing::PrintToString(grid_shape(s)) + " mode " +
         std::to_string(s.mode) + " padding " + std::to_string(s.padding) +
         (s.align_corners ? " aligned" : "") + " type " + std::to_string(static_cast<int>(type));
}

// Calls body with all modes, paddings and alignments of the sizes.
template <class AnySampling, class Body>
void for_each_mode(const AnySampling& sizes, DataType type, Body&& body) {
  for_each_mode_to(kLastMode<AnySampling>, sizes, type, [&](const AnySampling& s) {
    SCOPED_TRACE(describe(s, type));
    body(s);
  });
}

// A mask of two entries, as the C interface takes it.
class Mask {
 public:
  explicit Mask(bool wants_input_grad = true, bool wants_grid_grad = true) {
    const bool values[] = {wants_input_grad, wants_grid_grad};
    handle_ = aclCreateBoolArray(values, 2);
  }
  ~Mask() { aclDestroyBoolArray(handle_); }
  Mask(const Mask&) = delete;
  Mask& operator=(const Mask&) = delete;
  operator aclBoolArray*() const { return handle_; }

 private:
  aclBoolArray* handle_;
};

template <class S>
aclnnStatus run_forward(const S& s, aclTensor* input, aclTensor* grid, aclTensor* output) {
  constexpr auto phase1 = kIs3D<S> ? aclnnGridSampler3DGetWorkspaceSize : aclnnGridSampler2DGetWorkspaceSize;
  return run(
      [&](auto* size, auto* executor) {
        return phase1(input, grid, s.mode, s.padding, s.align_corners, output, size, executor);
      },
      kIs3D<S> ? aclnnGridSampler3D : aclnnGridSampler2D);
}

template <class S>
aclnnStatus run_backward(const S& s, aclTensor* grad_output, aclTensor* input, aclTensor* grid,
                         aclTensor* input_grad, aclTensor* grid_grad, aclBoolArray* mask = Mask()) {
  constexpr auto phase1 =
      kIs3D<S> ? aclnnGridSampler3DBackwardGetWorkspaceSize : aclnnGridSampler2DBackwardGetWorkspaceSize;
  return run(
      [&](auto* size, auto* executor) {
        return phase1(grad_output, input, grid, s.mode, s.padding, s.align_corners, mask, input_grad,
                      grid_grad, size, executor);
      },
      kIs3D<S> ? aclnnGridSampler3DBackward : aclnnGridSampler2DBackward);
}

// The same calls as problems of the C++ interface.
template <class S>
auto forward_problem(const S& s, const TestTensor& input, const TestTensor& grid, const TestTensor& output) {
  using Problem = std::conditional_t<kIs3D<S>, GridSampler3D, GridSampler2D>;
  auto problem = problem_of<Problem>(s, input.tensor(), grid.tensor());
  problem.output = output.tensor();
  return problem;
}

template <class S>
auto backward_problem(const S& s, const TestTensor& grad_output, const TestTensor& input,
                      const TestTensor& grid, const TestTensor& input_grad, const TestTensor& grid_grad) {
  using Problem = std::conditional_t<kIs3D<S>, GridSampler3DBackward, GridSampler2DBackward>;
  auto problem = problem_of<Problem>(s, input.tensor(), grid.tensor());
  problem.grad_output = grad_output.tensor();
  problem.grad_input = input_grad.tensor();
  problem.grad_grid = grid_grad.tensor();
  return problem;
}

// All tensors of a sampler and its gradient.
template <class S>
struct Call {
  S s;
  TestTensor grad_output, input, grid, output, input_grad, grid_grad;

  Call(const S& sampling, DataType type, const Inputs& inputs, Layout layout = Layout::contiguous)
      : s(sampling),
        grad_output(output_shape(s), type, layout, inputs.grad_output),
        input(input_shape(s), type, layout, inputs.input),
        grid(grid_shape(s), type, layout, inputs.grid),
        output(output_shape(s), type, layout),
        input_grad(input_shape(s), type, layout),
        grid_grad(grid_shape(s), type, layout) {}

  aclnnStatus forward() const { return run_forward(s, input, grid, output); }
  aclnnStatus backward(aclBoolArray* mask = Mask()) const {
    return run_backward(s, grad_output, input, grid, input_grad, grid_grad, mask);
  }

  auto forward_problem() const { return grid_sampler_cases::forward_problem(s, input, grid, output); }
  auto backward_problem() const {
    return grid_sampler_cases::backward_problem(s, grad_output, input, grid, input_grad, grid_grad);
  }
};

}  // namespace aclgrad::test::grid_sampler_cases
