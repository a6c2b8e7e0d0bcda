// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What is true of three-dimensional grid sampling and its gradient alone.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "aclgrad/grid_sampler.h"
#include "aclnnop/aclnn_grid_sampler3d.h"
#include "aclnnop/aclnn_grid_sampler3d_backward.h"
#include "ops/grid_sampler/cases.h"
#include "ops/grid_sampler/cases_modes.h"
#include "support/message.h"
#include "support/test_tensor.h"

namespace aclgrad::test {
namespace {

using namespace grid_sampler_cases;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

aclnnStatus run_backward(aclTensor* grad_output, aclTensor* input, aclTensor* grid, const Sampling3D& s,
                         aclTensor* input_grad, aclTensor* grid_grad) {
  const bool both[] = {true, true};
  aclBoolArray* mask = aclCreateBoolArray(both, 2);
  const aclnnStatus status = run(
      [&](auto* size, auto* executor) {
        return aclnnGridSampler3DBackwardGetWorkspaceSize(grad_output, input, grid, s.mode, s.padding,
                                                          s.align_corners, mask, input_grad, grid_grad, size,
                                                          executor);
      },
      aclnnGridSampler3DBackward);
  aclDestroyBoolArray(mask);
  return status;
}

aclnnStatus run_forward(aclTensor* input, aclTensor* grid, const Sampling3D& s, aclTensor* out) {
  return run(
      [&](auto* size, auto* executor) {
        return aclnnGridSampler3DGetWorkspaceSize(input, grid, s.mode, s.padding, s.align_corners, out, size,
                                                  executor);
      },
      aclnnGridSampler3D);
}

// Few channels and many, and as many samples as voxels or few.
const Sampling3D kSomeSizes[] = {sizes(1, 3, 5, 6, 7, 6, 7, 8), sizes(2, 16, 4, 9, 4, 5, 10, 6),
                                 sizes(1, 20, 1, 1, 5, 4, 4, 4), sizes(1, 6, 20, 19, 18, 2, 3, 7)};

TEST(GridSampler3DBackward, TakesAnyGrid) {
  for (const Sampling3D& size : kSomeSizes) {
    for (DataType type : kTypes) {
      Inputs inputs(size, type, 1);
      inputs.grid = hostile_grid(size, type);
      for_each_mode(size, type, [&](const Sampling3D& s) {
        const auto expected = gradients_of(s, inputs);
        TestTensor grad_output(output_shape(s), type, Layout::contiguous, inputs.grad_output);
        TestTensor input(input_shape(s), type, Layout::contiguous, inputs.input);
        TestTensor grid(grid_shape(s), type, Layout::contiguous, inputs.grid);
        TestTensor input_grad(input_shape(s), type), grid_grad(grid_shape(s), type);
        ASSERT_EQ(run_backward(grad_output, input, grid, s, input_grad, grid_grad), OK);
        EXPECT_LE(relative_error(input_grad.values(), expected.input), allowed_error(type, expected.input));
        EXPECT_LE(gradient_error(grid_grad.values(), expected.grid), allowed_error(type, expected.grid));
      });
    }
  }
}

TEST(GridSampler3D, TakesAnyGrid) {
  for (const Sampling3D& size : kSomeSizes) {
    for (DataType type : kTypes) {
      Inputs inputs(size, type, 1);
      inputs.grid = hostile_grid(size, type);
      for_each_mode(size, type, [&](const Sampling3D& s) {
        TestTensor input(input_shape(s), type, Layout::contiguous, inputs.input);
        TestTensor grid(grid_shape(s), type, Layout::contiguous, inputs.grid);
        TestTensor out(output_shape(s), type);
        ASSERT_EQ(run_forward(input, grid, s, out), OK);
        EXPECT_LE(relative_error(out.values(), sample(s, inputs)), tolerance(type, true));
      });
    }
  }
}

// Where they are in gradOutput and in input they come out, and nowhere else: what a tap does not read has no part.
TEST(GridSampler3DBackward, InfinitiesStayWhereTheyAre) {
  for (const Sampling3D& size : {sizes(1, 1, 8, 17, 32, 8, 17, 32), sizes(1, 16, 6, 7, 8, 6, 7, 8)}) {
    for (DataType type : {DataType::float32, DataType::float64}) {
      Inputs inputs(size, type, 1);
      inputs.grid = smooth_grid(size, type);
      for (size_t i = 37; i < inputs.grad_output.size(); i += 141) inputs.grad_output[i] = kInfinity;
      for (size_t i = 11; i < inputs.input.size(); i += 233) inputs.input[i] = -kInfinity;
      for_each_mode(size, type, [&](const Sampling3D& s) {
        const auto expected = gradients_of(s, inputs);
        TestTensor grad_output(output_shape(s), type, Layout::contiguous, inputs.grad_output);
        TestTensor input(input_shape(s), type, Layout::contiguous, inputs.input);
        TestTensor grid(grid_shape(s), type, Layout::contiguous, inputs.grid);
        TestTensor input_grad(input_shape(s), type), grid_grad(grid_shape(s), type);
        ASSERT_EQ(run_backward(grad_output, input, grid, s, input_grad, grid_grad), OK);
        const auto expect_same_kinds = [](const std::vector<double>& actual,
                                          const std::vector<double>& wanted) {
          int others = 0;
          for (size_t i = 0; i < actual.size(); ++i)
            others += std::isfinite(actual[i]) != std::isfinite(wanted[i]);
          EXPECT_EQ(others, 0);
        };
        expect_same_kinds(input_grad.values(), expected.input);
        expect_same_kinds(grid_grad.values(), expected.grid);
      });
    }
  }
}

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
      TestTensor grad_output(output_shape(s), type, Layout::contiguous, inputs.grad_output);
      TestTensor input(input_shape(s), type, Layout::contiguous, inputs.input);
      TestTensor grid(grid_shape(s), type, Layout::contiguous, inputs.grid);
      std::vector<std::byte> first_input, first_grid;
      for (int threads : {1, 3, 4, 16}) {
        set_thread_count(threads);
        TestTensor input_grad(input_shape(s), type), grid_grad(grid_shape(s), type);
        ASSERT_EQ(run_backward(grad_output, input, grid, s, input_grad, grid_grad), OK);
        if (threads == 1) {
          EXPECT_LE(relative_error(input_grad.values(), expected.input), allowed_error(type, expected.input));
          EXPECT_LE(gradient_error(grid_grad.values(), expected.grid), allowed_error(type, expected.grid));
          first_input = input_grad.bytes(), first_grid = grid_grad.bytes();
        }
        EXPECT_EQ(input_grad.bytes(), first_input) << threads << " threads";
        EXPECT_EQ(grid_grad.bytes(), first_grid) << threads << " threads";
      }
      set_thread_count(0);
    });
  }
}

