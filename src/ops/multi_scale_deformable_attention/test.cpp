// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What is true of multi-scale deformable attention and its gradient alone; what holds for every operator is tested in
// tests/operators/.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "base/data_type.h"
#include "ops/multi_scale_deformable_attention/cases.h"
#include "ops/multi_scale_deformable_attention/reference.h"
#include "support/differences.h"
#include "support/test_tensor.h"

namespace aclgrad::test {
namespace {

using namespace multi_scale_deformable_attention_cases;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> doubles(const std::vector<int64_t>& values) {
  return {values.begin(), values.end()};
}

// Index tensors hold values beyond 2^53, which doubles cannot.
class IndexTensor {
 public:
  IndexTensor(const Shape& shape, DataType type, const std::vector<int64_t>& values)
      : tensor_(shape, type, Layout::contiguous,
                doubles(type == DataType::int32 ? values : std::vector<int64_t>(values.size()))) {
    if (type == DataType::int64) std::memcpy(tensor_.data(), values.data(), values.size() * sizeof(int64_t));
  }
  operator aclTensor*() const { return tensor_; }

 private:
  TestTensor tensor_;
};

// The tensors of one problem, through the C interface.
class Calls {
 public:
  Calls(const Reference& r, DataType type, Layout layout = Layout::contiguous,
        DataType index_type = DataType::int64, bool joined = false)
      : value(value_shape(r), type, layout, r.value),
        spatial_shape({r.levels, 2}, index_type, r.spatial_shape),
        level_start_index({r.levels}, index_type, r.level_start_index),
        location(location_shape(r), type, layout, r.location),
        attention_weight(attention_shape(r), type, layout, r.attention_weight),
        grad_output(query_shape(r, joined), type, layout, r.grad_output),
        output(query_shape(r, !joined), type, layout),
        grad_value(value_shape(r), type, layout),
        grad_location(location_shape(r), type, layout),
        grad_attention_weight(attention_shape(r), type, layout) {}

  aclnnStatus forward() {
    return run(
        [&](auto* size, auto* executor) {
          return aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(
              value, spatial_shape, level_start_index, location, attention_weight, output, size, executor);
        },
        aclnnMultiScaleDeformableAttnFunction);
  }

  aclnnStatus grad() {
    return run(
        [&](auto* size, auto* executor) {
          return aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(
              value, spatial_shape, level_start_index, location, attention_weight, grad_output, grad_value,
              grad_location, grad_attention_weight, size, executor);
        },
        aclnnMultiScaleDeformableAttentionGrad);
  }

  std::vector<TestTensor*> outputs() {
    return {&output, &grad_value, &grad_location, &grad_attention_weight};
  }

