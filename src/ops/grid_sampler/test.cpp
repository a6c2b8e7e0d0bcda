// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What is true of grid sampling and its gradient alone; what holds for every operator is tested in tests/operators/.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/grid_sampler/cases_calls.h"
#include "support/strict.h"

namespace aclgrad::test {
namespace {

using namespace grid_sampler_cases;

// ---- Calls with little or nothing to do

TEST(GridSampler2DBackward, MaskedOutputsNeedNoData) {
  const Sampling s = sizes(1, 3, 5, 7, 4, 6);
  const Inputs inputs(s, DataType::float32, 1);
  const Call call(s, DataType::float32, inputs);
  ASSERT_EQ(aclSetRawTensorAddr(call.input_grad, nullptr), OK);
  ASSERT_EQ(call.backward(Mask(false, true)), OK);
  const auto expected = gradients_of(s, inputs);
  EXPECT_LE(relative_error(call.grid_grad.values(), expected.grid),
            allowed_error(DataType::float32, expected.grid));
  EXPECT_EQ(call.backward(), 161001);
}

// Without a mask nothing else is looked at, and nothing computed.
template <auto phase1, auto phase2>
void expect_nothing_without_a_mask() {
  uint64_t size = 1;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(phase1(nullptr, nullptr, nullptr, 9, 9, false, nullptr, nullptr, nullptr, &size, &executor), OK);
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(phase2(nullptr, 0, executor, nullptr), OK);
  EXPECT_EQ(aclrtSynchronizeStream(nullptr), OK);
}

TEST(GridSamplerBackward, MaskMayBeNull) {
  expect_nothing_without_a_mask<aclnnGridSampler2DBackwardGetWorkspaceSize, aclnnGridSampler2DBackward>();
  expect_nothing_without_a_mask<aclnnGridSampler3DBackwardGetWorkspaceSize, aclnnGridSampler3DBackward>();
  const Sampling s = sizes(2, 3, 4, 5, 6, 7);
  const Call call(s, DataType::float32, Inputs(s, DataType::float32, 1));
  const std::vector<std::byte> before = call.input_grad.bytes();
  EXPECT_EQ(call.backward(nullptr), OK);
  EXPECT_EQ(call.input_grad.bytes(), before);
}

TEST(GridSampler2DStrictDeathTest, RefusesWhatTheDocumentDoesNotList) {
  expect_in_strict_mode([] {
    const Sampling s = sizes(1, 1, 2, 2, 1, 1);
    const Call of_double(s, DataType::float64, Inputs(s, DataType::float64, 1));
    Call of_float(s, DataType::float32, Inputs(s, DataType::float32, 1));
    const bool right = of_double.backward() == 161002 && of_float.backward() == OK;
    of_float.s.mode = 2;
    return right && of_float.backward() == 161002;
  });
}

// ---- The C++ interface

TEST(GridSampler2DBackward, CppInterfaceNeedsNoWorkspaceForImagesWithoutPixels) {
  const Sampling s = sizes(1, 16, 0, 5, 2, 2);
  GridSampler2DBackward problem;
  problem.input = problem.grad_input = {nullptr, DataType::float32, extents(input_shape(s))};
  problem.grid = problem.grad_grid = {nullptr, DataType::float32, extents(grid_shape(s))};
  problem.grad_output = {nullptr, DataType::float32, extents(output_shape(s))};
  EXPECT_EQ(workspace_size(problem), 0u);
}

// The gradient of the grid alone neither copies a large volume nor has anything of its size.
TEST(GridSampler3DCppInterface, GridGradOfFewSamplesNeedsNoWorkspace) {
  GridSampler3DBackward problem;
  constexpr auto kType = DataType::float32;
  problem.input = {nullptr, kType, {1, 16, 256, 256, 256}};
  problem.grid = {nullptr, kType, {1, 1, 1, 10'000, 3}};
  problem.grad_output = {nullptr, kType, {1, 16, 1, 1, 10'000}};
  problem.grad_grid = {nullptr, kType, problem.grid.shape};
  EXPECT_EQ(workspace_size(problem), 0u);
}

// Float cannot tell all pixels of so long a row apart: the position of the last one is rounded up to one behind it.
TEST(GridSampler2DCppInterface, NothingBehindALongRowIsReadOrWritten) {
  constexpr int64_t kWidth = (1 << 24) + 4;
  constexpr float kBehind = 7;
  std::vector<float> row(kWidth + 16, 1), grad(kWidth + 16, kBehind);
  std::fill(row.begin() + kWidth, row.end(), kBehind);
  const float end[] = {1, 0}, one = 1;
  for (const auto interpolation : {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic}) {
    for (const auto padding : {Padding::zeros, Padding::border, Padding::reflection}) {
      float value = 0;
      GridSampler2D forward;
      forward.input = {row.data(), {1, 1, 1, kWidth}};
      forward.grid = {end, {1, 1, 1, 2}};
      forward.interpolation = interpolation;
      forward.padding = padding;
      forward.align_corners = true;
      forward.output = {&value, {1, 1, 1, 1}};
      grid_sampler_2d(forward, Workspace(workspace_size(forward)));
      EXPECT_EQ(value, padding == Padding::zeros ? 0 : 1);
      GridSampler2DBackward backward;
      static_cast<GridSampling&>(backward) = forward;
      backward.grad_output = {&one, {1, 1, 1, 1}};
      backward.grad_input = {grad.data(), {1, 1, 1, kWidth}};
      grid_sampler_2d_backward(backward, Workspace(workspace_size(backward)));
      EXPECT_EQ(std::count(grad.begin() + kWidth, grad.end(), kBehind), 16);
      EXPECT_EQ(std::accumulate(grad.begin(), grad.begin() + kWidth, 0.0), value);
    }
  }
}

}  // namespace
}  // namespace aclgrad::test
