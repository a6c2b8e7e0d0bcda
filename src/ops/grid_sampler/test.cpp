// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What is true of grid sampling and its gradient alone; what holds for every operator is tested in tests/operators/.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "ops/grid_sampler/cases.h"
#include "ops/grid_sampler/cases_modes.h"
#include "ops/grid_sampler/reference.h"
#include "support/test_tensor.h"

namespace aclgrad::test {
namespace {

using namespace grid_sampler_cases;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A mask of two entries, as the C interface takes it.
class Mask {
 public:
  Mask(bool input_grad, bool grid_grad) {
    const bool values[] = {input_grad, grid_grad};
    handle_ = aclCreateBoolArray(values, 2);
  }
  ~Mask() { aclDestroyBoolArray(handle_); }
  Mask(const Mask&) = delete;
  Mask& operator=(const Mask&) = delete;
  operator aclBoolArray*() const { return handle_; }

 private:
  aclBoolArray* handle_;
};

aclnnStatus run_backward(aclTensor* grad_output, aclTensor* input, aclTensor* grid, int64_t mode,
                         int64_t padding, bool align_corners, aclBoolArray* mask, aclTensor* input_grad,
                         aclTensor* grid_grad) {
  return run(
      [&](auto* size, auto* executor) {
        return aclnnGridSampler2DBackwardGetWorkspaceSize(grad_output, input, grid, mode, padding,
                                                          align_corners, mask, input_grad, grid_grad, size,
                                                          executor);
      },
      aclnnGridSampler2DBackward);
}

aclnnStatus run_forward(aclTensor* input, aclTensor* grid, int64_t mode, int64_t padding, bool align_corners,
                        aclTensor* out) {
  return run(
      [&](auto* size, auto* executor) {
        return aclnnGridSampler2DGetWorkspaceSize(input, grid, mode, padding, align_corners, out, size,
                                                  executor);
      },
      aclnnGridSampler2D);
}

// All tensors of one gradient call.
struct Call {
  TestTensor grad_output;
  TestTensor input;
  TestTensor grid;
  TestTensor input_grad;
  TestTensor grid_grad;

  Call(const Sampling& s, DataType type, const Inputs& inputs, Layout layout = Layout::contiguous)
      : grad_output(output_shape(s), type, layout, inputs.grad_output),
        input(input_shape(s), type, layout, inputs.input),
        grid(grid_shape(s), type, layout, inputs.grid),
        input_grad(input_shape(s), type, layout),
        grid_grad(grid_shape(s), type, layout) {}