  // The bits of all results.
  std::vector<std::byte> bytes() {
    std::vector<std::byte> all;
    for (TestTensor* tensor : outputs()) {
      const std::vector<std::byte> bytes = tensor->bytes();
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }

  TestTensor value;
  IndexTensor spatial_shape;
  IndexTensor level_start_index;
  TestTensor location;
  TestTensor attention_weight;
  TestTensor grad_output;
  TestTensor output;
  TestTensor grad_value;
  TestTensor grad_location;
  TestTensor grad_attention_weight;
};

// `r` has been run.
void expect_matches(Calls& calls, const Reference& r, DataType type) {
  ASSERT_EQ(calls.forward(), OK);
  ASSERT_EQ(calls.grad(), OK);
  EXPECT_LE(relative_error(calls.output.values(), r.output), tolerance(type, true));
  EXPECT_LE(relative_error(calls.grad_value.values(), r.grad_value), tolerance(type, true));
  EXPECT_LE(relative_error(calls.grad_location.values(), r.grad_location), tolerance(type, true));
  EXPECT_LE(relative_error(calls.grad_attention_weight.values(), r.grad_attention_weight),
            tolerance(type, true));
  for (TestTensor* tensor : calls.outputs()) EXPECT_TRUE(tensor->holes_untouched());
}

// Contents of the index tensors that no program should send: the reference still holds, and nothing outside
// the tensors is touched (which the sanitizers check).
TEST(MultiScaleDeformableAttention, AnyLevelsAreSafe) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  struct Levels {
    std::vector<int64_t> spatial_shape;
    std::vector<int64_t> level_start_index;
  };
  const Levels cases[] = {
      {{4, 5, 2, 3}, {0, 22}},                                // the second level leaves the tensor
      {{4, 5, 2, 3}, {-7, 20}},                               // the first one begins before it
      {{4, 5, 2, 3}, {1000, -1000}},                          // both outside
      {{0, 5, 2, 0}, {0, 20}},                                // empty
      {{-4, 5, 2, -3}, {0, 20}},                              // negative
      {{-4, -5, kMin, kMin}, {0, 20}},                        // negative, with a positive product
      {{int64_t{1} << 30, int64_t{1} << 30, 2, 3}, {0, 20}},  // absurd
      {{1, kHuge, kHuge, 1}, {0, 0}},
      {{kHuge, kHuge, kMax, kMax}, {kMin, kMax}},
      {{kMax, kMax, 3, kMax}, {kMin, -kMax}},
      {{1, int64_t{1} << 25, int64_t{1} << 25, 1}, {0, 0}},  // beyond what floats can count
  };
  for (const Levels& levels : cases) {
    for (bool near_zero : {false, true}) {
      Reference r = random_problem({1, 2, 16, 40, 3, {4, 5, 2, 3}}, DataType::float32);
      r.spatial_shape = levels.spatial_shape;
      r.level_start_index = levels.level_start_index;
      if (near_zero) {
        // So that huge levels are hit in their first few pixels.
        for (size_t i = 0; i < r.location.size(); ++i) {
          const size_t level = i / 6 % 2;
          const auto size = static_cast<double>(levels.spatial_shape[2 * level + 1 - i % 2]);
          r.location[i] = rounded(r.location[i] * 6 / std::max(1.0, std::fabs(size)), DataType::float32);
        }
      }
      r.run();
      SCOPED_TRACE(testing::PrintToString(levels.spatial_shape) +
                   testing::PrintToString(levels.level_start_index));
      for (int threads : {1, 16}) {
        set_thread_count(threads);
        Calls calls(r, DataType::float32);
        expect_matches(calls, r, DataType::float32);
      }
      set_thread_count(0);
    }
  }
}

TEST(MultiScaleDeformableAttention, PointsThatDoNotCountContributeNothing) {
  const double locations[] = {kNan, kInfinity, -kInfinity, 3e38, -3e38, 1e10, -1e10, 1.5, -0.5};
  for (DataType type : kFloatTypes) {
    for (double bad : locations) {
      if (type == DataType::float16 && std::fabs(bad) > 6e4 && std::isfinite(bad)) continue;
      for (size_t axis : {0u, 1u}) {
        Reference r = random_problem({1, 1, 16, 3, 4, {4, 5}}, type);
        // An infinite weight shows whether the point is left out or only weighted with zero.
        for (size_t point : {0u, 5u, 11u}) {
          r.location[2 * point + axis] = rounded(bad, type);
          r.attention_weight[point] = kInfinity;
        }
        r.run();
        Calls calls(r, type);
        expect_matches(calls, r, type);
        for (size_t point : {0u, 5u, 11u}) {
          EXPECT_EQ(calls.grad_attention_weight.values()[point], 0);
          EXPECT_EQ(calls.grad_location.values()[2 * point], 0);
          EXPECT_EQ(calls.grad_location.values()[2 * point + 1], 0);
        }
      }
    }
  }
}

// Equal where the reference is finite; elsewhere not finite either. Which of NaN and infinity comes out
// depends on how a sum is grouped.
void expect_same_where_finite(const std::vector<double>& actual, const std::vector<double>& expected,
                              DataType type) {
  std::vector<double> finite_actual, finite_expected;
  size_t disagreements = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isfinite(expected[i]) != std::isfinite(actual[i])) ++disagreements;
    if (!std::isfinite(expected[i])) continue;
    finite_actual.push_back(actual[i]);
    finite_expected.push_back(expected[i]);
  }
  EXPECT_EQ(disagreements, 0u);
  EXPECT_LE(relative_error(finite_actual, finite_expected), tolerance(type, true));
}

