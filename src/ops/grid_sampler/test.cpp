// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What is true of grid sampling, its gradient and the gradient's gradient alone; what holds for every operator is tested in
// tests/operators/.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/grid_sampler/cases_calls.h"
#include "support/message.h"
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

// ---- Several threads, which cut images into bands and volumes into boxes of slices

template <class S>
void expect_the_same_bits_for_any_thread_count(const S& s, DataType type, const Inputs& inputs) {
  std::vector<std::byte> first_input, first_grid;
  for (int threads : {1, 3, 4, 16}) {
    set_thread_count(threads);
    const Call call(s, type, inputs);
    ASSERT_EQ(call.backward(), OK);
    if (threads == 1) first_input = call.input_grad.bytes(), first_grid = call.grid_grad.bytes();
    EXPECT_EQ(call.input_grad.bytes(), first_input) << threads << " threads";
    EXPECT_EQ(call.grid_grad.bytes(), first_grid) << threads << " threads";
  }
  set_thread_count(0);
}

// Of the samples that a band goes through together, all have few rows, or one lies beyond the image, far from it, or
// nowhere.
TEST(GridSampler2DBackward, BandsHaveAllTheirSamplesForAnyThreadCount) {
  const Sampling size = sizes(1, 4, 150, 70, 170, 140);
  for (DataType type : kTypes) {
    Inputs inputs(size, type, 1);
    inputs.grid = smooth_grid(size, type);
    constexpr double kHard[] = {1.1, -1.1, 3, -3, 1e9, -1e9, 6e37, -6e37, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < std::size(kHard); ++i) {
      for (size_t sample : {70 + 130 * i, 20'000 + 130 * i}) inputs.grid[2 * sample + 1] = kHard[i];
    }
    inputs.grid = rounded(inputs.grid, type);
    for_each_mode(size, type,
                  [&](const Sampling& s) { expect_the_same_bits_for_any_thread_count(s, type, inputs); });
  }
}

// In most rows of this grid neighbours have taps in two boxes, in some rows in more.
TEST(GridSampler3DBackward, NeighboursInSeveralBoxesForAnyThreadCount) {
  const Sampling3D size = sizes(1, 2, 32, 24, 40, 32, 24, 40);
  for (DataType type : kTypes) {
    Inputs inputs(size, type, 1);
    inputs.grid = smooth_grid(size, type);
    for (size_t i = 0; i < inputs.grid.size() / 3; ++i) {
      const double x = static_cast<double>(i % 40), y = static_cast<double>(i / 40 % 24);
      inputs.grid[3 * i + 2] += (y < 18 ? 0.15 : 0.8) * std::sin(0.2 * x + y);
    }
    inputs.grid = rounded(inputs.grid, type);
    for_each_mode(size, type, [&](const Sampling3D& s) {
      const auto expected = gradients_of(s, inputs);
      const Call call(s, type, inputs);
      ASSERT_EQ(call.backward(), OK);
      EXPECT_LE(relative_error(call.input_grad.values(), expected.input), tolerance(type, true));
      EXPECT_LE(gradient_error(call.grid_grad.values(), expected.grid), tolerance(type, true));
      expect_the_same_bits_for_any_thread_count(s, type, inputs);
    });
  }
}

// ---- Formats of volumes

// A contiguous tensor whose handle says this format: of the shape [N, C, D, H, W], or with the channels last.
class FormattedTensor {
 public:
  FormattedTensor(const Shape& shape, DataType type, aclFormat format, const std::vector<double>& values = {},
                  Layout layout = Layout::contiguous)
      : tensor_(shape, type, layout, values) {
    const Shape last{shape[0], shape[2], shape[3], shape[4], shape[1]};
    const Shape& dims = layout == Layout::channels_last ? last : shape;
    handle_ = aclCreateTensor(dims.data(), dims.size(), static_cast<aclDataType>(type), nullptr, 0, format,
                              dims.data(), dims.size(), tensor_.data());
  }
  ~FormattedTensor() { aclDestroyTensor(handle_); }
  FormattedTensor(const FormattedTensor&) = delete;
  FormattedTensor& operator=(const FormattedTensor&) = delete;

  operator aclTensor*() const { return handle_; }
  std::vector<double> values() const { return tensor_.values(); }

 private:
  TestTensor tensor_;
  aclTensor* handle_;
};

// [N, D, H, W, C], whatever its format says, with the values of one [N, C, D, H, W].
struct NdhwcTensor : FormattedTensor {
  NdhwcTensor(const Shape& shape, DataType type, const std::vector<double>& values,
              aclFormat format = ACL_FORMAT_NDHWC)
      : FormattedTensor(shape, type, format, values, Layout::channels_last) {}
};

constexpr DataType kNdhwcTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16};
constexpr aclFormat kTakenFormats[] = {ACL_FORMAT_ND, ACL_FORMAT_NCDHW, ACL_FORMAT_NDHWC};

// Where input is NDHWC, so is every tensor of volumes.
TEST(GridSampler3D, TakesNdhwc) {
  for (int64_t channels : {1, 4, 5, 16}) {
    for (DataType type : kNdhwcTypes) {
      const Sampling3D size = sizes(2, channels, 3, 5, 6, 4, 2, 7);
      const Inputs inputs(size, type, 1.1);
      for_each_mode(size, type, [&](const Sampling3D& s) {
        const NdhwcTensor input(input_shape(s), type, inputs.input);
        TestTensor grid(grid_shape(s), type, Layout::contiguous, inputs.grid);
        const auto expected = sample(s, inputs);
        for (aclFormat format : kTakenFormats) {
          const NdhwcTensor out(output_shape(s), type, {}, format);
          ASSERT_EQ(run_forward(s, input, grid, out), OK) << "format " << format;
          EXPECT_LE(relative_error(out.values(), expected), tolerance(type, true));
        }
      });
    }
  }
}

TEST(GridSampler3DBackward, TakesNdhwc) {
  for (int64_t channels : {1, 5}) {
    for (DataType type : kNdhwcTypes) {
      const Sampling3D s = sizes(2, channels, 3, 5, 6, 4, 2, 7);
      const Inputs inputs(s, type, 1.1);
      const auto expected = gradients_of(s, inputs);
      const NdhwcTensor input(input_shape(s), type, inputs.input);
      TestTensor grid(grid_shape(s), type, Layout::contiguous, inputs.grid);
      for (aclFormat format : kTakenFormats) {
        const NdhwcTensor grad_output(output_shape(s), type, inputs.grad_output, format);
        const NdhwcTensor input_grad(input_shape(s), type, {}, format);
        TestTensor grid_grad(grid_shape(s), type);
        ASSERT_EQ(run_backward(s, grad_output, input, grid, input_grad, grid_grad), OK)
            << "format " << format;
        EXPECT_LE(relative_error(input_grad.values(), expected.input), tolerance(type, true));
        EXPECT_LE(relative_error(grid_grad.values(), expected.grid), tolerance(type, true));
      }
    }
  }
}

// Tensors [N, C, D, H, W] that say otherwise.
TEST(GridSampler3D, FollowsTheFormatOfInputAlone) {
  const Sampling3D s = sizes(2, 3, 3, 5, 6, 4, 2, 7);
  const Inputs inputs(s, DataType::float32, 1.1);
  TestTensor input(input_shape(s), DataType::float32, Layout::contiguous, inputs.input);
  TestTensor grid(grid_shape(s), DataType::float32, Layout::contiguous, inputs.grid);
  const FormattedTensor out(output_shape(s), DataType::float32, ACL_FORMAT_NDHWC);
  ASSERT_EQ(run_forward(s, input, grid, out), OK);
  EXPECT_LE(relative_error(out.values(), sample(s, inputs)), tolerance(DataType::float32, true));

  const FormattedTensor grad_output(output_shape(s), DataType::float32, ACL_FORMAT_NDHWC, inputs.grad_output);
  const FormattedTensor input_grad(input_shape(s), DataType::float32, ACL_FORMAT_NDHWC);
  TestTensor grid_grad(grid_shape(s), DataType::float32);
  ASSERT_EQ(run_backward(s, grad_output, input, grid, input_grad, grid_grad), OK);
  const auto expected = gradients_of(s, inputs);
  EXPECT_LE(relative_error(input_grad.values(), expected.input), tolerance(DataType::float32, true));
  EXPECT_LE(relative_error(grid_grad.values(), expected.grid), tolerance(DataType::float32, true));
}

TEST(GridSampler3D, RefusesOtherFormats) {
  const Sampling3D s = sizes(2, 3, 3, 5, 6, 4, 2, 7);
  const Inputs inputs(s, DataType::float32, 1.1);
  TestTensor grid(grid_shape(s), DataType::float32, Layout::contiguous, inputs.grid);
  const auto status = [&](aclFormat of_input, aclFormat of_out) {
    const FormattedTensor input(input_shape(s), DataType::float32, of_input, inputs.input);
    const FormattedTensor out(output_shape(s), DataType::float32, of_out);
    return run_forward(s, input, grid, out);
  };
  EXPECT_EQ(status(ACL_FORMAT_NCDHW, ACL_FORMAT_ND), OK);
  for (aclFormat format : {ACL_FORMAT_UNDEFINED, ACL_FORMAT_NCHW, ACL_FORMAT_NHWC, ACL_FORMAT_HWCN,
                           ACL_FORMAT_NDC1HWC0, ACL_FORMAT_FRACTAL_NZ}) {
    SCOPED_TRACE(format);
    aclGetRecentErrMsg();
    EXPECT_EQ(status(format, ACL_FORMAT_ND), 161002);
    expect_readable_message("aclnnGridSampler3D.input");
    EXPECT_EQ(status(ACL_FORMAT_ND, format), 161002);
    expect_readable_message("aclnnGridSampler3D.out");
  }
}

TEST(GridSampler3D, RefusesNdhwcInDouble) {
  const Sampling3D s = sizes(1, 4, 3, 5, 6, 4, 2, 7);
  constexpr DataType kType = DataType::float64;
  const Inputs inputs(s, kType, 1.1);
  const NdhwcTensor input(input_shape(s), kType, inputs.input),
      out(output_shape(s), kType, inputs.grad_output);
  TestTensor grid(grid_shape(s), kType, Layout::contiguous, inputs.grid);
  aclGetRecentErrMsg();
  EXPECT_EQ(run_forward(s, input, grid, out), 161002);
  expect_readable_message("aclnnGridSampler3D.input");
  EXPECT_EQ(run_backward(s, out, input, grid, input, grid), 161002);
  expect_readable_message("aclnnGridSampler3DBackward.input");
}

TEST(GridSampler3DStrictDeathTest, RefusesNdhwcThatTheDocumentOfTheForwardFunctionRefuses) {
  const auto status = [](int64_t channels, int mode, DataType type) {
    Sampling3D s = sizes(1, channels, 3, 5, 6, 4, 2, 7);
    s.mode = mode;
    const Inputs inputs(s, type, 1.1);
    const NdhwcTensor input(input_shape(s), type, inputs.input),
        out(output_shape(s), type, inputs.grad_output);
    TestTensor grid(grid_shape(s), type, Layout::contiguous, inputs.grid);
    return run_forward(s, input, grid, out);
  };
  expect_in_strict_mode([&] {
    return status(8, 0, DataType::float32) == OK && status(6, 0, DataType::float32) == 161002 &&
           status(8, 1, DataType::float32) == 161002 && status(8, 0, DataType::float16) == 161002;
  });
}

// ---- The gradient's gradient, which only the C++ interface and Python have

// One call with all its tensors, those of images in a layout.
struct DoubleBackwardCall {
  TestTensor grad_output, input, grid, grad_grad_input, grad_grad_grid;
  TestTensor grad_grad_output, input_grad, grid_grad;
  GridSampler2DDoubleBackward problem;

  DoubleBackwardCall(const Sampling& s, DataType type, const MoreInputs& inputs, Layout layout)
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
    run();
  }

  void run() const { grid_sampler_2d_double_backward(problem, Workspace(workspace_size(problem))); }
};