// ---- Formats

// The axes of a contiguous tensor [N, C, D, H, W] as [N, D, H, W, C].
std::vector<double> channels_last(const std::vector<double>& values, const Shape& s) {
  const int64_t voxels = s[2] * s[3] * s[4];
  std::vector<double> moved(values.size());
  for (int64_t n = 0; n < s[0]; ++n) {
    for (int64_t c = 0; c < s[1]; ++c) {
      for (int64_t v = 0; v < voxels; ++v) {
        moved[static_cast<size_t>((n * voxels + v) * s[1] + c)] =
            values[static_cast<size_t>((n * s[1] + c) * voxels + v)];
      }
    }
  }
  return moved;
}

// A contiguous tensor whose handle says this format.
class FormattedTensor {
 public:
  FormattedTensor(const Shape& shape, DataType type, aclFormat format, const std::vector<double>& values)
      : tensor_(shape, type, Layout::contiguous, values),
        handle_(aclCreateTensor(shape.data(), shape.size(), data_type_of(type), nullptr, 0, format,
                                shape.data(), shape.size(), tensor_.data())) {}
  ~FormattedTensor() { aclDestroyTensor(handle_); }
  FormattedTensor(const FormattedTensor&) = delete;
  FormattedTensor& operator=(const FormattedTensor&) = delete;

  operator aclTensor*() const { return handle_; }
  std::vector<double> values() const { return tensor_.values(); }

 private:
  static aclDataType data_type_of(DataType type) {
    return type == DataType::float32   ? ACL_FLOAT
           : type == DataType::float16 ? ACL_FLOAT16
           : type == DataType::float64 ? ACL_DOUBLE
                                       : ACL_BF16;
  }

