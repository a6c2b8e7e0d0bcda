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

// One call with all its tensors.
struct Call {
  TestTensor grad_output, input, grid, grad_grad_input, grad_grad_grid;
  TestTensor grad_grad_output, input_grad, grid_grad;

  Call(const Sampling& s, DataType type, const MoreInputs& inputs)
      : grad_output(output_shape(s), type, Layout::contiguous, inputs.grad_output),
        input(input_shape(s), type, Layout::contiguous, inputs.input),
        grid(grid_shape(s), type, Layout::contiguous, inputs.grid),
        grad_grad_input(input_shape(s), type, Layout::contiguous, inputs.grad_grad_input),
        grad_grad_grid(grid_shape(s), type, Layout::contiguous, inputs.grad_grad_grid),
        grad_grad_output(output_shape(s), type, Layout::contiguous),
        input_grad(input_shape(s), type, Layout::contiguous),
        grid_grad(grid_shape(s), type, Layout::contiguous) {
    auto problem = problem_of<GridSampler2DDoubleBackward>(s, type, nullptr, nullptr);
    problem.input = input.tensor();
    problem.grid = grid.tensor();
    problem.grad_output = grad_output.tensor();
    problem.grad_grad_input = grad_grad_input.tensor();
    problem.grad_grad_grid = grad_grad_grid.tensor();
    problem.grad_grad_output = grad_grad_output.tensor();
    problem.grad_input = input_grad.tensor();
    problem.grad_grid = grid_grad.tensor();
    run(problem);
  }
};

MoreInputs inputs_of(const Sampling& size, DataType type) {
  MoreInputs inputs(size, type, 1.3);
  if (size.height == size.output_height && size.width == size.output_width)
    inputs.grid = smooth_grid(size, type);
  return inputs;
}

// Of a tensor [N, C, H, W] that lies in memory as [N, H, W, C].
aclgrad::Shape channels_last(const aclgrad::Shape& shape) {
  return {shape[1] * shape[2] * shape[3], 1, shape[1] * shape[3], shape[1]};
}

// The values of [N, C, P] as [N, P, C], or back.
std::vector<float> swapped(const std::vector<double>& values, int64_t batch, int64_t first, int64_t second) {
  std::vector<float> result(values.size());
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t i = 0; i < first; ++i) {
      for (int64_t j = 0; j < second; ++j) {
        result[static_cast<size_t>((n * second + j) * first + i)] =
            static_cast<float>(values[static_cast<size_t>((n * first + i) * second + j)]);
      }
    }
  }
  return result;
}

TEST(GridSampler2DDoubleBackward, ChannelsLastGivesTheSameBits) {
  for (const Sampling& size : {sizes(2, 16, 20, 24, 22, 26), sizes(1, 64, 40, 40, 40, 40),
                               sizes(2, 20, 20, 24, 22, 26), sizes(1, 3, 40, 40, 30, 50)}) {
    const MoreInputs inputs = inputs_of(size, DataType::float32);
    for_each_mode(size, DataType::float32, [&](const Sampling& s) {
      const int64_t pixels = s.height * s.width, points = s.output_height * s.output_width;
      const Call first(s, DataType::float32, inputs);
      const auto input = swapped(inputs.input, s.batch, s.channels, pixels);
      const auto grad_output = swapped(inputs.grad_output, s.batch, s.channels, points);
      const auto grad_grad_input = swapped(inputs.grad_grad_input, s.batch, s.channels, pixels);
      const std::vector<float> grid(inputs.grid.begin(), inputs.grid.end());
      const std::vector<float> grad_grad_grid(inputs.grad_grad_grid.begin(), inputs.grad_grad_grid.end());
      std::vector<float> input_grad(input.size()), grid_grad(grid.size()), result(grad_output.size());
      auto problem = problem_of<GridSampler2DDoubleBackward>(s, DataType::float32, input.data(), grid.data());
      const aclgrad::Shape of_input = channels_last(problem.input.shape);
      const aclgrad::Shape of_output = channels_last(output_extents(s));
      problem.input.strides = of_input;
      problem.grad_output = {grad_output.data(), output_extents(s), of_output};
      problem.grad_grad_input = {grad_grad_input.data(), problem.input.shape, of_input};
      problem.grad_grad_grid = {grad_grad_grid.data(), problem.grid.shape};
      problem.grad_grad_output = {result.data(), output_extents(s), of_output};
      problem.grad_input = {input_grad.data(), problem.input.shape, of_input};
      problem.grad_grid = {grid_grad.data(), problem.grid.shape};
      run(problem);
      EXPECT_EQ(result, swapped(first.grad_grad_output.values(), s.batch, s.channels, points));
      EXPECT_EQ(input_grad, swapped(first.input_grad.values(), s.batch, s.channels, pixels));
      EXPECT_EQ(grid_grad, swapped(first.grid_grad.values(), 1, 1, 2 * s.batch * points));

      // With nothing to pack.
      std::vector<float> alone(result.size());
      problem.grad_input = problem.grad_grid = {};
      problem.grad_grad_output.data = alone.data();
      run(problem);
      EXPECT_EQ(alone, result);
    });
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
