// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What holds for kernels on a GPU beyond the operators' own tests: deterministic sums are bitwise the same in any order
// of the threads that add to them, and the workspace is as large as said.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "acl/acl.h"
#include "base/data_type.h"
#include "fixed_sums.h"
#include "ops/grid_sampler/kernel.h"
#include "ops/nsa_compress/kernel.h"
#include "settings.h"
#include "support/kernel_memory.h"
#include "support/operator.h"

namespace aclgrad::test {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
std::vector<T> random_values(int64_t count, double low, double high, uint32_t seed) {
  std::vector<T> values;
  for (double value : uniform(count, low, high, seed)) values.push_back(static_cast<T>(value));
  return values;
}

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto* first = reinterpret_cast<const std::byte*>(values.data());
  return {first, first + values.size() * sizeof(T)};
}

// Small cases: the machine is slow.
constexpr int64_t kMaxElements = 6'000;

bool is_small(const Case& one) {
  return std::all_of(one.arguments.begin(), one.arguments.end(), [](const Value& value) {
    const auto* tensor = std::get_if<TensorValue>(&value);
    return tensor == nullptr || element_count(tensor->shape) <= kMaxElements;
  });
}

// The bits of a case's results, with threads in order or in the opposite order.
Bytes results_of(const Operator& of, const Case& one, bool reversed) {
  const Arguments arguments(one.arguments);
  ptx::settings().reversed = reversed;
  EXPECT_EQ(of.run(arguments), OK) << one.title;
  ptx::settings().reversed = false;
  return arguments.bytes(of.outputs());
}

// How many small cases of an operator have other bits where threads run in another order.
int cases_that_depend_on_order(const Operator& of, DataType type, bool deterministic) {
  EXPECT_EQ(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, deterministic), ACL_SUCCESS);
  int count = 0;
  for (const Case& one : of.cases(type)) {
    if (is_small(one)) count += results_of(of, one, false) != results_of(of, one, true);
  }
  EXPECT_EQ(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0), ACL_SUCCESS);
  return count;
}

// While it lives, kernels may use the vectors.
class InUse {
 public:
  template <class... T>
  explicit InUse(std::vector<T>&... vectors) : memory_{vectors.data()...} {
    (let_kernels_use(vectors.data(), vectors.size() * sizeof(T)), ...);
  }
  ~InUse() {
    for (void* memory : memory_) let_kernels_use_no_longer(memory);
  }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  std::vector<void*> memory_;
};

template <class Problem>
void run_on_gpu(const Problem& problem, const CudaLaunch& on) {
  KernelBytes workspace(kernel_workspace_size(problem, on));
  run_kernel(problem, workspace.data(), on);
}

// [outer, a, b] as [outer, b, a].
template <class T>
std::vector<T> swapped(const std::vector<T>& values, int64_t outer, int64_t a, int64_t b) {
  std::vector<T> result(values.size());
  for (int64_t i = 0; i < outer * a * b; ++i) {
    const int64_t n = i / (a * b), row = i / b % a, column = i % b;
    result[static_cast<size_t>((n * b + column) * a + row)] = values[static_cast<size_t>(i)];
  }
  return result;
}