  aclnnStatus run(const Sampling& s, bool wants_input_grad = true, bool wants_grid_grad = true) {
    const Mask mask(wants_input_grad, wants_grid_grad);
    return run_backward(grad_output, input, grid, s.mode, s.padding, s.align_corners, mask, input_grad,
                        grid_grad);
  }
};

TEST(GridSampler2DBackward, InfinityStaysWhereItIsOnASmoothGrid) {
  const Sampling s = sizes(1, 1, 32, 64, 32, 64);
  for (DataType type : {DataType::float32, DataType::float64}) {
    Inputs inputs(s, type, 1);
    inputs.grid = smooth_grid(s, type);
    for (size_t i = 37; i < inputs.grad_output.size(); i += 41) inputs.grad_output[i] = kInfinity;
    Sampling sampling = s;
    sampling.positions_in_double = type == DataType::float64;
    const auto expected = gradients_of(sampling, inputs);
    Call call(s, type, inputs);
    ASSERT_EQ(call.run(s), OK);
    const auto values = call.input_grad.values();
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(std::isinf(values[i]), std::isinf(expected.input[i])) << i;
      EXPECT_EQ(std::isnan(values[i]), std::isnan(expected.input[i])) << i;
    }
  }
}

TEST(GridSampler2DBackward, TakesAnyGrid) {
  for (const Sampling& size : {sizes(1, 3, 8, 8, 20, 20), sizes(2, 16, 9, 4, 20, 20),
                               sizes(1, 1, 300, 1, 1, 1), sizes(1, 20, 1, 5, 16, 16)}) {
    for (DataType type : kTypes) {
      Inputs inputs(size, type, 1);
      inputs.grid = hostile_grid(size, type);
      for_each_mode(size, type, [&](const Sampling& s) {
        const auto expected = gradients_of(s, inputs);
        Call call(s, type, inputs);
        ASSERT_EQ(call.run(s), OK);
        EXPECT_LE(relative_error(call.input_grad.values(), expected.input),
                  allowed_error(type, expected.input));
        EXPECT_LE(gradient_error(call.grid_grad.values(), expected.grid), allowed_error(type, expected.grid));
      });
    }
  }
}

TEST(GridSampler2D, TakesAnyGrid) {
  for (const Sampling& size :
       {sizes(1, 3, 8, 8, 20, 20), sizes(2, 16, 9, 4, 20, 20), sizes(1, 20, 1, 5, 16, 16)}) {
    for (DataType type : kTypes) {
      Inputs inputs(size, type, 1);
      inputs.grid = hostile_grid(size, type);
      for_each_mode(size, type, [&](const Sampling& s) {
        if (s.mode == 2 && type == DataType::float64) return;
        TestTensor input(input_shape(s), type, Layout::contiguous, inputs.input);
        TestTensor grid(grid_shape(s), type, Layout::contiguous, inputs.grid);
        TestTensor out(output_shape(s), type);
        ASSERT_EQ(run_forward(input, grid, s.mode, s.padding, s.align_corners, out), OK);
        EXPECT_LE(relative_error(out.values(), sample(s, inputs)), tolerance(type, true));
      });
    }
  }
}

// Pixels that are infinite, at the edges too, where vectors of neighbours are read beyond the ends of rows.
TEST(GridSampler2D, InfinityReachesItsOwnSamplesOnASmoothGrid) {
  for (const Sampling& size : {sizes(1, 1, 33, 60, 33, 60), sizes(2, 6, 17, 32, 17, 32)}) {
    for (DataType type : {DataType::float32, DataType::float64}) {
      Inputs inputs(size, type, 1);
      inputs.grid = smooth_grid(size, type);
      const auto width = static_cast<size_t>(size.width);
      for (size_t i = 0; i < inputs.input.size(); i += 7 * width) {
        inputs.input[i] = kInfinity;
        inputs.input[i + width - 1] = -kInfinity;
        inputs.input[i + width / 2] = kInfinity;
      }
      for_each_mode(size, type, [&](Sampling s) {
        if (s.mode == 2) return;
        s.positions_in_double = type == DataType::float64;
        TestTensor input(input_shape(s), type, Layout::contiguous, inputs.input);
        TestTensor grid(grid_shape(s), type, Layout::contiguous, inputs.grid);
        TestTensor out(output_shape(s), type);
        ASSERT_EQ(run_forward(input, grid, s.mode, s.padding, s.align_corners, out), OK);
        const std::vector<double> values = out.values(), expected = sample(s, inputs);
        for (size_t i = 0; i < values.size(); ++i) {
          EXPECT_EQ(std::isnan(values[i]), std::isnan(expected[i])) << describe(s, type) << " " << i;
          if (std::isinf(expected[i]))
            EXPECT_EQ(values[i], expected[i]) << describe(s, type) << " " << i;
          else
            EXPECT_FALSE(std::isinf(values[i])) << describe(s, type) << " " << i;
        }
      });
    }
  }
}

TEST(GridSampler2D, WhatIsNoNumberReadsZeroOrPixelZeroButBicubicNan) {
  for (int64_t channels : {1, 16}) {
    const Sampling s = sizes(1, channels, 3, 3, 2, 2);
    TestTensor input(input_shape(s), DataType::float32, Layout::contiguous, uniform(9 * channels, 1, 2, 1));
    TestTensor grid(grid_shape(s), DataType::float32, Layout::contiguous,
                    std::vector<double>(8, std::nan("")));
    TestTensor out(output_shape(s), DataType::float32);
    for (int64_t mode : {0, 1, 2}) {
      for (int64_t padding : {0, 1, 2}) {
        ASSERT_EQ(run_forward(input, grid, mode, padding, true, out), OK);
        for (int64_t i = 0; i < 4 * channels; ++i) {
          const double pixel = input.values()[static_cast<size_t>(i / 4 * 9)];
          const double actual = out.values()[static_cast<size_t>(i)];
          if (mode == 2) {
            EXPECT_TRUE(std::isnan(actual)) << padding;
          } else {
            EXPECT_EQ(actual, padding == 0 ? 0 : pixel) << mode << " " << padding;
          }
        }
      }
    }
  }
}

// One coordinate, x or y, is NaN or infinite, or overflows on its way to pixels.
TEST(GridSampler2D, BicubicIsNanWhereOneCoordinateIsNotFinite) {
  for (int64_t channels : {1, 3, 16}) {
    for (DataType type : kTypes) {
      Sampling s = sizes(1, channels, 4, 5, 6, 4);
      s.mode = 2;
      Inputs inputs(s, type, 1);
      const double largest = type == DataType::float64   ? 1.7e308
                             : type == DataType::float16 ? kInfinity
                                                         : 3e38;
      const double wrong[] = {std::nan(""), kInfinity, -kInfinity, largest, -largest};
      for (size_t k = 0; k < std::size(wrong); ++k) inputs.grid[7 * k] = wrong[k];  // points 0, 3, 7, 10, 14
      inputs.grid = rounded(inputs.grid, type);
      for (s.padding = 0; s.padding < 3; ++s.padding) {
        TestTensor input(input_shape(s), type, Layout::contiguous, inputs.input);
        TestTensor grid(grid_shape(s), type, Layout::contiguous, inputs.grid);
        TestTensor out(output_shape(s), type);
        // The C interface has no bicubic forward in double.
        if (type != DataType::float64) {
          ASSERT_EQ(run_forward(input, grid, s.mode, s.padding, false, out), OK);
          const auto values = out.values();
          for (int64_t i = 0; i < 24 * channels; ++i) {
            const int64_t point = i % 24;
            const bool is_wrong = point < 15 && (point % 7 == 0 || point % 7 == 3);
            EXPECT_EQ(std::isnan(values[static_cast<size_t>(i)]), is_wrong) << describe(s, type) << " " << i;
          }
        }
        Call call(s, type, inputs);
        ASSERT_EQ(call.run(s), OK);
        const auto grid_grad = call.grid_grad.values();
        for (size_t point : {0, 3, 7, 10, 14}) {
          EXPECT_EQ(grid_grad[2 * point], 0) << describe(s, type) << " " << point;
          EXPECT_EQ(grid_grad[2 * point + 1], 0) << describe(s, type) << " " << point;
        }
        for (double value : call.input_grad.values()) EXPECT_TRUE(std::isfinite(value));
      }
    }
  }
}

// What PyTorch gives in double precision, where it is exact that far away; and a float that has no neighbours.
TEST(GridSampler2DBackward, BicubicReadsPixelsFarAway) {
  struct Far {
    DataType type;
    double coordinate;
    int64_t padding;
    bool align_corners;
    std::vector<double> input_grad;  // of five pixels
    double grid_grad;
  };
  constexpr DataType kDouble = DataType::float64, kSingle = DataType::float32;
  const Far points[] = {
      {kDouble, 3e9, 1, false, {0, 0, 0, 0, 1}, 0},      {kDouble, 3e9, 1, true, {0, 0, 0, 0, 1}, 0},
      {kDouble, 3e9, 2, false, {0, 0, 1, 0, 0}, 3.75},   {kDouble, 3e9, 2, true, {0, 0, 1, 0, 0}, 3},
      {kDouble, -3e9, 1, false, {1, 0, 0, 0, 0}, 0},     {kDouble, 1e20, 1, false, {0, 0, 0, 0, 1}, 0},
      {kDouble, 1e20, 2, false, {1, 0, 0, 0, 0}, 0},     {kDouble, 3e9, 0, false, {0, 0, 0, 0, 0}, 0},
      {kSingle, 3e9, 1, false, {0, 0, 0, 0, 1}, 0},      {kSingle, -1e20, 1, true, {1, 0, 0, 0, 0}, 0},
      {kSingle, 4194304, 2, true, {0, 0, 1, 0, 0}, 3},   {kSingle, 4194303, 2, true, {1, 0, 0, 0, 0}, 0},
      {kSingle, 67108872, 2, false, {0, 0, 0, 1, 0}, 0},
  };
  for (const Far& far : points) {
    Sampling s = sizes(1, 1, 3, 5, 1, 1);
    s.mode = 2;
    s.padding = static_cast<int>(far.padding);
    s.align_corners = far.align_corners;
    Inputs inputs(s, far.type, 1);
    for (size_t i = 0; i < 15; ++i) inputs.input[i] = static_cast<double>(i + 1);
    inputs.grad_output = {1};
    inputs.grid = {far.coordinate, 0};
    SCOPED_TRACE(describe(s, far.type) + " at " + std::to_string(far.coordinate));
    Call call(s, far.type, inputs);
    ASSERT_EQ(call.run(s), OK);
    const auto input_grad = call.input_grad.values();
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_NEAR(input_grad[i] + input_grad[5 + i] + input_grad[10 + i], far.input_grad[i], 1e-6) << i;
    }
    EXPECT_NEAR(call.grid_grad.values()[0], far.grid_grad, 1e-5);
  }
}