TEST(MultiScaleDeformableAttention, CarriesNanAndInfinity) {
  for (DataType type : kFloatTypes) {
    for (double special : {kNan, kInfinity, -kInfinity}) {
      for (int where = 0; where < 3; ++where) {
        Reference r = random_problem({2, 2, 24, 9, 3, {4, 5, 2, 3}}, type);
        std::vector<double>& values = where == 0 ? r.value : where == 1 ? r.attention_weight : r.grad_output;
        for (size_t i = 3; i < values.size(); i += values.size() / 5) values[i] = special;
        r.run();
        SCOPED_TRACE(testing::Message() << special << " in " << where << " type " << static_cast<int>(type));
        Calls calls(r, type);
        ASSERT_EQ(calls.forward(), OK);
        ASSERT_EQ(calls.grad(), OK);
        expect_same_where_finite(calls.output.values(), r.output, type);
        expect_same_where_finite(calls.grad_value.values(), r.grad_value, type);
        expect_same_where_finite(calls.grad_location.values(), r.grad_location, type);
        expect_same_where_finite(calls.grad_attention_weight.values(), r.grad_attention_weight, type);
      }
    }
  }
}

// The gradient of the reference against differences of its forward pass. Sizes are powers of two and steps a
// part of a pixel that floats hold, so that the bilinear surface is differenced exactly.
TEST(MultiScaleDeformableAttention, ReferenceGradientIsThatOfItsForward) {
  Reference r = random_problem({1, 2, 8, 4, 2, {8, 4, 4, 2}}, DataType::float32);
  for (size_t i = 0; i < r.location.size(); ++i) {
    const auto size = static_cast<double>(r.spatial_shape[2 * (i / 4 % 2) + 1 - i % 2]);
    r.location[i] = (std::floor(r.location[i] * size) + 0.25) / size;
  }
  r.run();
  Reference forward = r;
  forward.grad_output.clear();
  const auto loss = [&] {
    forward.run();
    return std::inner_product(forward.output.begin(), forward.output.end(), r.grad_output.begin(), 0.0);
  };
  const auto check = [&](std::vector<double> Reference::*input, const std::vector<double>& gradient) {
    EXPECT_LE(relative_error(gradient, differences(forward.*input, 1.0 / 128, loss)), 1e-10);
  };
  check(&Reference::value, r.grad_value);
  check(&Reference::location, r.grad_location);
  check(&Reference::attention_weight, r.grad_attention_weight);
}

// ---- Calls that are refused, and calls with nothing to do

struct Extents {
  int64_t batches, rows, heads, channels, queries, levels, points;
};

enum class Which { forward, grad };

// Phase 1 on tensors without memory, one of which has another format.
aclnnStatus phase_1(Which which, const Extents& e, size_t formatted = 0, aclFormat format = ACL_FORMAT_ND) {
  const Shape value{e.batches, e.rows, e.heads, e.channels};
  const Shape location{e.batches, e.queries, e.heads, e.levels, e.points, 2};
  const Shape weight(location.begin(), location.end() - 1);
  std::vector<Shape> shapes = {value, {e.levels, 2}, {e.levels}, location, weight};
  if (which == Which::grad) {
    shapes.insert(shapes.end(), {{e.batches, e.queries, e.heads, e.channels}, value, location, weight});
  } else {
    shapes.push_back({e.batches, e.queries, e.heads * e.channels});
  }
  std::vector<aclTensor*> t;
  for (const Shape& shape : shapes) {
    const aclDataType type = t.size() == 1 ? ACL_INT64 : t.size() == 2 ? ACL_INT32 : ACL_FLOAT;
    t.push_back(aclCreateTensor(shape.data(), shape.size(), type, nullptr, 0,
                                t.size() == formatted ? format : ACL_FORMAT_ND, shape.data(), shape.size(),
                                nullptr));
  }
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus status = which == Which::grad
                                 ? aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(
                                       t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], &size, &executor)
                                 : aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(
                                       t[0], t[1], t[2], t[3], t[4], t[5], &size, &executor);
  if (status == OK) aclDestroyAclOpExecutor(executor);
  for (const aclTensor* tensor : t) aclDestroyTensor(tensor);
  return status;
}

