// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What is true of three-dimensional grid sampling and its gradient alone.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/grid_sampler/cases_calls.h"
#include "support/message.h"
#include "support/strict.h"

namespace aclgrad::test {
namespace {

using namespace grid_sampler_cases;

// Several threads cut the volume into boxes of slices. In most rows of this grid neighbours have taps in two of them, in
// some rows in more.
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
      std::vector<std::byte> first_input, first_grid;
      for (int threads : {1, 3, 4, 16}) {
        set_thread_count(threads);
        const Call call(s, type, inputs);
        ASSERT_EQ(call.backward(), OK);
        if (threads == 1) {
          EXPECT_LE(relative_error(call.input_grad.values(), expected.input), tolerance(type, true));
          EXPECT_LE(gradient_error(call.grid_grad.values(), expected.grid), tolerance(type, true));
          first_input = call.input_grad.bytes(), first_grid = call.grid_grad.bytes();
        }
        EXPECT_EQ(call.input_grad.bytes(), first_input) << threads << " threads";
        EXPECT_EQ(call.grid_grad.bytes(), first_grid) << threads << " threads";
      }
      set_thread_count(0);
    });
  }
}

// ---- Formats

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

}  // namespace
}  // namespace aclgrad::test