TEST(GridSampler2DBackward, BorderTakesInfinityAndNothingTakesNan) {
  const Sampling s = sizes(1, 1, 2, 3, 1, 4);
  TestTensor grad_output(output_shape(s), DataType::float32, Layout::contiguous, {1, 10, 100, 1000});
  TestTensor input(input_shape(s), DataType::float32, Layout::contiguous, {1, 2, 3, 4, 5, 6});
  TestTensor grid(grid_shape(s), DataType::float32, Layout::contiguous,
                  {kInfinity, -1, -kInfinity, kInfinity, std::nan(""), 0, 0, std::nan("")});
  TestTensor input_grad(input_shape(s), DataType::float32);
  TestTensor grid_grad(grid_shape(s), DataType::float32);
  ASSERT_EQ(run_backward(grad_output, input, grid, 0, 1, true, Mask(true, true), input_grad, grid_grad), OK);
  EXPECT_EQ(input_grad.values(), (std::vector<double>{0, 0, 1, 10, 0, 0}));
  EXPECT_EQ(grid_grad.values(), std::vector<double>(8, 0.0));
}

TEST(GridSampler2DBackward, CarriesNanAndInfinityOfItsInputs) {
  for (const Sampling& size : {sizes(1, 2, 6, 6, 5, 7), sizes(1, 16, 6, 6, 5, 7)}) {
    for (DataType type : kTypes) {
      Inputs inputs(size, type, 1.2);
      inputs.input[3] = std::nan("");
      inputs.input[20] = kInfinity;
      inputs.grad_output[4] = -kInfinity;
      inputs.grad_output[30] = std::nan("");
      for_each_mode(size, type, [&](const Sampling& s) {
        const auto expected = gradients_of(s, inputs);
        Call call(s, type, inputs);
        ASSERT_EQ(call.run(s), OK);
        EXPECT_LE(relative_error(call.input_grad.values(), expected.input),
                  allowed_error(type, expected.input));
        // Terms of which one is infinite may be added in another order: what is not finite agrees, which of infinity
        // and NaN it is need not.
        const std::vector<double> grid_grad = call.grid_grad.values();
        for (size_t i = 0; i < grid_grad.size(); ++i) {
          EXPECT_EQ(std::isfinite(grid_grad[i]), std::isfinite(expected.grid[i])) << i;
        }
      });
    }
  }
}