// The gradients as planes, also where the images are given with their channels last.
template <class T>
Bytes grid_gradients(const CudaLaunch& on, int64_t channels, bool channels_last = false) {
  constexpr int64_t kBatches = 2, kHeight = 13, kWidth = 11, kOutputHeight = 24, kOutputWidth = 30;
  constexpr int64_t pixels = kHeight * kWidth, points = kOutputHeight * kOutputWidth;
  const auto images = [&](T* values, int64_t height, int64_t width) {
    Tensor tensor(values, data_type_of<T>, {kBatches, channels, height, width});
    if (channels_last) tensor.strides = {channels * height * width, 1, channels * width, channels};
    return tensor;
  };
  auto input = random_values<T>(2 * channels * pixels, -5, 5, 1);
  auto grad_output = random_values<T>(2 * channels * points, -5, 5, 2);
  if (channels_last) {
    input = swapped(input, 2, channels, pixels);
    grad_output = swapped(grad_output, 2, channels, points);
  }
  auto grid = random_values<T>(4 * points, -1.2, 1.2, 3);
  std::vector<T> input_grad(input.size()), grid_grad(grid.size());
  const InUse in_use(input, grad_output, grid, input_grad, grid_grad);
  GridSampler2DBackward problem;
  problem.input = images(input.data(), kHeight, kWidth);
  problem.grid = {grid.data(), data_type_of<T>, {kBatches, kOutputHeight, kOutputWidth, 2}};
  problem.grad_output = images(grad_output.data(), kOutputHeight, kOutputWidth);
  problem.grad_input = images(input_grad.data(), kHeight, kWidth);
  problem.grad_grid = {grid_grad.data(), data_type_of<T>, problem.grid.shape};
  run_on_gpu(problem, on);
  if (channels_last) input_grad = swapped(input_grad, 2, pixels, channels);
  Bytes all = bytes_of(input_grad);
  const Bytes more = bytes_of(grid_grad);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// The gradients of an image of one row of pixels, of which each point reads the first one.
struct SmallGrid {
  GridSampler2DBackward problem;
  std::vector<float> input, grad_output, grid, input_grad, grid_grad;
  InUse in_use;

  SmallGrid(int64_t channels, int64_t height, int64_t width, int64_t points, float gradient)
      : input(static_cast<size_t>(channels * height * width), 1.0f),
        grad_output(static_cast<size_t>(channels * points), gradient),
        grid(static_cast<size_t>(2 * points), -1.0f),
        input_grad(input.size(), 7.0f),
        grid_grad(grid.size(), 7.0f),
        in_use(input, grad_output, grid, input_grad, grid_grad) {
    problem.input = {input.data(), {1, channels, height, width}};
    problem.grid = {grid.data(), {1, 1, points, 2}};
    problem.align_corners = true;
    problem.grad_output = {grad_output.data(), {1, channels, 1, points}};
    problem.grad_input = {input_grad.data(), problem.input.shape};
    problem.grad_grid = {grid_grad.data(), problem.grid.shape};
  }
};

TEST(CudaKernels, DeterministicSumsDoNotDependOnTheOrderOfThreads) {
  for (const Operator& of : operators()) {
    for (DataType type : of.types) EXPECT_EQ(cases_that_depend_on_order(of, type, true), 0) << of.name;
  }
}

// Others do, or the test above could not fail.
TEST(CudaKernels, FastSumsDependOnTheOrderOfThreads) {
  for (const Operator& of : operators()) {
    for (DataType type : of.types) {
      const int cases = cases_that_depend_on_order(of, type, false);
      const bool is_rounded = type == DataType::float16 || type == DataType::bfloat16;  // which may hide it
      EXPECT_TRUE(cases == 0 || of.adds_in_any_order) << of.name;
      EXPECT_TRUE(cases > 0 || is_rounded || !of.adds_in_any_order) << of.name;
    }
  }
}

// Copied into that order or not, deterministic sums are the same.
TEST(CudaKernels, GridSamplerTakesImagesWithTheirChannelsLast) {
  const CudaLaunch on{.deterministic = true};
  for (int64_t channels : {3, 16, 18, 20, 132})
    EXPECT_EQ(grid_gradients<float>(on, channels, true), grid_gradients<float>(on, channels, false));
}

TEST(CudaKernels, OnlyDeterministicSumsKeepSubnormalNumbers) {
  constexpr float kSubnormal = 0x1p-130f;
  for (int64_t channels : {1, 16}) {
    for (bool deterministic : {false, true}) {
      SmallGrid small(channels, 1, 2, 3, kSubnormal);
      run_on_gpu(small.problem, CudaLaunch{.deterministic = deterministic});
      EXPECT_EQ(small.input_grad[0], deterministic ? 3 * kSubnormal : 0);
    }
  }
}

TEST(CudaKernels, GridSamplerGradTakesImagesWithoutPixels) {
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{0, 0}, {0, 3}, {3, 0}}) {
    for (int variant = 0; variant < 36; ++variant) {
      SmallGrid small(variant % 2 == 0 ? 1 : 16, height, width, 5, 1.0f);
      small.problem.align_corners = variant / 2 % 2 == 0;
      small.problem.padding = static_cast<Padding>(variant / 4 % 3);
      small.problem.interpolation = static_cast<Interpolation>(variant / 12);
      run_on_gpu(small.problem, CudaLaunch{.deterministic = variant % 5 == 0});
      EXPECT_EQ(small.grid_grad, std::vector<float>(10)) << variant;
    }
  }
}

