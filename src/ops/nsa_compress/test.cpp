// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What is true of NSA compress and its gradient alone; what holds for every operator is tested in tests/operators/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "aclgrad/nsa_compress.h"
#include "aclnnop/aclnn_nsa_compress.h"
#include "aclnnop/aclnn_nsa_compress_grad.h"
#include "base/data_type.h"
#include "ops/nsa_compress/cases.h"
#include "ops/nsa_compress/reference.h"
#include "support/kernel_memory.h"
#include "support/strict.h"
#include "support/test_tensor.h"

namespace aclgrad::test {
namespace {

using namespace nsa_compress_cases;

char kTnd[] = "TND";

using IntArray = std::unique_ptr<const aclIntArray, decltype(&aclDestroyIntArray)>;

// The tensors of both operators at one size, and calls with them.
struct Tensors {
  Tensors(const NsaSizes& sizes, DataType type, Layout layout, const Values& values)
      : output_grad({windows_of(sizes), sizes.heads, sizes.channels}, type, layout, values.output_grad),
        input({tokens_of(sizes), sizes.heads, sizes.channels}, type, layout, values.input),
        weight({sizes.block, sizes.heads}, type, layout, values.weight),
        input_grad(input.shape(), type, layout),
        weight_grad(weight.shape(), type, layout),
        output(output_grad.shape(), type, layout),
        ends(aclCreateIntArray(sizes.sequence_ends.data(), sizes.sequence_ends.size()), &aclDestroyIntArray),
        block(sizes.block),
        stride(sizes.stride) {}
  Tensors(const NsaSizes& sizes, DataType type, Layout layout = Layout::contiguous)
      : Tensors(sizes, type, layout, Values(sizes, type)) {}

  aclnnStatus forward() const {
    return run(
        [&](auto* size, auto* executor) {
          return aclnnNsaCompressGetWorkspaceSize(input, weight, ends.get(), kTnd, block, stride, 0, output,
                                                  size, executor);
        },
        aclnnNsaCompress);
  }
  aclnnStatus grad() const {
    return run(
        [&](auto* size, auto* executor) {
          return aclnnNsaCompressGradGetWorkspaceSize(output_grad, input, weight, ends.get(), block, stride,
                                                      0, kTnd, input_grad, weight_grad, size, executor);
        },
        aclnnNsaCompressGrad);
  }