TEST(GridSampler2DBackward, ComputesOnlyWhatTheMaskAsksFor) {
  for (const Sampling& size :
       {sizes(2, 3, 20, 30, 17, 19), sizes(2, 24, 20, 30, 17, 19), sizes(1, 16, 90, 90, 3, 3)}) {
    for (DataType type : kTypes) {
      const Inputs inputs(size, type, 1.3);
      for_each_mode(size, type, [&](const Sampling& s) {
        Call both(s, type, inputs);
        Call input_only(s, type, inputs);
        Call grid_only(s, type, inputs);
        Call untouched(s, type, inputs);
        ASSERT_EQ(both.run(s), OK);
        ASSERT_EQ(input_only.run(s, true, false), OK);
        ASSERT_EQ(grid_only.run(s, false, true), OK);
        EXPECT_EQ(input_only.input_grad.bytes(), both.input_grad.bytes());
        EXPECT_EQ(grid_only.grid_grad.bytes(), both.grid_grad.bytes());
        EXPECT_EQ(input_only.grid_grad.bytes(), untouched.grid_grad.bytes());
        EXPECT_EQ(grid_only.input_grad.bytes(), untouched.input_grad.bytes());
      });
    }
  }
}

TEST(GridSampler2DBackward, ReferenceIsTheDerivativeOfTheForwardReference) {
  Sampling size = sizes(1, 2, 5, 6, 4, 5);
  Inputs inputs(size, DataType::float64, 1.4);
  for_each_mode(size, DataType::float64, [&](const Sampling& s) {
    const auto gradients = gradients_of(s, inputs);
    const auto loss = [&] {
      const auto output = sample(s, inputs);
      double sum = 0;
      for (size_t i = 0; i < output.size(); ++i) sum += output[i] * inputs.grad_output[i];
      return sum;
    };
    expect_derivatives(loss, inputs.input, gradients.input);
    expect_derivatives(loss, inputs.grid, gradients.grid);
  });
}