TEST(MultiScaleDeformableAttention, RefusesOneFormat) {
  const Extents extents{2, 6, 4, 16, 40, 1, 3};
  for (const auto& [which, count] : {std::pair{Which::forward, 6u}, {Which::grad, 9u}}) {
    for (size_t tensor = 0; tensor < count; ++tensor) {
      EXPECT_EQ(phase_1(which, extents, tensor, ACL_FORMAT_FRACTAL_NZ), 161002) << tensor;
      EXPECT_EQ(phase_1(which, extents, tensor, ACL_FORMAT_NHWC), OK) << tensor;
    }
  }
}

TEST(MultiScaleDeformableAttention, RefusesSizesBeyondTheDocuments) {
  struct Limit {
    Extents extents;
    aclnnStatus grad;
    aclnnStatus forward;
  };
  // bs S M C Q L P
  const Limit limits[] = {
      {{1, 4, 1, 8, 1, 1, 1}, OK, OK},           {{1, 4, 16, 256, 1, 16, 16}, OK, OK},
      {{33, 4, 1, 8, 1, 1, 1}, OK, OK},          {{1, 4, 1, 12, 1, 1, 1}, 161002, 161002},
      {{1, 4, 1, 264, 1, 1, 1}, 161002, 161002}, {{1, 4, 17, 8, 1, 1, 1}, 161002, 161002},
      {{1, 4, 1, 8, 1, 17, 1}, 161002, 161002},  {{1, 4, 1, 8, 1, 1, 17}, 161002, 161002},
      {{1, 4, 1, 8, 499999, 1, 1}, OK, OK},      {{1, 4, 1, 8, 500000, 1, 1}, 161002, OK},
  };
  for (const Limit& limit : limits) {
    SCOPED_TRACE(&limit - limits);
    EXPECT_EQ(phase_1(Which::grad, limit.extents), limit.grad);
    EXPECT_EQ(phase_1(Which::forward, limit.extents), limit.forward);
  }
}