  // With the ends on the device.
  aclnnStatus grad_phase1(const aclTensor* of_sequences, uint64_t* size, aclOpExecutor** executor) const {
    return aclnnNsaCompressGradTensorGetWorkspaceSize(output_grad, input, weight, of_sequences, block, stride,
                                                      0, kTnd, input_grad, weight_grad, size, executor);
  }
  TestTensor output_grad;
  TestTensor input;
  TestTensor weight;
  TestTensor input_grad;
  TestTensor weight_grad;
  TestTensor output;
  IntArray ends;
  int64_t block;
  int64_t stride;
};

template <class Problem>
Problem problem_of(const NsaSizes& sizes, DataType type, const void* weight) {
  Problem problem;
  problem.input = {nullptr, type, {tokens_of(sizes), sizes.heads, sizes.channels}};
  problem.weight = {weight, type, {sizes.block, sizes.heads}};
  problem.stride = sizes.stride;
  problem.sequence_ends = {sizes.sequence_ends.data(), {static_cast<int64_t>(sizes.sequence_ends.size())}};
  EXPECT_EQ(count_windows(problem), windows_of(sizes));
  return problem;
}

// The gradient through the C++ interface.
NsaCompressBackward gradient_of(const NsaSizes& sizes, const Tensors& tensors) {
  auto problem = problem_of<NsaCompressBackward>(sizes, tensors.input.type(), tensors.weight.data());
  problem.input = tensors.input.tensor();
  problem.grad_output = tensors.output_grad.tensor();
  problem.grad_input = tensors.input_grad.tensor();
  problem.grad_weight = tensors.weight_grad.tensor();
  return problem;
}

// A large gradient is written past the caches: in whole vectors, or from a boundary of 16 bytes in halves of two.
TEST(NsaCompressGrad, GivesTheSameBitsPastTheCaches) {
  const NsaSizes sizes{2, 64, 32, 16, {65536 + 40}};
  for (DataType type : kFloatTypes) {
    const Tensors tensors(sizes, type);
    auto problem = gradient_of(sizes, tensors);
    const auto gradient_at = [&](int64_t elements_after) {
      const TestTensor gradient(tensors.input.shape(), type, problem.input.strides, elements_after);
      problem.grad_input = gradient.tensor();
      nsa_compress_backward(problem, Workspace(workspace_size(problem)));
      EXPECT_TRUE(gradient.holes_untouched());
      return gradient.bytes();
    };
    const auto through_caches = gradient_at(1);
    ASSERT_GE(through_caches.size(), size_t{16} << 20);
    for (size_t offset : {0, 16, 32, 48}) {
      EXPECT_TRUE(gradient_at(static_cast<int64_t>(offset / size_of(type))) == through_caches)
          << name_of(type) << ", " << offset;
    }
  }
}

TEST(NsaCompressGrad, ErrorGrowsSlowlyWithLength) {
  const NsaSizes sizes{1, 16, 32, 16, {100000}};
  Values values(sizes, DataType::float32);
  for (double& value : values.output_grad) value = rounded(std::fabs(value), DataType::float32);
  for (double& value : values.input) value = rounded(std::fabs(value), DataType::float32);
  const auto expected = reference::nsa_compress_grad(sizes, values.output_grad, values.input, values.weight);
  const Tensors tensors(sizes, DataType::float32, Layout::contiguous, values);
  const auto problem = gradient_of(sizes, tensors);
  nsa_compress_backward(problem, Workspace(workspace_size(problem)));
  EXPECT_LE(relative_error(tensors.weight_grad.values(), expected.weight), 2e-7);
}

TEST(NsaCompressGrad, TokensOutsideOfWindowsHavePositiveZeros) {
  const Tensors tensors({1, 16, 16, 16, {40, 50}}, DataType::float16);  // windows [0, 16) and [16, 32)
  ASSERT_EQ(tensors.grad(), OK);
  const std::vector<double> input_grad = tensors.input_grad.values();
  for (size_t i = 32 * 16; i < input_grad.size(); ++i) {
    EXPECT_EQ(input_grad[i], 0);
    EXPECT_FALSE(std::signbit(input_grad[i]));
  }
}

TEST(NsaCompressGrad, RoundsToNearestEvenBFloat16) {
  // One window of one token: input_grad is the product of a head's weight and any bfloat16, NaNs among them.
  std::vector<BFloat16> weight;
  for (float value : {1.0f, -1.0f, 1.0078125f, 0.3359375f, 0.125f, -1.9921875f})
    weight.push_back(from_float<BFloat16>(value));
  const auto heads = static_cast<int64_t>(weight.size());
  constexpr int64_t kChannels = 1 << 16;
  std::vector<BFloat16> output_grad(kChannels);
  for (size_t c = 0; c < output_grad.size(); ++c) output_grad[c].bits = static_cast<uint16_t>(c);
  std::vector<BFloat16> input_grad(weight.size() * output_grad.size());

  const NsaSizes sizes{heads, kChannels, 1, 1, {1}};
  auto problem = problem_of<NsaCompressBackward>(sizes, DataType::bfloat16, weight.data());
  problem.grad_output = {output_grad.data(), DataType::bfloat16, {1, heads, kChannels}, {0, 0, 1}};
  problem.grad_input = {input_grad.data(), DataType::bfloat16, {1, heads, kChannels}};
  nsa_compress_backward(problem, Workspace(workspace_size(problem)));

  for (size_t i = 0; i < input_grad.size(); ++i) {
    const float product = to_float(weight[i / kChannels]) * to_float(output_grad[i % kChannels]);
    ASSERT_EQ(input_grad[i].bits, from_float<BFloat16>(product).bits)
        << "weight " << to_float(weight[i / kChannels]) << ", element " << i % kChannels;
  }
}

TEST(NsaCompressGradTensor, ReadsTheEndsWhenItRuns) {
  const NsaSizes sizes{2, 16, 32, 16, {40, 140}};
  const Values values(sizes, DataType::float16);
  const auto expected = reference::nsa_compress_grad(sizes, values.output_grad, values.input, values.weight);
  for (Layout layout : kLayouts) {
    const Tensors tensors(sizes, DataType::float16, layout, values);
    TestTensor ends({2}, DataType::int64, layout, {-1, -1});
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(tensors.grad_phase1(ends, &size, &executor), OK);
    ends.set({40, 140});
    KernelBytes workspace(size);
    ASSERT_EQ(aclnnNsaCompressGrad(workspace.data(), size, executor, nullptr), OK);
    ASSERT_EQ(aclrtSynchronizeStream(nullptr), OK);
    EXPECT_LE(relative_error(tensors.input_grad.values(), expected.input),
              tolerance(DataType::float16, false));
    EXPECT_LE(relative_error(tensors.weight_grad.values(), expected.weight),
              tolerance(DataType::float16, false));
  }
}

TEST(NsaCompressGradTensor, WrongContentsFailTheTask) {
  const NsaSizes sizes{2, 16, 32, 16, {40, 140}};
  struct Case {
    std::vector<double> ends;
    const char* parameter;
  };
  const Case cases[] = {
      {{-1, 140}, "actSeqLenOptional"},    {{-9e18, 140}, "actSeqLenOptional"},
      {{40, 39}, "actSeqLenOptional"},     {{141, 140}, "actSeqLenOptional"},
      {{40, 141}, "actSeqLenOptional"},    {{40, 139}, "actSeqLenOptional"},
      {{40, 9.2e18}, "actSeqLenOptional"}, {{9.2e18, 9.2e18}, "actSeqLenOptional"},
      {{30, 140}, "outputGrad"},  // 5 windows, not 6
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::PrintToString(c.ends));
    const Tensors tensors(sizes, DataType::float16, Layout::gapped);
    TestTensor ends({2}, DataType::int64, Layout::contiguous, c.ends);
    // A stream keeps its failure, so each case has its own.
    aclrtStream stream = nullptr;
    ASSERT_EQ(aclrtCreateStream(&stream), OK);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(tensors.grad_phase1(ends, &size, &executor), OK);
    KernelBytes workspace(size);
    EXPECT_EQ(aclnnNsaCompressGrad(workspace.data(), size, executor, stream), OK);
    aclrtEvent behind = nullptr;
    ASSERT_EQ(aclrtCreateEvent(&behind), OK);
    ASSERT_EQ(aclrtRecordEvent(behind, stream), OK);
    for (auto* synchronize : {aclrtSynchronizeEvent, aclrtSynchronizeStream}) {
      aclGetRecentErrMsg();
      EXPECT_EQ(synchronize(synchronize == aclrtSynchronizeEvent ? behind : stream), 507015);
      const char* message = aclGetRecentErrMsg();
      ASSERT_NE(message, nullptr);
      EXPECT_THAT(message, testing::HasSubstr(std::string("aclnnNsaCompressGrad.") + c.parameter));
    }
    EXPECT_EQ(aclrtDestroyEvent(behind), OK);
    EXPECT_TRUE(tensors.input_grad.holes_untouched());
    EXPECT_TRUE(tensors.weight_grad.holes_untouched());
    EXPECT_EQ(aclrtDestroyStream(stream), OK);
  }
}

TEST(NsaCompressStrictDeathTest, RefusesAStrideOfABlockForTheGradientAlone) {
  expect_in_strict_mode([] {
    const Tensors equal({2, 16, 32, 32, {100}}, DataType::float16);
    const Tensors less({2, 16, 32, 16, {100}}, DataType::float16);
    return equal.grad() == 161002 && equal.forward() == OK && less.grad() == OK && less.forward() == OK;
  });
}

TEST(NsaCompressGrad, CppInterfaceReadsTheInputForTheWeightsAlone) {
  const NsaSizes sizes{1, 16, 4, 2, {5, 9}};
  const std::vector<float> weight(4), grad_output(static_cast<size_t>(windows_of(sizes) * 16));
  std::vector<float> grad_input(9 * 16);
  auto problem = problem_of<NsaCompressBackward>(sizes, DataType::float32, weight.data());
  problem.grad_output = {grad_output.data(), {windows_of(sizes), 1, 16}};
  problem.grad_input = {grad_input.data(), {9, 1, 16}};
  EXPECT_NO_THROW(nsa_compress_backward(problem, Workspace(workspace_size(problem))));
}

TEST(NsaCompress, CppInterfaceChecksWhereItCountsWindows) {
  static constexpr int64_t falling_ends[] = {21, 20};
  const NsaSizes sizes{3, 16, 4, 2, {9, 20}};
  const auto right = problem_of<NsaCompression>(sizes, DataType::float32, nullptr);
  const auto refused = [&](const std::string& field, void (*make)(NsaCompression&)) {
    auto wrong = right;
    make(wrong);
    try {
      count_windows(wrong);
      ADD_FAILURE() << field << " is taken";
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("count_windows." + field + ": expected "));
    }
  };
  using P = NsaCompression;
  refused("input", [](P& p) { p.input = {}; });
  refused("input", [](P& p) { p.input.shape[0] = -1; });
  refused("weight.shape[0]", [](P& p) { p.weight.shape[0] = 0; });
  refused("stride", [](P& p) { p.stride = 0; });
  refused("sequence_ends", [](P& p) { p.sequence_ends.shape[0] = -1; });
  refused("sequence_ends.data", [](P& p) { p.sequence_ends.data = nullptr; });
  refused("sequence_ends", [](P& p) { p.sequence_ends.data = falling_ends; });
  auto every_token = right;
  every_token.weight.shape[0] = every_token.stride = 1;
  EXPECT_EQ(count_windows(every_token), 20);
}

}  // namespace
}  // namespace aclgrad::test