TEST(GridSampler2DBackward, PrintsItsErrors) {
  for (const Sampling& s : {sizes(1, 3, 64, 64, 64, 64), sizes(1, 64, 64, 64, 64, 64)}) {
    for (DataType type : kTypes) {
      Sampling sampling = s;
      sampling.positions_in_double = type == DataType::float64;
      const Inputs inputs(s, type, 1);
      const auto expected = gradients_of(sampling, inputs);
      Call call(sampling, type, inputs);
      ASSERT_EQ(call.run(sampling), OK);
      print_ulp_histogram(describe(sampling, type) + ", inputGrad", call.input_grad.values(), expected.input,
                          type);
      print_ulp_histogram(describe(sampling, type) + ", gridGrad", call.grid_grad.values(), expected.grid,
                          type);
      EXPECT_LE(relative_error(call.input_grad.values(), expected.input),
                allowed_error(type, expected.input));
      EXPECT_LE(relative_error(call.grid_grad.values(), expected.grid), tolerance(type, true));
    }
  }
}

TEST(GridSampler2DBackward, MaskedOutputsNeedNoData) {
  Sampling s = sizes(1, 3, 5, 7, 4, 6);
  const Inputs inputs(s, DataType::float32, 1);
  Call call(s, DataType::float32, inputs);
  ASSERT_EQ(aclSetRawTensorAddr(call.input_grad, nullptr), OK);
  ASSERT_EQ(call.run(s, false, true), OK);
  const auto expected = gradients_of(s, inputs);
  EXPECT_LE(relative_error(call.grid_grad.values(), expected.grid),
            allowed_error(DataType::float32, expected.grid));
  EXPECT_EQ(call.run(s, true, true), 161001);
}

TEST(GridSampler2DBackward, EmptyTensors) {
  const auto zeros = [](const TestTensor& tensor) {
    return tensor.values() == std::vector<double>(static_cast<size_t>(element_count(tensor.shape())), 0.0);
  };
  const Sampling no_points = sizes(2, 3, 4, 5, 0, 6);
  Call call(no_points, DataType::float32, Inputs(no_points, DataType::float32, 1), Layout::gapped);
  EXPECT_EQ(call.run(no_points), OK);
  EXPECT_TRUE(zeros(call.input_grad));
  EXPECT_TRUE(call.input_grad.holes_untouched());
  const Sampling no_channels = sizes(2, 0, 4, 5, 3, 6);
  Call grids(no_channels, DataType::float16, Inputs(no_channels, DataType::float16, 1), Layout::gapped);
  EXPECT_EQ(grids.run(no_channels), OK);
  EXPECT_TRUE(zeros(grids.grid_grad));
  EXPECT_TRUE(grids.grid_grad.holes_untouched());
  Call masked(no_channels, DataType::float16, Inputs(no_channels, DataType::float16, 1));
  EXPECT_EQ(masked.run(no_channels, true, false), OK);
  EXPECT_FALSE(zeros(masked.grid_grad));
  const Sampling no_images = sizes(0, 3, 4, 5, 3, 6);
  Call nothing(no_images, DataType::bfloat16, Inputs(no_images, DataType::bfloat16, 1));
  EXPECT_EQ(nothing.run(no_images), OK);
}

TEST(GridSampler2D, EmptyTensors) {
  for (const Sampling& s : {sizes(0, 3, 4, 5, 3, 6), sizes(1, 0, 4, 5, 3, 6), sizes(1, 3, 4, 5, 0, 6)}) {
    TestTensor input(input_shape(s), DataType::float32);
    TestTensor grid(grid_shape(s), DataType::float32);
    TestTensor out(output_shape(s), DataType::float32);
    EXPECT_EQ(run_forward(input, grid, 0, 0, true, out), OK);
  }
}