TEST(GridSampler2DDoubleBackward, ChannelsLastGivesTheSameBits) {
  constexpr DataType kType = DataType::float32;
  for (const Sampling& size : {sizes(2, 16, 20, 24, 22, 26), sizes(1, 64, 40, 40, 40, 40),
                               sizes(2, 20, 20, 24, 22, 26), sizes(1, 3, 40, 40, 30, 50)}) {
    MoreInputs inputs(size, kType, 1.3);
    if (size.height == size.output_height) inputs.grid = smooth_grid(size, kType);
    for_each_mode(size, kType, [&](const Sampling& s) {
      const DoubleBackwardCall first(s, kType, inputs, Layout::contiguous);
      DoubleBackwardCall last(s, kType, inputs, Layout::channels_last);
      EXPECT_EQ(last.grad_grad_output.bytes(), first.grad_grad_output.bytes());
      EXPECT_EQ(last.input_grad.bytes(), first.input_grad.bytes());
      EXPECT_EQ(last.grid_grad.bytes(), first.grid_grad.bytes());

      // With nothing to pack.
      const TestTensor alone(output_shape(s), kType, Layout::channels_last);
      last.problem.grad_grad_output = alone.tensor();
      last.problem.grad_input = last.problem.grad_grid = {};
      last.run();
      EXPECT_EQ(alone.bytes(), first.grad_grad_output.bytes());
    });
  }
}