  TestTensor tensor_;
  aclTensor* handle_;
};

// [N, D, H, W, C], whatever its format says, with the values of one [N, C, D, H, W].
struct NdhwcTensor : FormattedTensor {
  NdhwcTensor(const Shape& shape, DataType type, const std::vector<double>& values,
              aclFormat format = ACL_FORMAT_NDHWC)
      : FormattedTensor({shape[0], shape[2], shape[3], shape[4], shape[1]}, type, format,
                        channels_last(values, shape)) {}
};

std::vector<double> zeros(const Shape& shape) {
  return std::vector<double>(static_cast<size_t>(element_count(shape)));
}

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
        const auto expected = channels_last(sample(s, inputs), output_shape(s));
        for (aclFormat format : kTakenFormats) {
          const NdhwcTensor out(output_shape(s), type, zeros(output_shape(s)), format);
          ASSERT_EQ(run_forward(input, grid, s, out), OK) << "format " << format;
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
        const NdhwcTensor input_grad(input_shape(s), type, zeros(input_shape(s)), format);
        TestTensor grid_grad(grid_shape(s), type);
        ASSERT_EQ(run_backward(grad_output, input, grid, s, input_grad, grid_grad), OK)
            << "format " << format;
        EXPECT_LE(relative_error(input_grad.values(), channels_last(expected.input, input_shape(s))),
                  tolerance(type, true));
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
  const FormattedTensor out(output_shape(s), DataType::float32, ACL_FORMAT_NDHWC, zeros(output_shape(s)));
  ASSERT_EQ(run_forward(input, grid, s, out), OK);
  EXPECT_LE(relative_error(out.values(), sample(s, inputs)), tolerance(DataType::float32, true));

  const FormattedTensor grad_output(output_shape(s), DataType::float32, ACL_FORMAT_NDHWC, inputs.grad_output);
  const FormattedTensor input_grad(input_shape(s), DataType::float32, ACL_FORMAT_NDHWC,
                                   zeros(input_shape(s)));
  TestTensor grid_grad(grid_shape(s), DataType::float32);
  ASSERT_EQ(run_backward(grad_output, input, grid, s, input_grad, grid_grad), OK);
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
    const FormattedTensor out(output_shape(s), DataType::float32, of_out, zeros(output_shape(s)));
    return run_forward(input, grid, s, out);
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
  EXPECT_EQ(run_forward(input, grid, s, out), 161002);
  expect_readable_message("aclnnGridSampler3D.input");
  EXPECT_EQ(run_backward(out, input, grid, s, input, grid), 161002);
  expect_readable_message("aclnnGridSampler3DBackward.input");
}

// The environment is read once, so this runs in a process of its own.
TEST(GridSampler3DStrictDeathTest, RefusesNdhwcThatTheDocumentOfTheForwardFunctionRefuses) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  setenv("ACLGRAD_STRICT", "1", 1);
  const auto status = [](int64_t channels, int mode, DataType type) {
    Sampling3D s = sizes(1, channels, 3, 5, 6, 4, 2, 7);
    s.mode = mode;
    const Inputs inputs(s, type, 1.1);
    const NdhwcTensor input(input_shape(s), type, inputs.input),
        out(output_shape(s), type, inputs.grad_output);
    TestTensor grid(grid_shape(s), type, Layout::contiguous, inputs.grid);
    return run_forward(input, grid, s, out);
  };
  EXPECT_EXIT(
      {
        const bool right =
            status(8, 0, DataType::float32) == OK && status(6, 0, DataType::float32) == 161002 &&
            status(8, 1, DataType::float32) == 161002 && status(8, 0, DataType::float16) == 161002;
        std::exit(right ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  unsetenv("ACLGRAD_STRICT");
}

// ---- What costs nothing

TEST(GridSampler3DBackward, WithoutAMaskNothingIsLookedAt) {
  uint64_t size = 1;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(aclnnGridSampler3DBackwardGetWorkspaceSize(nullptr, nullptr, nullptr, 7, 7, false, nullptr,
                                                       nullptr, nullptr, &size, &executor),
            OK);
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(aclnnGridSampler3DBackward(nullptr, 0, executor, nullptr), OK);
  EXPECT_EQ(aclrtSynchronizeStream(nullptr), OK);
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

}  // namespace
}  // namespace aclgrad::test
