// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of the gradient of multi-scale deformable attention, which the C++ interface alone has.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "ops/multi_scale_deformable_attention/cases.h"
#include "support/differences.h"
#include "support/test_tensor.h"

namespace aclgrad::test {
namespace {

using namespace multi_scale_deformable_attention_cases;

constexpr DataType kTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64};

struct Results {
  std::vector<double> grad_grad_output, grad_value, grad_location, grad_attention_weight;

  bool operator==(const Results&) const = default;
};

// Tangents that are empty are left out.
Results run(const Reference& r, DataType type) {
  const auto made = [&](const Shape& shape, const std::vector<double>& values = {}) {
    return TestTensor(shape, type, Layout::contiguous, values);
  };
  const TestTensor value = made(value_shape(r), r.value), location = made(location_shape(r), r.location),
                   attention = made(attention_shape(r), r.attention_weight),
                   grad_output = made(query_shape(r, false), r.grad_output),
                   grad_grad_value = made(value_shape(r), r.grad_grad_value),
                   grad_grad_location = made(location_shape(r), r.grad_grad_location),
                   grad_grad_attention = made(attention_shape(r), r.grad_grad_attention_weight),
                   grad_grad_output = made(query_shape(r, false)), grad_value = made(value_shape(r)),
                   grad_location = made(location_shape(r)), grad_attention = made(attention_shape(r));
  auto problem = problem_of<MultiScaleDeformableAttentionDoubleBackward>(
      r, type, nullptr, nullptr, nullptr, r.spatial_shape.data(), r.level_start_index.data());
  problem.value = value.tensor();
  problem.sampling_locations = location.tensor();
  problem.attention_weights = attention.tensor();
  problem.grad_output = grad_output.tensor();
  if (!r.grad_grad_value.empty()) problem.grad_grad_value = grad_grad_value.tensor();
  if (!r.grad_grad_location.empty()) problem.grad_grad_sampling_locations = grad_grad_location.tensor();
  if (!r.grad_grad_attention_weight.empty())
    problem.grad_grad_attention_weights = grad_grad_attention.tensor();
  problem.grad_grad_output = grad_grad_output.tensor();
  problem.grad_value = grad_value.tensor();
  problem.grad_sampling_locations = grad_location.tensor();
  problem.grad_attention_weights = grad_attention.tensor();
  multi_scale_deformable_attention_double_backward(problem, Workspace(workspace_size(problem)));
  return {grad_grad_output.values(), grad_value.values(), grad_location.values(), grad_attention.values()};
}

Results expected(const Reference& r) {
  Reference run = r;
  run.run_double_backward();
  return {run.grad_grad_output, run.grad_value, run.grad_location, run.grad_attention_weight};
}

void expect_close(const Results& actual, const Results& expected, DataType type) {
  const double allowed = tolerance(type, true);
  EXPECT_LE(relative_error(actual.grad_grad_output, expected.grad_grad_output), allowed);
  EXPECT_LE(relative_error(actual.grad_value, expected.grad_value), allowed);
  EXPECT_LE(relative_error(actual.grad_location, expected.grad_location), allowed);
  EXPECT_LE(relative_error(actual.grad_attention_weight, expected.grad_attention_weight), allowed);
}

class AttentionDoubleBackward : public testing::Test {
 protected:
  ~AttentionDoubleBackward() override { set_thread_count(0); }
};

// Samples keep away from the borders of pixels, between which every gradient is a polynomial of degree 2 at most:
// differences across two steps have no error but rounding.
TEST_F(AttentionDoubleBackward, ReferenceIsTheDerivativeOfTheGradient) {
  Reference r = random_twice({2, 2, 5, 3, 2, {7, 5, 3, 4}}, DataType::float64);
  for (size_t i = 0; i < r.location.size(); ++i) {
    const auto size = static_cast<double>(r.spatial_shape[2 * (i / 4 % 2) + 1 - i % 2]);
    const double pixel = r.location[i] * size - 0.5;
    r.location[i] = (std::floor(pixel) + 0.1 + 0.8 * (pixel - std::floor(pixel)) + 0.5) / size;
  }
  const Results results = expected(r);
  const auto inner = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  const auto loss = [&] {
    Reference run = r;
    run.run();
    return inner(run.grad_value, r.grad_grad_value) + inner(run.grad_location, r.grad_grad_location) +
           inner(run.grad_attention_weight, r.grad_grad_attention_weight);
  };
  const auto expect_gradient = [&](std::vector<double>& input, const std::vector<double>& gradient) {
    EXPECT_LE(relative_error(gradient, differences(input, 1e-3, loss)), 1e-9);
  };
  expect_gradient(r.grad_output, results.grad_grad_output);
  expect_gradient(r.value, results.grad_value);
  expect_gradient(r.location, results.grad_location);
  expect_gradient(r.attention_weight, results.grad_attention_weight);
}

TEST_F(AttentionDoubleBackward, SamplesThatDoNotCountContributeNothing) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (DataType type : kTypes) {
    for (double bad : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 6e4, 1.5, -0.5}) {
      for (size_t axis : {0u, 1u}) {
        Reference r = random_twice({1, 1, 16, 3, 4, {4, 5}}, type);
        // Infinite tangents show whether the sample is left out or only weighted with zero.
        for (size_t sample : {0u, 5u, 11u}) {
          r.location[2 * sample + axis] = rounded(bad, type);
          r.attention_weight[sample] = r.grad_grad_attention_weight[sample] = kInfinity;
          r.grad_grad_location[2 * sample + axis] = kInfinity;
        }
        SCOPED_TRACE(testing::Message() << bad << " type " << static_cast<int>(type));
        const Results results = run(r, type);
        expect_close(results, expected(r), type);
        for (size_t sample : {0u, 5u, 11u}) {
          EXPECT_EQ(results.grad_attention_weight[sample], 0);
          EXPECT_EQ(results.grad_location[2 * sample], 0);
          EXPECT_EQ(results.grad_location[2 * sample + 1], 0);
        }
      }
    }
  }
}

TEST_F(AttentionDoubleBackward, AnyLevelsAreSafe) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> spatial_shapes[] = {
      {4, 5, 2, 3}, {0, 5, -2, 3}, {kMax, kMax, kMin, 3}, {1, int64_t{1} << 25, int64_t{1} << 25, 1}};
  const std::vector<int64_t> starts[] = {{0, 20}, {-7, 22}, {10, 0}, {kMax, kMin}};
  for (DataType type : kTypes) {
    for (const auto& spatial_shape : spatial_shapes) {
      for (const auto& level_start_index : starts) {
        Reference r = random_twice({1, 2, 16, 40, 3, {4, 5, 2, 3}}, type);
        r.spatial_shape = spatial_shape;
        r.level_start_index = level_start_index;
        SCOPED_TRACE(testing::PrintToString(spatial_shape) + testing::PrintToString(level_start_index));
        set_thread_count(1);
        const Results results = run(r, type);
        expect_close(results, expected(r), type);
        set_thread_count(16);
        EXPECT_EQ(run(r, type), results);
      }
    }
  }
}

}  // namespace
}  // namespace aclgrad::test