// So large that what samples get is found before what pixels get, which are added up in a buffer where the grid is turned; in
// short rows and alone it is neither.
TEST(GridSampler2DDoubleBackward, ResultsAreTheSameAloneAndTogether) {
  constexpr DataType kType = DataType::float32;
  const Sampling s = sizes(1, 3, 512, 520, 90, 400);
  Sampling in_short_rows = s;
  in_short_rows.output_height *= 4, in_short_rows.output_width /= 4;
  MoreInputs inputs(s, kType, 1.1);
  for (bool is_turned : {false, true}) {
    for (int64_t k = 0; is_turned && k < s.output_height * s.output_width; ++k) {
      const std::div_t place = std::div(static_cast<int>(k), static_cast<int>(s.output_width));
      inputs.grid[2 * k] = 2.0 * place.quot / 520, inputs.grid[2 * k + 1] = 2.0 * place.rem / 512 - 0.9;
    }
    inputs.grid = rounded(inputs.grid, kType);
    const DoubleBackwardCall together(s, kType, inputs, Layout::contiguous);
    DoubleBackwardCall alone(in_short_rows, kType, inputs, Layout::contiguous);
    const TestTensor grad_grad_output(output_shape(s), kType), input_grad(input_shape(s), kType),
        grid_grad(grid_shape(s), kType);
    auto& problem = alone.problem;
    problem.grad_input = {};
    problem.grad_grad_output.data = grad_grad_output.tensor().data;
    problem.grad_grid.data = grid_grad.tensor().data;
    alone.run();
    problem.grad_grad_output = problem.grad_grid = {};
    problem.grad_input = input_grad.tensor();
    alone.run();
    EXPECT_TRUE(grad_grad_output.bytes() == together.grad_grad_output.bytes());
    EXPECT_TRUE(grid_grad.bytes() == together.grid_grad.bytes());
    EXPECT_TRUE(input_grad.bytes() == together.input_grad.bytes());
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
