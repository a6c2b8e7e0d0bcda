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
#include "cuda/ptx_machine/machine.h"
#include "cuda/ptx_machine/settings.h"
#include "cuda/sums.h"
#include "ops/grid_sampler/cases.h"
#include "ops/nsa_compress/kernel.h"
#include "support/function.h"

namespace aclgrad::test {
namespace {

using namespace grid_sampler_cases;
using Bytes = std::vector<std::byte>;

// Small cases: the machine is slow.
constexpr int64_t kMaxElements = 6'000;

bool is_small(const Case& one) {
  const std::vector<int64_t> counts = element_counts_in(one.arguments);
  return std::all_of(counts.begin(), counts.end(), [](int64_t count) { return count <= kMaxElements; });
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

// The gradient of images in this layout, through the C++ interface: of the input, then of the grid.
std::vector<std::vector<double>> grid_gradients(const Sampling& s, const Inputs& inputs, bool deterministic,
                                                Layout layout = Layout::contiguous) {
  constexpr DataType kType = DataType::float32;
  const auto is_gradient = [](const Function& of) { return of.name == "grid_sampler_2d_backward"; };
  const Function& function = *std::find_if(functions().begin(), functions().end(), is_gradient);
  const TensorValue input{input_shape(s), kType, inputs.input}, grid{grid_shape(s), kType, inputs.grid};
  const std::vector<Value> arguments = {TensorValue{output_shape(s), kType, inputs.grad_output},
                                        input,
                                        grid,
                                        TensorValue{input.shape, kType},
                                        TensorValue{grid.shape, kType},
                                        int64_t{s.mode},
                                        int64_t{s.padding},
                                        int64_t{s.align_corners}};
  const FunctionCall grids(function, arguments), images(function, arguments, layout);
  AnyProblem& problem = images.problem();
  for (size_t field : {2, 4}) problem.set_tensor(field, grids.problem().tensor(field));
  const CudaLaunch on{.deterministic = deterministic};
  const size_t size = problem.workspace_size(on);
  const std::shared_ptr<std::byte> workspace = map_zeros(size);
  problem.run({workspace.get(), size}, on);
  return {images.tensor(3)->values(), grids.tensor(4)->values()};
}

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
  for (int64_t channels : {3, 16, 18, 20, 132}) {
    const Sampling s = sizes(2, channels, 13, 11, 24, 30);
    const Inputs inputs(s, DataType::float32, 1.2);
    EXPECT_EQ(grid_gradients(s, inputs, true, Layout::channels_last), grid_gradients(s, inputs, true));
  }
}

// All samples read one pixel.
TEST(CudaKernels, OnlyDeterministicSumsKeepSubnormalNumbers) {
  constexpr double kSubnormal = 0x1p-130;
  for (int64_t channels : {1, 16}) {
    Sampling s = sizes(1, channels, 1, 2, 1, 3);
    s.align_corners = true;
    Inputs inputs(s, DataType::float32, 1);
    std::fill(inputs.grad_output.begin(), inputs.grad_output.end(), kSubnormal);
    std::fill(inputs.grid.begin(), inputs.grid.end(), -1);
    for (bool deterministic : {false, true})
      EXPECT_EQ(grid_gradients(s, inputs, deterministic)[0][0], deterministic ? 3 * kSubnormal : 0);
  }
}

TEST(CudaKernels, GridSamplerGradTakesImagesWithoutPixels) {
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{0, 0}, {0, 3}, {3, 0}}) {
    for (int64_t channels : {1, 16}) {
      const Sampling size = sizes(1, channels, height, width, 1, 5);
      const Inputs inputs(size, DataType::float32, 1);
      for_each_mode_to(2, size, DataType::float32, [&](const Sampling& s) {
        for (bool deterministic : {false, true})
          EXPECT_EQ(grid_gradients(s, inputs, deterministic)[1], std::vector<double>(10));
      });
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
__global__ void add_all(cuda::FixedSums<Real> sums, const Real* terms, int64_t count, Real* sum) {
  sums.begin();
  for (int64_t i = 0; i < count; ++i) sums.add_to(sums.cells, terms[i]);
  *sum = sums.value(0, 0);
}

// Memory that host and device share.
template <class T>
T* allocate(size_t count) {
  void* memory = nullptr;
  cuda::check(cudaHostAlloc(&memory, (count + 1) * sizeof(T), cudaHostAllocMapped), "cudaHostAlloc");
  return static_cast<T*>(memory);
}

// The value that fixed-point sums on a GPU give for some terms, of which `max_terms` may meet, and none is larger than the
// largest finite one, or `largest`.
template <class Real>
Real fixed_sum(const std::vector<Real>& terms, int64_t max_terms, double largest = 0) {
  WorkspaceAllocator sizes;
  cuda::FixedSums<Real>(1, max_terms, 0, sizes);
  auto* workspace = allocate<std::byte>(sizes.size());
  WorkspaceAllocator allocator(workspace);
  const cuda::FixedSums<Real> sums(1, max_terms, 0, allocator);
  sums.clear({});
  Real *values = allocate<Real>(terms.size()), *sum = allocate<Real>(1);
  std::copy(terms.begin(), terms.end(), values);
  for (Real term : terms) {
    if (std::isfinite(term)) largest = std::max(largest, std::fabs(static_cast<double>(term)));
  }
  *sums.largest() = {{std::bit_cast<unsigned long long>(largest), std::bit_cast<unsigned long long>(1.0)}};
  cuda::launch({}, 1, 1, add_all<Real>, sums, values, static_cast<int64_t>(terms.size()), sum);
  cuda::check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  const Real result = *sum;
  for (void* memory : {static_cast<void*>(workspace), static_cast<void*>(values), static_cast<void*>(sum)})
    cudaFreeHost(memory);
  return result;
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

TEST(GridSampler2D, TheStrideOfASingleRowDoesNotMatter) {
  const float values[] = {1, 2, 3, 4, 0, -0.9f};
  float* memory = nullptr;
  float result = 0;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory), 8 * sizeof(float)), cudaSuccess);
  cudaMemcpyAsync(memory, values, sizeof(values), cudaMemcpyDefault, nullptr);
  GridSampler2D problem;
  problem.input = {memory, {1, 1, 1, 4}, {4, 4, (int64_t{1} << 62) + (int64_t{1} << 40), 1}};
  problem.grid = {memory + 4, {1, 1, 1, 2}};
  problem.output = {memory + 6, {1, 1, 1, 1}};
  cuda::grid_sampler_2d(problem, {}, {});
  cudaMemcpyAsync(&result, memory + 6, sizeof(result), cudaMemcpyDefault, nullptr);
  cudaStreamSynchronize(nullptr);
  EXPECT_FLOAT_EQ(result, 1.375f);
  cudaFree(memory);
}

TEST(Launches, LeaveNoErrorForTheProgram) {
  ptx::fail_next("cudaMemsetAsync", cudaErrorMemoryAllocation);
  char memory[4];
  EXPECT_THROW(cuda::zero({}, memory, sizeof(memory)), std::runtime_error);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace aclgrad::test