TEST(CudaKernels, NsaGradReservesNoSumsThatNobodyWants) {
  NsaCompressBackward problem;
  problem.input = {nullptr, DataType::float32, {1 << 16, 4, 128}};
  problem.weight = {nullptr, DataType::float32, {32, 4}};
  problem.stride = 16;
  problem.grad_weight = {nullptr, DataType::float32, problem.weight.shape};
  const size_t with_sums = kernel_workspace_size(problem, CudaLaunch{});
  problem.grad_weight = {};
  EXPECT_LE(kernel_workspace_size(problem, CudaLaunch{}), 1024u);
  EXPECT_GT(with_sums, 100'000u);
}

template <class Real>
class FixedSum : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(FixedSum, Reals);

TYPED_TEST(FixedSum, IsExactWithinItsRange) {
  using Real = TypeParam;
  constexpr Real kMax = std::numeric_limits<Real>::max(), kMin = std::numeric_limits<Real>::min();
  EXPECT_EQ(fixed_sum<Real>({}, 1), 0);
  EXPECT_EQ(fixed_sum<Real>({1, 0.5, -3}, 1 << 20), -1.5);
  EXPECT_EQ(fixed_sum<Real>({kMax, -kMax, kMax}, 3), kMax);
  EXPECT_EQ(fixed_sum<Real>({kMin, kMin}, 2), 2 * kMin);
  EXPECT_NEAR(fixed_sum<Real>(std::vector<Real>(1000, kMax / 1000), 1000) / kMax, 1, 1e-6);
}

// With 1 as the largest term and up to two of them, a sum in float counts multiples of 2^-59.
TEST(FixedSumOfFloats, RoundsTermsToTheNearestEven) {
  const float unit = 0x1p-59f;
  for (const auto& [term, rounded] : {std::pair{0.5f, 0.0f},
                                      {0.5000001f, 1.0f},
                                      {1.5f, 2.0f},
                                      {2.5f, 2.0f},
                                      {0.25f, 0.0f},
                                      {0x1p-60f, 0.0f},
                                      {12345677.5f, 12345678.0f},
                                      {16777215.0f, 16777215.0f},
                                      {33554434.0f, 33554434.0f}}) {
    for (float sign : {1.0f, -1.0f}) {
      EXPECT_EQ(fixed_sum<float>({sign * term * unit}, 2, 1.0), sign * rounded * unit) << term;
    }
  }
  EXPECT_EQ(fixed_sum<float>({0x1p-140f, 0x1p-149f}, 2), 0x1p-140f + 0x1p-149f);
}

TYPED_TEST(FixedSum, CarriesInfinityAndNan) {
  using Real = TypeParam;
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  EXPECT_EQ(fixed_sum<Real>({1, kInfinity, 2}, 3), kInfinity);
  EXPECT_EQ(fixed_sum<Real>({1, -kInfinity, -kInfinity}, 3), -kInfinity);
  EXPECT_TRUE(std::isnan(fixed_sum<Real>({kInfinity, -kInfinity}, 2)));
  EXPECT_TRUE(std::isnan(fixed_sum<Real>({1, std::numeric_limits<Real>::quiet_NaN()}, 2)));
}

}  // namespace
}  // namespace aclgrad::test