// A call whose arguments can be changed one at a time.
struct BackwardArguments {
  const Sampling s = sizes(2, 3, 4, 5, 6, 7);
  TestTensor grad_output_tensor{output_shape(s), DataType::float32, Layout::contiguous,
                                std::vector<double>(252, 1.0)};
  TestTensor input_tensor{input_shape(s), DataType::float32, Layout::contiguous,
                          std::vector<double>(120, 1.0)};
  TestTensor grid_tensor{grid_shape(s), DataType::float32, Layout::contiguous, std::vector<double>(168, 0.1)};
  TestTensor input_grad_tensor{input_shape(s), DataType::float32};
  TestTensor grid_grad_tensor{grid_shape(s), DataType::float32};
  Mask both{true, true};

  aclTensor* grad_output = grad_output_tensor;
  aclTensor* input = input_tensor;
  aclTensor* grid = grid_tensor;
  int64_t mode = 0;
  int64_t padding = 0;
  aclBoolArray* mask = both;
  aclTensor* input_grad = input_grad_tensor;
  aclTensor* grid_grad = grid_grad_tensor;

  aclnnStatus run() const {
    return run_backward(grad_output, input, grid, mode, padding, false, mask, input_grad, grid_grad);
  }
};

template <class Change>
aclnnStatus status_with(Change&& change) {
  BackwardArguments arguments;
  change(arguments);
  return arguments.run();
}

TEST(GridSampler2DBackward, MaskMayBeNullOrAskForNothing) {
  using Arguments = BackwardArguments;
  EXPECT_EQ(status_with([](Arguments&) {}), OK);

  BackwardArguments arguments;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(aclnnGridSampler2DBackwardGetWorkspaceSize(nullptr, nullptr, nullptr, 9, 9, false, nullptr,
                                                       nullptr, nullptr, nullptr, &executor),
            161001);
  EXPECT_EQ(aclnnGridSampler2DBackwardGetWorkspaceSize(nullptr, nullptr, nullptr, 9, 9, false, nullptr,
                                                       nullptr, nullptr, &size, nullptr),
            161001);

  // 1. Without a mask nothing else is looked at, and nothing computed.
  size = 1;
  EXPECT_EQ(aclnnGridSampler2DBackwardGetWorkspaceSize(nullptr, nullptr, nullptr, 9, 9, false, nullptr,
                                                       nullptr, nullptr, &size, &executor),
            OK);
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(aclnnGridSampler2DBackward(nullptr, 0, executor, nullptr), OK);
  const std::vector<std::byte> before = arguments.input_grad_tensor.bytes();
  arguments.mask = nullptr;
  EXPECT_EQ(arguments.run(), OK);
  EXPECT_EQ(arguments.input_grad_tensor.bytes(), before);

  // A mask that asks for nothing: the checks come first all the same.
  const Mask none(false, false);
  EXPECT_EQ(status_with([&](Arguments& a) { a.mask = none; }), OK);
  EXPECT_EQ(status_with([&](Arguments& a) { a.mask = none, a.mode = 3; }), 161002);
  arguments.mask = none;
  EXPECT_EQ(arguments.run(), OK);
  EXPECT_EQ(arguments.input_grad_tensor.bytes(), before);
}

// The environment is read once, so this runs in a process of its own.
TEST(GridSampler2DStrictDeathTest, RefusesWhatTheDocumentDoesNotList) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  setenv("ACLGRAD_STRICT", "1", 1);
  EXPECT_EXIT(
      {
        const Sampling s = sizes(1, 1, 2, 2, 1, 1);
        Call of_double(s, DataType::float64, Inputs(s, DataType::float64, 1));
        Call of_float(s, DataType::float32, Inputs(s, DataType::float32, 1));
        Sampling bicubic = s;
        bicubic.mode = 2;
        const bool right =
            of_double.run(s) == 161002 && of_float.run(s) == OK && of_float.run(bicubic) == 161002;
        std::exit(right ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  unsetenv("ACLGRAD_STRICT");
}

// ---- The C++ interface

TEST(GridSampler2DBackward, CppInterfaceNeedsNoWorkspaceForImagesWithoutPixels) {
  const Sampling s = sizes(1, 16, 0, 5, 2, 2);
  auto problem = problem_of<GridSampler2DBackward>(s, DataType::float32, nullptr, nullptr);
  problem.grad_output = {nullptr, DataType::float32, output_extents(s)};
  problem.grad_input = {nullptr, DataType::float32, problem.input.shape};
  problem.grad_grid = {nullptr, DataType::float32, problem.grid.shape};
  EXPECT_EQ(workspace_size(problem), 0u);
}

}  // namespace
}  // namespace aclgrad::test