// The environment is read once, so this runs in a process of its own.
TEST(MultiScaleDeformableAttentionStrictDeathTest, RefusesWhatEitherDocumentRefuses) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  setenv("ACLGRAD_STRICT", "1", 1);
  EXPECT_EXIT(
      {
        const bool right = phase_1(Which::grad, {32, 4, 1, 8, 32, 9, 16}) == OK &&
                           phase_1(Which::grad, {33, 4, 1, 8, 32, 9, 16}) == 161002 &&
                           phase_1(Which::grad, {1, 4, 1, 8, 32, 10, 1}) == 161002 &&
                           phase_1(Which::forward, {33, 4, 1, 8, 32, 10, 1}) == OK &&
                           phase_1(Which::forward, {1, 4, 1, 8, 31, 1, 1}) == 161002;
        std::exit(right ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  unsetenv("ACLGRAD_STRICT");
}

TEST(MultiScaleDeformableAttention, EmptyInputsGiveZeros) {
  const Sizes sizes{2, 2, 8, 5, 3, {2, 3}};
  const std::pair<const char*, int64_t Reference::*> axes[] = {
      {"batches", &Reference::batches},  {"rows", &Reference::rows},     {"heads", &Reference::heads},
      {"queries", &Reference::queries},  {"levels", &Reference::levels}, {"points", &Reference::points},
      {"channels", &Reference::channels}};
  for (const auto& [name, axis] : axes) {
    SCOPED_TRACE(name);
    Reference r = random_problem(sizes, DataType::bfloat16);
    r.*axis = 0;
    if (r.levels == 0) r.spatial_shape = r.level_start_index = {};
    Calls calls(r, DataType::bfloat16, Layout::gapped);
    uint64_t size = 1;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(calls.forward(), OK);
    ASSERT_EQ(calls.grad(), OK);
    ASSERT_EQ(aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(
                  calls.value, calls.spatial_shape, calls.level_start_index, calls.location,
                  calls.attention_weight, calls.output, &size, &executor),
              OK);
    EXPECT_EQ(size, 0u);
    EXPECT_EQ(aclnnMultiScaleDeformableAttnFunction(nullptr, 0, executor, nullptr), OK);
    ASSERT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
    for (TestTensor* tensor : calls.outputs()) {
      EXPECT_EQ(tensor->values(),
                std::vector<double>(static_cast<size_t>(element_count(tensor->shape())), 0.0));
      EXPECT_TRUE(tensor->holes_untouched());
    }
  }
}

// ---- The C++ interface

using Doubles = std::vector<double>;

// Runs both functions on float64. Returns output, grad_value, grad_location and grad_attention_weight.
std::array<Doubles, 4> run_cpp(const Reference& r) {
  std::array<Doubles, 4> results = {Doubles(r.grad_output.size()), Doubles(r.value.size()),
                                    Doubles(r.location.size()), Doubles(r.attention_weight.size())};
  constexpr DataType kType = DataType::float64;
  auto backward = problem_of<MultiScaleDeformableAttentionBackward>(
      r, kType, r.value.data(), r.location.data(), r.attention_weight.data(), r.spatial_shape.data(),
      r.level_start_index.data());
  backward.grad_output = {r.grad_output.data(), output_shape(r)};
  backward.grad_value = {results[1].data(), backward.value.shape};
  backward.grad_sampling_locations = {results[2].data(), backward.sampling_locations.shape};
  backward.grad_attention_weights = {results[3].data(), backward.attention_weights.shape};
  multi_scale_deformable_attention_backward(backward, Workspace(workspace_size(backward)));

  MultiScaleDeformableAttention forward;
  static_cast<MultiScaleDeformableSampling&>(forward) = backward;
  forward.output = {results[0].data(), output_shape(r)};
  multi_scale_deformable_attention(forward, Workspace(workspace_size(forward)));
  return results;
}

TEST(MultiScaleDeformableAttention, Float64IsSafeWithAnyLevelsAndPoints) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> spatial_shapes[] = {{4, 5, 2, 3}, {0, 5, -2, 3}, {kMax, kMax, kMin, 3}};
  const std::vector<int64_t> starts[] = {{0, 20}, {-7, 22}, {kMax, kMin}};
  for (const auto& spatial_shape : spatial_shapes) {
    for (const auto& level_start_index : starts) {
      Reference r = random_problem({1, 2, 5, 40, 3, {4, 5, 2, 3}}, DataType::float64);
      r.positions_in_double = true;
      r.spatial_shape = spatial_shape;
      r.level_start_index = level_start_index;
      const double locations[] = {kNan, kInfinity, -kInfinity, 1e300, -1e300, 1e-18, 1.0, 0.0};
      for (size_t i = 0; i < r.location.size(); i += 5)
        r.location[i] = locations[i / 5 % std::size(locations)];
      r.run();
      const auto results = run_cpp(r);
      const Doubles* expected[] = {&r.output, &r.grad_value, &r.grad_location, &r.grad_attention_weight};
      for (size_t i = 0; i < 4; ++i) EXPECT_LE(relative_error(results[i], *expected[i]), 1e-12) << i;
    }
  }
}

}  // namespace
}  // namespace aclgrad::test
