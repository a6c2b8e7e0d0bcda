// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of the gradient of grid sampling. Only the C++ interface and Python have it.
#include <gtest/gtest.h>

#include <numeric>

#include "ops/grid_sampler/cases.h"
#include "ops/grid_sampler/cases_modes.h"
#include "support/test_tensor.h"

namespace aclgrad::test {
namespace {

using namespace grid_sampler_cases;

void run(const GridSampler2DDoubleBackward& problem) {
  grid_sampler_2d_double_backward(problem, Workspace(workspace_size(problem)));
}

// One call with all its tensors, those of images in a layout.
struct Call {
  TestTensor grad_output, input, grid, grad_grad_input, grad_grad_grid;
  TestTensor grad_grad_output, input_grad, grid_grad;
  GridSampler2DDoubleBackward problem;

  Call(const Sampling& s, DataType type, const MoreInputs& inputs, Layout layout)
      : grad_output(output_shape(s), type, layout, inputs.grad_output),
        input(input_shape(s), type, layout, inputs.input),
        grid(grid_shape(s), type, Layout::contiguous, inputs.grid),
        grad_grad_input(input_shape(s), type, layout, inputs.grad_grad_input),
        grad_grad_grid(grid_shape(s), type, Layout::contiguous, inputs.grad_grad_grid),
        grad_grad_output(output_shape(s), type, layout),
        input_grad(input_shape(s), type, layout),
        grid_grad(grid_shape(s), type),
        problem(problem_of<GridSampler2DDoubleBackward>(s, input.tensor(), grid.tensor())) {
    problem.grad_output = grad_output.tensor();
    problem.grad_grad_input = grad_grad_input.tensor();
    problem.grad_grad_grid = grad_grad_grid.tensor();
    problem.grad_grad_output = grad_grad_output.tensor();
    problem.grad_input = input_grad.tensor();
    problem.grad_grid = grid_grad.tensor();
    run(problem);
  }
};

TEST(GridSampler2DDoubleBackward, ChannelsLastGivesTheSameBits) {
  constexpr DataType kType = DataType::float32;
  for (const Sampling& size : {sizes(2, 16, 20, 24, 22, 26), sizes(1, 64, 40, 40, 40, 40),
                               sizes(2, 20, 20, 24, 22, 26), sizes(1, 3, 40, 40, 30, 50)}) {
    MoreInputs inputs(size, kType, 1.3);
    if (size.height == size.output_height) inputs.grid = smooth_grid(size, kType);
    for_each_mode(size, kType, [&](const Sampling& s) {
      const Call first(s, kType, inputs, Layout::contiguous);
      Call last(s, kType, inputs, Layout::channels_last);
      EXPECT_EQ(last.grad_grad_output.bytes(), first.grad_grad_output.bytes());
      EXPECT_EQ(last.input_grad.bytes(), first.input_grad.bytes());
      EXPECT_EQ(last.grid_grad.bytes(), first.grid_grad.bytes());

      // With nothing to pack.
      const TestTensor alone(output_shape(s), kType, Layout::channels_last);
      last.problem.grad_grad_output = alone.tensor();
      last.problem.grad_input = last.problem.grad_grid = {};
      run(last.problem);
      EXPECT_EQ(alone.bytes(), first.grad_grad_output.bytes());
    });
  }
}

// Compares the slope of loss() along each variable, across two steps, with `expected`.
template <class Loss>
void expect_derivatives(Loss&& loss, std::vector<double>& variables, const std::vector<double>& expected) {
  constexpr double kStep = 1e-6;
  for (size_t i = 0; i < variables.size(); ++i) {
    const double value = variables[i];
    variables[i] = value + kStep;
    const double above = loss();
    variables[i] = value - kStep;
    EXPECT_NEAR((above - loss()) / (2 * kStep), expected[i], 1e-5) << i;
    variables[i] = value;
  }
}

template <class S>
void expect_reference_is_the_derivative(const S& size) {
  MoreInputs inputs(size, DataType::float64, 1.4);
  for_each_mode(size, DataType::float64, [&](const S& s) {
    const auto gradients = expected_of(s, inputs);
    const auto loss = [&] {
      const auto first = gradients_of(s, inputs);
      const auto along_input =
          std::inner_product(first.input.begin(), first.input.end(), inputs.grad_grad_input.begin(), 0.0);
      return std::inner_product(first.grid.begin(), first.grid.end(), inputs.grad_grad_grid.begin(),
                                along_input);
    };
    expect_derivatives(loss, inputs.grad_output, gradients.grad_output);
    expect_derivatives(loss, inputs.input, gradients.input);
    expect_derivatives(loss, inputs.grid, gradients.grid);
  });
}

TEST(GridSamplerDoubleBackward, ReferenceIsTheDerivativeOfTheReferenceOfTheGradient) {
  expect_reference_is_the_derivative(sizes(1, 2, 5, 6, 4, 5));
  expect_reference_is_the_derivative(sizes(1, 2, 3, 4, 5, 2, 3, 3));
}

}  // namespace
}  // namespace aclgrad::test
