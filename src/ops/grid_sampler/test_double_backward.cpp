// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of the gradient of grid sampling. Only the C++ interface and Python have it.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <type_traits>

#include "base/data_type.h"
#include "ops/grid_sampler/cases.h"
#include "ops/grid_sampler/cases_modes.h"
#include "support/test_tensor.h"

namespace aclgrad::test {
namespace {

using namespace grid_sampler_cases;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class S>
using DoubleBackward = std::conditional_t<kIs3D<S>, GridSampler3DDoubleBackward, GridSampler2DDoubleBackward>;

void run(const GridSampler2DDoubleBackward& problem) {
  grid_sampler_2d_double_backward(problem, Workspace(workspace_size(problem)));
}
void run(const GridSampler3DDoubleBackward& problem) {
  grid_sampler_3d_double_backward(problem, Workspace(workspace_size(problem)));
}

// One call with all its tensors.
template <class S>
struct Call {
  TestTensor grad_output, input, grid, grad_grad_input, grad_grad_grid;
  TestTensor grad_grad_output, input_grad, grid_grad;

  Call(const S& s, DataType type, const MoreInputs& inputs, Layout layout = Layout::contiguous)
      : grad_output(output_shape(s), type, layout, inputs.grad_output),
        input(input_shape(s), type, layout, inputs.input),
        grid(grid_shape(s), type, layout, inputs.grid),
        grad_grad_input(input_shape(s), type, layout, inputs.grad_grad_input),
        grad_grad_grid(grid_shape(s), type, layout, inputs.grad_grad_grid),
        grad_grad_output(output_shape(s), type, layout),
        input_grad(input_shape(s), type, layout),
        grid_grad(grid_shape(s), type, layout) {
    auto problem = problem_of<DoubleBackward<S>>(s, type, nullptr, nullptr);
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

  std::vector<const TestTensor*> results() const { return {&grad_grad_output, &input_grad, &grid_grad}; }
};

template <class S>
void expect_close(const Call<S>& call, const reference::GridSamplerSecondGradients& expected, DataType type) {
  EXPECT_LE(relative_error(call.grad_grad_output.values(), expected.grad_output),
            allowed_error(type, expected.grad_output));
  EXPECT_LE(gradient_error(call.input_grad.values(), expected.input), allowed_error(type, expected.input));
  EXPECT_LE(gradient_error(call.grid_grad.values(), expected.grid), allowed_error(type, expected.grid));
}

template <class S>
void expect_same(const Call<S>& actual, const Call<S>& expected) {
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(actual.results()[i]->bytes(), expected.results()[i]->bytes()) << i;
    EXPECT_TRUE(actual.results()[i]->holes_untouched()) << i;
  }
}

// Many bands or boxes and few, packed and in place, scattered and in lines, few samples of a large image.
const Sampling kMore[] = {
    sizes(2, 3, 40, 70, 40, 70), sizes(1, 32, 96, 64, 80, 90), sizes(18, 1, 33, 34, 33, 34),
    sizes(1, 16, 90, 90, 3, 3),  sizes(2, 24, 20, 30, 17, 19), sizes(3, 64, 70, 20, 70, 20),
};

const Sampling3D kMore3D[] = {
    sizes(2, 3, 12, 14, 40, 12, 14, 40), sizes(1, 32, 14, 16, 12, 13, 15, 14),
    sizes(1, 1, 33, 9, 20, 33, 9, 20),   sizes(1, 16, 20, 20, 20, 3, 3, 3),
    sizes(2, 24, 6, 9, 10, 5, 9, 8),     sizes(1, 2, 40, 30, 31, 20, 30, 40),
};

template <class S>
MoreInputs inputs_of(const S& size, DataType type) {
  MoreInputs inputs(size, type, 1.3);
  if (size.height == size.output_height && size.width == size.output_width)
    inputs.grid = smooth_grid(size, type);
  return inputs;
}

template <class S>
void expect_reference_in_any_layout_and_thread_count(const S& size) {
  for (DataType type : kTypes) {
    const MoreInputs inputs = inputs_of(size, type);
    for_each_mode(size, type, [&](const S& s) {
      if (s.padding != s.mode % 3) return;
      set_thread_count(1);
      const Call<S> first(s, type, inputs);
      expect_close(first, expected_of(s, inputs), type);
      for (int threads : {3, 16}) {
        set_thread_count(threads);
        expect_same(Call<S>(s, type, inputs, threads == 3 ? Layout::transposed : Layout::gapped), first);
      }
      set_thread_count(0);
    });
  }
}

TEST(GridSampler2DDoubleBackward, MatchesTheReferenceInAnyLayoutAndThreadCount) {
  for (const Sampling& size : kMore) expect_reference_in_any_layout_and_thread_count(size);
}

TEST(GridSampler3DDoubleBackward, MatchesTheReferenceInAnyLayoutAndThreadCount) {
  for (const Sampling3D& size : kMore3D) expect_reference_in_any_layout_and_thread_count(size);
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
      const Call<Sampling> first(s, DataType::float32, inputs);
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
void expect_any_grid_is_taken(const S& size) {
  for (DataType type : kTypes) {
    MoreInputs inputs(size, type, 1);
    inputs.grid = hostile_grid(size, type);
    for_each_mode(size, type,
                  [&](const S& s) { expect_close(Call<S>(s, type, inputs), expected_of(s, inputs), type); });
  }
}

TEST(GridSampler2DDoubleBackward, TakesAnyGrid) {
  for (const Sampling& size : {sizes(1, 3, 8, 8, 20, 20), sizes(2, 16, 9, 4, 20, 20),
                               sizes(1, 1, 300, 1, 1, 1), sizes(1, 20, 1, 5, 16, 16)})
    expect_any_grid_is_taken(size);
}

TEST(GridSampler3DDoubleBackward, TakesAnyGrid) {
  for (const Sampling3D& size : {sizes(1, 3, 5, 6, 7, 6, 7, 8), sizes(2, 16, 4, 9, 4, 5, 10, 6),
                                 sizes(1, 20, 1, 1, 5, 4, 4, 4), sizes(1, 6, 20, 19, 18, 2, 3, 7)})
    expect_any_grid_is_taken(size);
}

// Which of infinity and NaN it is depends on the order of terms.
template <class S>
void expect_what_is_not_finite_reaches_what_depends_on_it(const S& size) {
  for (DataType type : kTypes) {
    MoreInputs inputs(size, type, 1.2);
    inputs.input[3] = std::nan("");
    inputs.input[20] = kInfinity;
    inputs.grad_output[4] = -kInfinity;
    inputs.grad_grad_input[31] = kInfinity;
    inputs.grad_grad_grid[8] = kInfinity;
    inputs.grad_grad_grid[17] = inputs.grad_grad_grid[24] = std::nan("");
    // What moves samples that are nowhere, or beyond the border.
    inputs.grid[24] = kInfinity;
    inputs.grid[40] = std::nan("");
    for (size_t i = 44; i < (kIs3D<S> ? 51 : 46); ++i) inputs.grid[i] = 2;
    for (size_t i = 40; i < (kIs3D<S> ? 51 : 46); ++i) inputs.grad_grad_grid[i] = kInfinity;
    for_each_mode(size, type, [&](const S& s) {
      const auto expected = expected_of(s, inputs);
      const Call<S> call(s, type, inputs);
      const std::vector<double>* of_results[] = {&expected.grad_output, &expected.input, &expected.grid};
      for (size_t k = 0; k < 3; ++k) {
        const std::vector<double> values = call.results()[k]->values();
        for (size_t i = 0; i < values.size(); ++i)
          EXPECT_EQ(std::isfinite(values[i]), std::isfinite((*of_results[k])[i])) << k << " " << i;
      }
    });
  }
}

TEST(GridSampler2DDoubleBackward, WhatIsNotFiniteReachesWhatDependsOnIt) {
  for (const Sampling& size : {sizes(1, 2, 6, 6, 5, 7), sizes(1, 16, 6, 6, 5, 7)})
    expect_what_is_not_finite_reaches_what_depends_on_it(size);
}

TEST(GridSampler3DDoubleBackward, WhatIsNotFiniteReachesWhatDependsOnIt) {
  for (const Sampling3D& size : {sizes(1, 2, 3, 6, 6, 2, 5, 7), sizes(1, 16, 3, 6, 6, 2, 5, 7)})
    expect_what_is_not_finite_reaches_what_depends_on_it(size);
}

TEST(GridSampler2DDoubleBackward, EmptyTensors) {
  for (const Sampling& s :
       {sizes(2, 3, 4, 5, 0, 6), sizes(2, 0, 4, 5, 3, 6), sizes(0, 3, 4, 5, 3, 6), sizes(2, 3, 0, 5, 3, 6)}) {
    const Call<Sampling> call(s, DataType::float32, MoreInputs(s, DataType::float32, 1), Layout::gapped);
    for (const TestTensor* result : call.results()) {
      EXPECT_EQ(result->values(),
                std::vector<double>(static_cast<size_t>(element_count(result->shape())), 0.0));
      EXPECT_TRUE(result->holes_untouched());
    }
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
