// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Every implementation of grid sampling by its name, whether or not it would be chosen.
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/grid_sampler/cases_modes.h"
#include "ops/grid_sampler/implementations.h"
#include "ops/grid_sampler/problem.h"
#include "support/test_tensor.h"

namespace aclgrad::test {
namespace {

using namespace grid_sampler_cases;
using ops::grid_sampler::Implementation;

// Where the coordinates of a case come from.
enum class Grid { smooth, scattered };

// All tensors of a forward call and of a gradient. S is Sampling or Sampling3D.
template <class S>
struct Call {
  static constexpr int kAxes = std::is_same_v<S, Sampling3D> ? 3 : 2;
  using Forward = std::conditional_t<kAxes == 3, GridSampler3D, GridSampler2D>;
  using Backward = std::conditional_t<kAxes == 3, GridSampler3DBackward, GridSampler2DBackward>;

  Inputs inputs;
  TestTensor input, grid, output, grad_output, grad_input, grad_grid;

  Call(const S& s, DataType type, Grid of_grid, Layout layout)
      : inputs(s, type, 1.3),
        input(input_shape(s), type, layout, inputs.input),
        grid(grid_shape(s), type, layout,
             of_grid == Grid::smooth ? inputs.grid = smooth_grid(s, type) : inputs.grid),
        output(output_shape(s), type, layout),
        grad_output(output_shape(s), type, layout, inputs.grad_output),
        grad_input(input_shape(s), type, layout),
        grad_grid(grid_shape(s), type, layout) {}

  template <class Problem>
  Problem problem(const S& s) const {
    auto problem = problem_of<Problem>(s, input.type(), nullptr, nullptr);
    problem.input = input.tensor();
    problem.grid = grid.tensor();
    return problem;
  }

  ops::grid_sampler::Sampling forward(const S& s) const {
    auto of = problem<Forward>(s);
    of.output = output.tensor();
    return sampling_of(ops::grid_sampler::ForwardOf<kAxes>(of));
  }

  ops::grid_sampler::Sampling gradient(const S& s) const {
    auto of = problem<Backward>(s);
    of.grad_output = grad_output.tensor();
    of.grad_input = grad_input.tensor();
    of.grad_grid = grad_grid.tensor();
    return sampling_of(ops::grid_sampler::BackwardOf<kAxes>(of));
  }
};

void run(const Implementation& implementation, const ops::grid_sampler::Sampling& sampling) {
  SCOPED_TRACE(implementation.name);
  const Workspace workspace(implementation.workspace_size(sampling));
  implementation.run(sampling, workspace.data());
}

void expect_close(const TestTensor& actual, const std::vector<double>& expected) {
  EXPECT_LE(gradient_error(actual.values(), expected), allowed_error(actual.type(), expected));
  EXPECT_TRUE(actual.holes_untouched());
}

template <class S, class Body>
void for_each_call_of(std::span<const S> all_sizes, Body&& body) {
  for (DataType type : kTypes) {
    for (const S& size : all_sizes) {
      for (Grid grid : {Grid::smooth, Grid::scattered}) {
        for (Layout layout : kLayouts) {
          Call<S> call(size, type, grid, layout);
          for_each_mode(size, type, [&](const S& s) {
            if (layout != Layout::contiguous && s.padding != s.mode) return;  // some are enough
            body(call, s);
          });
        }
      }
    }
  }
}

// Calls body(Call, Sampling or Sampling3D) for cases of all types, modes, paddings, layouts and kinds of grids.
template <class Body>
void for_each_call(Body&& body) {
  for_each_call_of<Sampling>(kSizes, body);
  for_each_call_of<Sampling3D>(kSizes3D, body);
}

using Cases = std::map<std::string, std::map<DataType, int>>;

// Of all types that an implementation is for, at least so many.
void expect_cases(const Cases& cases, std::span<const Implementation> implementations) {
  for (const Implementation& implementation : implementations) {
    const auto found = cases.find(implementation.name);
    ASSERT_NE(found, cases.end()) << implementation.name << " has no case";
    const size_t types = std::string(implementation.name) == "by_channels" ? 3 : std::size(kTypes);
    EXPECT_EQ(found->second.size(), types) << implementation.name;
    for (const auto& [type, count] : found->second) EXPECT_GE(count, 100) << implementation.name;
  }
}

TEST(GridSamplerImplementations, ForwardMatchTheReferenceWhereverTheyApply) {
  Cases cases;
  for_each_call([&](auto& call, const auto& s) {
    const std::vector<double> expected = sample(s, call.inputs);
    const auto sampling = call.forward(s);
    for (const Implementation& implementation : ops::grid_sampler::forward_implementations()) {
      if (!implementation.applies(sampling)) continue;
      ++cases[implementation.name][call.input.type()];
      call.output.set(std::vector<double>(expected.size(), 7));
      run(implementation, sampling);
      expect_close(call.output, expected);
    }
  });
  expect_cases(cases, ops::grid_sampler::forward_implementations());
}

TEST(GridSamplerImplementations, GradientsMatchTheReferenceWhereverTheyApply) {
  Cases cases;
  for_each_call([&](auto& call, const auto& s) {
    const auto expected = gradients_of(s, call.inputs);
    const auto sampling = call.gradient(s);
    if (!sampling.wants_grid_grad) call.grad_grid.set(expected.grid);  // zeros, which need no implementation
    for (const Implementation& implementation : ops::grid_sampler::gradient_implementations()) {
      if (!implementation.applies(sampling)) continue;
      ++cases[implementation.name][call.input.type()];
      call.grad_input.set(std::vector<double>(expected.input.size(), 7));
      if (sampling.wants_grid_grad) call.grad_grid.set(std::vector<double>(expected.grid.size(), 7));
      run(implementation, sampling);
      expect_close(call.grad_input, expected.input);
      expect_close(call.grad_grid, expected.grid);
    }
  });
  expect_cases(cases, ops::grid_sampler::gradient_implementations());
}

// Forward any may be chosen. The gradients of these two are one choice, too, which strides decide.
TEST(GridSamplerImplementations, GiveTheSameBits) {
  for_each_call([&](auto& call, const auto& s) {
    const auto forward = call.forward(s), gradient = call.gradient(s);
    std::vector<std::byte> output, grad_input, grad_grid;
    for (const Implementation& implementation : ops::grid_sampler::forward_implementations()) {
      if (!implementation.applies(forward)) continue;
      run(implementation, forward);
      if (output.empty()) output = call.output.bytes();
      EXPECT_EQ(call.output.bytes(), output) << implementation.name;
    }
    if (!gradient.has_few_channels) return;
    for (const Implementation& implementation : ops::grid_sampler::gradient_implementations()) {
      if (std::string(implementation.name) == "by_channels") continue;
      run(implementation, gradient);
      if (grad_input.empty()) grad_input = call.grad_input.bytes(), grad_grid = call.grad_grid.bytes();
      EXPECT_EQ(call.grad_input.bytes(), grad_input) << implementation.name;
      EXPECT_EQ(call.grad_grid.bytes(), grad_grid) << implementation.name;
    }
  });
}

}  // namespace
}  // namespace aclgrad::test
