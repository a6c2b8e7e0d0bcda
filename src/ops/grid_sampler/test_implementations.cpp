// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Every implementation of grid sampling by its name, whether or not it would be chosen.
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/grid_sampler/cases_calls.h"
#include "ops/grid_sampler/implementations.h"

namespace aclgrad::test {
namespace {

using namespace grid_sampler_cases;
using ops::grid_sampler::Implementation;

template <class S>
ops::grid_sampler::Sampling forward_of(const Call<S>& call) {
  using Problem = std::conditional_t<kIs3D<S>, GridSampler3D, GridSampler2D>;
  auto of = problem_of<Problem>(call.s, call.input.tensor(), call.grid.tensor());
  of.output = call.output.tensor();
  return ops::grid_sampler::sampling_of(of);
}

template <class S>
ops::grid_sampler::Sampling gradient_of(const Call<S>& call) {
  using Problem = std::conditional_t<kIs3D<S>, GridSampler3DBackward, GridSampler2DBackward>;
  auto of = problem_of<Problem>(call.s, call.input.tensor(), call.grid.tensor());
  of.grad_output = call.grad_output.tensor();
  of.grad_input = call.input_grad.tensor();
  of.grad_grid = call.grid_grad.tensor();
  return ops::grid_sampler::sampling_of(of);
}

std::vector<double> scaled(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

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
      for (bool is_smooth : {true, false}) {
        for (Layout layout : kLayouts) {
          Inputs inputs(size, type, 1.3);
          if (is_smooth) inputs.grid = smooth_grid(size, type);
          Call<S> call(size, type, inputs, layout);
          for_each_mode(size, type, [&](const S& s) {
            if (layout != Layout::contiguous && s.padding != s.mode) return;  // some are enough
            call.s = s;
            body(call, inputs);
          });
        }
      }
    }
  }
}

// Calls body(Call, Inputs) for cases of all types, modes, paddings, layouts and kinds of grids.
template <class Body>
void for_each_call(Body&& body) {
  for_each_call_of<Sampling>(kSizes, body);
  for_each_call_of<Sampling3D>(kSizes3D, body);
  const Sampling others[] = {sizes(1, 3, 120, 90, 9, 13), sizes(1, 6, 90, 40, 9, 9),
                             sizes(2, 7, 9, 16, 9, 19)};
  for_each_call_of<Sampling>(others, body);
  const Sampling3D with_lines[] = {sizes(2, 3, 4, 6, 40, 3, 7, 40)};
  for_each_call_of<Sampling3D>(with_lines, body);
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
  for_each_call([&](auto& call, const Inputs& inputs) {
    const std::vector<double> expected = sample(call.s, inputs);
    const auto sampling = forward_of(call);
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
  for_each_call([&](auto& call, const Inputs& inputs) {
    const auto expected = gradients_of(call.s, inputs);
    const auto sampling = gradient_of(call);
    if (!sampling.wants_grid_grad) call.grid_grad.set(expected.grid);  // zeros, which need no implementation
    for (const Implementation& implementation : ops::grid_sampler::gradient_implementations()) {
      if (!implementation.applies(sampling)) continue;
      ++cases[implementation.name][call.input.type()];
      call.input_grad.set(std::vector<double>(expected.input.size(), 7));
      if (sampling.wants_grid_grad) call.grid_grad.set(std::vector<double>(expected.grid.size(), 7));
      run(implementation, sampling);
      expect_close(call.input_grad, expected.input);
      expect_close(call.grid_grad, expected.grid);
    }
  });
  expect_cases(cases, ops::grid_sampler::gradient_implementations());
}

// Forward, of nearest interpolation and where lanes are summed, any may be chosen. Of the gradient by samples, strides
// decide whether rows are read as vectors.
TEST(GridSamplerImplementations, GiveTheSameBits) {
  int of_lanes = 0;
  for_each_call([&](auto& call, const Inputs&) {
    const auto forward = forward_of(call), gradient = gradient_of(call);
    const auto expect_same_bits = [](auto implementations, const auto& sampling, const TestTensor& result) {
      std::vector<std::byte> first;
      for (const Implementation& implementation : implementations) {
        if (!implementation.applies(sampling)) continue;
        run(implementation, sampling);
        if (first.empty()) first = result.bytes();
        EXPECT_EQ(result.bytes(), first) << implementation.name;
      }
    };
    const std::vector<double> input = call.input.values();
    for (double factor : {1e-44, 1.0}) {  // products that vanish leave no sign
      call.input.set(scaled(input, factor));
      expect_same_bits(ops::grid_sampler::forward_implementations(), forward, call.output);
    }
    if (gradient.interpolation == Interpolation::nearest)
      return expect_same_bits(ops::grid_sampler::gradient_implementations(), gradient, call.input_grad);
    if (!gradient.has_plain_rows) return;
    auto of_grid = gradient;
    of_grid.wants_input_grad = false;
    if (sums_lanes(of_grid)) {
      ++of_lanes;
      expect_same_bits(ops::grid_sampler::gradient_implementations(), of_grid, call.grid_grad);
    }
    const Implementation by_samples = ops::grid_sampler::gradient_implementations()[1];
    ASSERT_STREQ(by_samples.name, "by_samples");
    auto anywhere = gradient;
    anywhere.has_plain_rows = anywhere.adds_alike = false;
    const std::vector<double> grad_output = call.grad_output.values();
    for (double factor : {1e-44, 1.0}) {
      call.grad_output.set(scaled(grad_output, factor));
      run(by_samples, gradient);
      const auto grad_input = call.input_grad.bytes(), grad_grid = call.grid_grad.bytes();
      run(by_samples, anywhere);
      EXPECT_EQ(call.input_grad.bytes(), grad_input);
      EXPECT_EQ(call.grid_grad.bytes(), grad_grid);
    }
  });
  EXPECT_GT(of_lanes, 0);
}

}  // namespace
}  // namespace aclgrad::test
