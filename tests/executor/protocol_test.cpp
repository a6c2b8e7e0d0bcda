// The two-phase protocol, through an operator that has all its parts: inputs, an optional input, an output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "runtime/fixture.h"
#include "support/test_tensor.h"

namespace aclgrad::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kGroups = 2;
constexpr int64_t kRows = 3;
constexpr int64_t kColumns = 4;

std::string recent_message() {
  const char* message = aclGetRecentErrMsg();
  return message != nullptr ? message : "";
}

std::vector<double> grad_y_values(double first) {
  std::vector<double> values(kGroups * kRows * kColumns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<double>(i);
  return values;
}

std::vector<double> expected_out(const std::vector<double>& grad_y) {
  std::vector<double> out(kGroups * kColumns);
  for (size_t i = 0; i < grad_y.size(); ++i)
    out[i / (kRows * kColumns) * kColumns + i % kColumns] += grad_y[i];
  return out;
}

// Phase 1 of one call, and what it answered.
struct Planned {
  uint64_t workspace_size = 12345;
  aclOpExecutor* executor = reinterpret_cast<aclOpExecutor*>(8);
  aclnnStatus status;

  Planned(const aclTensor* grad_y, aclTensor* out, const aclTensor* group_idx = nullptr)
      : status(aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, group_idx, out, &workspace_size, &executor)) {}

  std::vector<std::byte> make_workspace() const { return std::vector<std::byte>(workspace_size); }
};

aclnnStatus run_phase2(const Planned& planned, std::vector<std::byte>& workspace,
                       aclrtStream stream = nullptr) {
  return aclnnGroupedBiasAddGrad(workspace.empty() ? nullptr : workspace.data(), workspace.size(),
                                 planned.executor, stream);
}

aclnnStatus run_phase2_and_wait(const Planned& planned, std::vector<std::byte>& workspace) {
  const aclnnStatus status = run_phase2(planned, workspace);
  return status != OK ? status : aclrtSynchronizeStream(nullptr);
}

class Protocol : public testing::Test {
 protected:
  void SetUp() override {
    grad_y.set(grad_y_values(0));
    recent_message();  // those of other tests
  }

  TestTensor grad_y{{kGroups, kRows, kColumns}, DataType::float32, Layout::transposed};
  TestTensor out{{kGroups, kColumns}, DataType::float32, Layout::gapped};
};

TEST_F(Protocol, RunsOnce) {
  const Planned planned(grad_y, out);
  ASSERT_EQ(planned.status, OK);
  ASSERT_GT(planned.workspace_size, 0u);
  auto workspace = planned.make_workspace();
  ASSERT_EQ(run_phase2_and_wait(planned, workspace), OK);
  EXPECT_EQ(out.values(), expected_out(grad_y_values(0)));
  EXPECT_TRUE(out.holes_untouched());
  EXPECT_EQ(run_phase2(planned, workspace), ACLNN_ERR_INNER);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad: expected a live executor"));
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(planned.executor), ACLNN_ERR_INNER);
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), ACLNN_ERR_INNER);
}

TEST_F(Protocol, RepeatableRunsUntilDestroyed) {
  const Planned planned(grad_y, out);
  ASSERT_EQ(aclSetAclOpExecutorRepeatable(planned.executor), OK);
  auto workspace = planned.make_workspace();
  for (double first : {0.0, 5.0, -7.0}) {
    grad_y.set(grad_y_values(first));
    ASSERT_EQ(run_phase2_and_wait(planned, workspace), OK);
    EXPECT_EQ(out.values(), expected_out(grad_y_values(first)));
  }
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), OK);
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), ACLNN_ERR_INNER);
  EXPECT_EQ(run_phase2(planned, workspace), ACLNN_ERR_INNER);
}

TEST_F(Protocol, RepeatableMayBeDestroyedWhileItsRunIsQueued) {
  TestTensor large({1, 2000, 1000}, DataType::float32, Layout::transposed, std::vector<double>(2'000'000, 1));
  TestTensor sum({1, 1000}, DataType::float32);
  const Planned planned(large, sum);
  aclSetAclOpExecutorRepeatable(planned.executor);
  auto workspace = planned.make_workspace();
  ASSERT_EQ(run_phase2(planned, workspace), OK);
  ASSERT_EQ(aclDestroyAclOpExecutor(planned.executor), OK);
  ASSERT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
  EXPECT_EQ(sum.values(), std::vector<double>(1000, 2000));
}

TEST_F(Protocol, AFailedPhase2KeepsARepeatableExecutor) {
  const Planned planned(grad_y, out);
  aclSetAclOpExecutorRepeatable(planned.executor);
  EXPECT_EQ(aclnnGroupedBiasAddGrad(nullptr, 0, planned.executor, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  auto workspace = planned.make_workspace();
  EXPECT_EQ(run_phase2_and_wait(planned, workspace), OK);
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), OK);
}

TEST_F(Protocol, AnExecutorThatNeverRanMayBeDestroyed) {
  const Planned planned(grad_y, out);
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), OK);
}

TEST_F(Protocol, NullAndForeignExecutors) {
  EXPECT_EQ(aclDestroyAclOpExecutor(nullptr), ACLNN_ERR_INNER_NULLPTR);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(nullptr), ACLNN_ERR_INNER_NULLPTR);
  EXPECT_EQ(aclnnGroupedBiasAddGrad(nullptr, 0, nullptr, nullptr), ACLNN_ERR_INNER_NULLPTR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad: expected an executor, got null"));
  auto* foreign = reinterpret_cast<aclOpExecutor*>(grad_y.handle());
  EXPECT_EQ(aclDestroyAclOpExecutor(foreign), ACLNN_ERR_INNER);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(foreign), ACLNN_ERR_INNER);
  EXPECT_EQ(aclnnGroupedBiasAddGrad(nullptr, 0, foreign, nullptr), ACLNN_ERR_INNER);
}

TEST_F(Protocol, AnotherOperatorsExecutorIsRefusedAndNotUsedUp) {
  for (const bool repeatable : {false, true}) {
    const Planned planned(grad_y, out);
    ASSERT_EQ(planned.status, OK);
    if (repeatable) {
      ASSERT_EQ(aclSetAclOpExecutorRepeatable(planned.executor), OK);
    }
    const auto before = out.bytes();
    auto workspace = planned.make_workspace();
    for (const auto phase_2 : {aclnnGroupedBiasAddGradV2, aclnnGridSampler2D}) {
      EXPECT_EQ(phase_2(workspace.data(), workspace.size(), planned.executor, nullptr),
                ACLNN_ERR_PARAM_INVALID);
    }
    EXPECT_THAT(recent_message(), HasSubstr("aclnnGridSampler2D.executor: expected an executor of "
                                            "aclnnGridSampler2DGetWorkspaceSize, got one of "
                                            "aclnnGroupedBiasAddGradGetWorkspaceSize."));
    ASSERT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
    EXPECT_EQ(out.bytes(), before);
    ASSERT_EQ(run_phase2_and_wait(planned, workspace), OK);
    EXPECT_EQ(out.values(), expected_out(grad_y_values(0)));
    if (repeatable) {
      ASSERT_EQ(aclDestroyAclOpExecutor(planned.executor), OK);
    }
  }
}

// In the order of the list in aclnn_base.h: each call mends what the one before was refused for.
TEST_F(Protocol, Phase2AnswersWithTheFirstStatusThatApplies) {
  const aclrtStream no_stream = reinterpret_cast<aclrtStream>(8);
  const Planned used_up(grad_y, out);
  auto workspace = used_up.make_workspace();
  ASSERT_EQ(run_phase2_and_wait(used_up, workspace), OK);
  const Planned planned(grad_y, out);
  ASSERT_GT(planned.workspace_size, 0u);
  ASSERT_EQ(aclSetAclOpExecutorRepeatable(planned.executor), OK);
  ASSERT_EQ(aclSetTensorAddr(planned.executor, 0, grad_y, nullptr), OK);

  EXPECT_EQ(aclnnGridSampler2D(nullptr, 0, nullptr, no_stream), ACLNN_ERR_INNER_NULLPTR);
  EXPECT_EQ(aclnnGridSampler2D(nullptr, 0, used_up.executor, no_stream), ACLNN_ERR_INNER);
  EXPECT_EQ(aclnnGridSampler2D(nullptr, 0, planned.executor, no_stream), ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGridSampler2D.executor"));
  EXPECT_EQ(aclnnGroupedBiasAddGrad(nullptr, 0, planned.executor, no_stream), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.workspace:"));
  EXPECT_EQ(aclnnGroupedBiasAddGrad(workspace.data(), 0, planned.executor, no_stream),
            ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.workspaceSize"));
  EXPECT_EQ(run_phase2(planned, workspace, no_stream), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.gradY: expected a tensor with data"));
  ASSERT_EQ(aclSetTensorAddr(planned.executor, 0, grad_y, grad_y.data()), OK);
  EXPECT_EQ(run_phase2(planned, workspace, no_stream), ACLNN_ERR_RUNTIME_ERROR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.stream"));
  EXPECT_EQ(run_phase2_and_wait(planned, workspace), OK);
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), OK);
}

TEST_F(Protocol, RefreshedAddressesServeTheNextRuns) {
  TestTensor other_grad_y({kGroups, kRows, kColumns}, DataType::float32, Layout::transposed,
                          grad_y_values(100));
  TestTensor other_out({kGroups, kColumns}, DataType::float32, Layout::gapped);
  const auto first = expected_out(grad_y_values(0));
  const auto second = expected_out(grad_y_values(100));
  const Planned planned(grad_y, out);
  aclSetAclOpExecutorRepeatable(planned.executor);
  auto workspace = planned.make_workspace();

  EXPECT_EQ(aclSetTensorAddr(planned.executor, 0, other_grad_y, other_grad_y.data()), OK);
  ASSERT_EQ(run_phase2_and_wait(planned, workspace), OK);
  EXPECT_EQ(out.values(), second);

  // Inputs come first, those that were null in phase 1 included: `out` is number 2.
  EXPECT_EQ(aclSetTensorAddr(planned.executor, 2, other_out, other_out.data()), OK);
  EXPECT_EQ(aclSetInputTensorAddr(planned.executor, 0, grad_y, grad_y.data()), OK);
  ASSERT_EQ(run_phase2_and_wait(planned, workspace), OK);
  EXPECT_EQ(other_out.values(), first);
  EXPECT_EQ(out.values(), second);

  EXPECT_EQ(aclSetOutputTensorAddr(planned.executor, 0, out, out.data()), OK);
  ASSERT_EQ(run_phase2_and_wait(planned, workspace), OK);
  EXPECT_EQ(out.values(), first);

  EXPECT_EQ(AclSetTensorAddr(planned.executor, 0, other_grad_y, other_grad_y.data()), OK);
  EXPECT_EQ(AclSetInputTensorAddr(planned.executor, 0, other_grad_y, other_grad_y.data()), OK);
  EXPECT_EQ(AclSetOutputTensorAddr(planned.executor, 0, other_out, other_out.data()), OK);
  ASSERT_EQ(run_phase2_and_wait(planned, workspace), OK);
  EXPECT_EQ(other_out.values(), second);
  EXPECT_TRUE(out.holes_untouched());
  EXPECT_TRUE(other_out.holes_untouched());
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), OK);
}

TEST_F(Protocol, AQueuedRunKeepsTheAddressesOfItsPhase2) {
  const std::vector<double> ones(2'000'000, 1);
  const std::vector<double> twos(2'000'000, 2);
  TestTensor first({1, 2000, 1000}, DataType::float32, Layout::transposed, ones);
  TestTensor second({1, 2000, 1000}, DataType::float32, Layout::transposed, twos);
  TestTensor first_sum({1, 1000}, DataType::float32);
  TestTensor second_sum({1, 1000}, DataType::float32);
  const Planned planned(first, first_sum);
  aclSetAclOpExecutorRepeatable(planned.executor);
  auto workspace = planned.make_workspace();
  ASSERT_EQ(run_phase2(planned, workspace), OK);
  EXPECT_EQ(aclSetTensorAddr(planned.executor, 0, second, second.data()), OK);
  EXPECT_EQ(aclSetTensorAddr(planned.executor, 2, second_sum, second_sum.data()), OK);
  ASSERT_EQ(run_phase2_and_wait(planned, workspace), OK);
  EXPECT_EQ(first_sum.values(), std::vector<double>(1000, 2000));
  EXPECT_EQ(second_sum.values(), std::vector<double>(1000, 4000));
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), OK);
}

TEST_F(Protocol, AddressesMayComeAfterPhase1) {
  aclSetRawTensorAddr(grad_y, nullptr);
  aclSetRawTensorAddr(out, nullptr);
  const Planned planned(grad_y, out);
  ASSERT_EQ(planned.status, OK);
  EXPECT_EQ(aclSetTensorAddr(planned.executor, 0, grad_y, grad_y.data()), OK);
  EXPECT_EQ(aclSetTensorAddr(planned.executor, 2, out, out.data()), OK);
  auto workspace = planned.make_workspace();
  ASSERT_EQ(run_phase2_and_wait(planned, workspace), OK);
  EXPECT_EQ(out.values(), expected_out(grad_y_values(0)));
}

TEST_F(Protocol, WrongUsesOfAddressRefresh) {
  const Planned planned(grad_y, out);
  aclOpExecutor* executor = planned.executor;
  void* data = grad_y.data();
  EXPECT_EQ(aclSetTensorAddr(executor, 3, grad_y, data), ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(), HasSubstr("aclSetTensorAddr.index: expected less than 3, got 3"));
  EXPECT_EQ(aclSetTensorAddr(executor, SIZE_MAX, grad_y, data), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclSetInputTensorAddr(executor, 2, grad_y, data), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclSetOutputTensorAddr(executor, 1, out, data), ACLNN_ERR_PARAM_INVALID);
  // groupIdxOptional was null in phase 1.
  recent_message();
  EXPECT_EQ(aclSetTensorAddr(executor, 1, grad_y, data), ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(), HasSubstr("aclSetTensorAddr.index"));
  EXPECT_EQ(aclSetTensorAddr(executor, 0, nullptr, data), ACLNN_ERR_INNER_NULLPTR);
  EXPECT_EQ(aclSetTensorAddr(nullptr, 0, grad_y, data), ACLNN_ERR_INNER_NULLPTR);
  EXPECT_EQ(aclSetInputTensorAddr(nullptr, 0, grad_y, data), ACLNN_ERR_INNER_NULLPTR);
  EXPECT_EQ(aclSetOutputTensorAddr(nullptr, 0, grad_y, data), ACLNN_ERR_INNER_NULLPTR);

  const int64_t shape[] = {1};
  aclTensor* gone = aclCreateTensor(shape, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 1, nullptr);
  aclDestroyTensor(gone);
  EXPECT_EQ(aclSetTensorAddr(executor, 0, gone, data), ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(), HasSubstr("aclSetTensorAddr: expected a live aclTensor"));

  aclTensorList* list = aclCreateTensorList(nullptr, 0);
  for (auto* set : {aclSetDynamicTensorAddr, aclSetDynamicInputTensorAddr, aclSetDynamicOutputTensorAddr,
                    AclSetDynamicTensorAddr, AclSetDynamicInputTensorAddr, AclSetDynamicOutputTensorAddr}) {
    EXPECT_EQ(set(executor, 0, 0, list, data), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(set(executor, 0, 0, nullptr, data), ACLNN_ERR_INNER_NULLPTR);
    EXPECT_EQ(set(nullptr, 0, 0, list, data), ACLNN_ERR_INNER_NULLPTR);
  }
  aclDestroyTensorList(list);

  // None of that harmed the executor.
  auto workspace = planned.make_workspace();
  ASSERT_EQ(run_phase2_and_wait(planned, workspace), OK);
  EXPECT_EQ(out.values(), expected_out(grad_y_values(0)));
  EXPECT_EQ(aclSetTensorAddr(executor, 0, grad_y, data), ACLNN_ERR_INNER);
}

TEST_F(Protocol, TensorsMayBeDestroyedWhenPhase2HasReturned) {
  std::vector<float> values(2'000'000, 1);
  std::vector<float> sum(1000);
  const int64_t shape[] = {1, 2000, 1000};
  const int64_t strides[] = {1, 1, 2000};
  const int64_t sum_shape[] = {1, 1000};
  aclTensor* large = aclCreateTensor(shape, 3, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, shape, 3, values.data());
  aclTensor* result =
      aclCreateTensor(sum_shape, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, sum_shape, 2, sum.data());
  const Planned planned(large, result);
  auto workspace = planned.make_workspace();
  ASSERT_EQ(run_phase2(planned, workspace), OK);
  EXPECT_EQ(aclDestroyTensor(large), OK);
  EXPECT_EQ(aclDestroyTensor(result), OK);
  ASSERT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
  EXPECT_EQ(sum, std::vector<float>(1000, 2000));
}

TEST_F(Protocol, AnExecutorKeepsWhatPhase1Saw) {
  const Planned planned(grad_y, out);
  const int64_t shape[] = {1};
  ASSERT_EQ(aclInitTensor(grad_y, shape, 1, ACL_INT64, nullptr, 0, ACL_FORMAT_ND, shape, 1, nullptr), OK);
  auto workspace = planned.make_workspace();
  ASSERT_EQ(run_phase2_and_wait(planned, workspace), OK);
  EXPECT_EQ(out.values(), expected_out(grad_y_values(0)));
}

TEST_F(Protocol, Phase2MayRunOnAnotherThread) {
  const Planned planned(grad_y, out);
  auto workspace = planned.make_workspace();
  std::thread([&] {
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    EXPECT_EQ(run_phase2_and_wait(planned, workspace), OK);
    EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
  }).join();
  EXPECT_EQ(out.values(), expected_out(grad_y_values(0)));
}

TEST_F(Protocol, Phase2NeedsAContext) {
  const Planned planned(grad_y, out);
  auto workspace = planned.make_workspace();
  std::thread([&] {
    EXPECT_EQ(run_phase2(planned, workspace), ACLNN_ERR_RUNTIME_ERROR);
    EXPECT_THAT(
        recent_message(),
        AllOf(HasSubstr("107002"), HasSubstr("aclnnGroupedBiasAddGrad: The calling thread has no context.")));
  }).join();
}

TEST_F(Protocol, StreamsThatCannotTakeTheWork) {
  int not_a_stream = 0;
  aclrtStream destroyed = nullptr;
  ASSERT_EQ(aclrtCreateStream(&destroyed), ACL_SUCCESS);
  ASSERT_EQ(aclrtDestroyStream(destroyed), ACL_SUCCESS);
  aclrtContext own_context = nullptr;
  aclrtContext other_context = nullptr;
  aclrtStream of_other_context = nullptr;
  ASSERT_EQ(aclrtGetCurrentContext(&own_context), ACL_SUCCESS);
  ASSERT_EQ(aclrtCreateContext(&other_context, 0), ACL_SUCCESS);
  ASSERT_EQ(aclrtCreateStream(&of_other_context), ACL_SUCCESS);
  ASSERT_EQ(aclrtSetCurrentContext(own_context), ACL_SUCCESS);

  for (aclrtStream stream : {aclrtStream{&not_a_stream}, destroyed, of_other_context}) {
    const Planned planned(grad_y, out);
    auto workspace = planned.make_workspace();
    EXPECT_EQ(run_phase2(planned, workspace, stream), ACLNN_ERR_RUNTIME_ERROR);
    EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.stream"));
    EXPECT_EQ(run_phase2(planned, workspace), ACLNN_ERR_INNER);  // it is gone, as after a success
  }
  EXPECT_EQ(aclrtDestroyContext(other_context), ACL_SUCCESS);
}

TEST_F(Protocol, AStreamMustLiveEvenWhereThereIsNothingToDo) {
  TestTensor empty({kGroups, kRows, 0}, DataType::float32);
  TestTensor nothing({kGroups, 0}, DataType::float32);
  aclrtStream destroyed = nullptr;
  ASSERT_EQ(aclrtCreateStream(&destroyed), ACL_SUCCESS);
  ASSERT_EQ(aclrtDestroyStream(destroyed), ACL_SUCCESS);
  const Planned planned(empty, nothing);
  ASSERT_EQ(planned.status, OK);
  EXPECT_EQ(aclnnGroupedBiasAddGrad(nullptr, 0, planned.executor, destroyed), ACLNN_ERR_RUNTIME_ERROR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.stream"));
}

TEST_F(Protocol, AStreamOfTheCallersRuns) {
  aclrtStream stream = nullptr;
  ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
  const Planned planned(grad_y, out);
  auto workspace = planned.make_workspace();
  ASSERT_EQ(run_phase2(planned, workspace, stream), OK);
  ASSERT_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  EXPECT_EQ(out.values(), expected_out(grad_y_values(0)));
  EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
}

TEST_F(Protocol, WorkspaceMustBeThereAndLargeEnough) {
  const Planned without(grad_y, out);
  EXPECT_EQ(aclnnGroupedBiasAddGrad(nullptr, without.workspace_size, without.executor, nullptr),
            ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.workspace: expected"));
  EXPECT_EQ(aclDestroyAclOpExecutor(without.executor), ACLNN_ERR_INNER);

  recent_message();
  const Planned small(grad_y, out);
  auto workspace = small.make_workspace();
  EXPECT_EQ(aclnnGroupedBiasAddGrad(workspace.data(), small.workspace_size - 1, small.executor, nullptr),
            ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.workspaceSize: expected at least " +
                                          std::to_string(small.workspace_size) + " bytes, got " +
                                          std::to_string(small.workspace_size - 1)));
}

TEST_F(Protocol, WorkspaceMayLieAnywhereAndNothingBesideItIsWritten) {
  constexpr std::byte kCanary{0x5C};
  constexpr size_t kMargin = 128;
  for (size_t shift : {0, 1, 3, 31, 63, 64}) {
    const Planned planned(grad_y, out);
    std::vector<std::byte> memory(planned.workspace_size + 2 * kMargin + shift, kCanary);
    std::byte* workspace = memory.data() + kMargin + shift;
    ASSERT_EQ(aclnnGroupedBiasAddGrad(workspace, planned.workspace_size, planned.executor, nullptr), OK);
    ASSERT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
    EXPECT_EQ(out.values(), expected_out(grad_y_values(0)));
    const auto is_canary = [&](std::byte byte) { return byte == kCanary; };
    EXPECT_TRUE(std::all_of(memory.data(), workspace, is_canary));
    EXPECT_TRUE(std::all_of(workspace + planned.workspace_size, memory.data() + memory.size(), is_canary));
  }
}

TEST_F(Protocol, DataMustBeThereInPhase2) {
  aclSetRawTensorAddr(grad_y, nullptr);
  const Planned without_input(grad_y, out);
  ASSERT_EQ(without_input.status, OK);
  auto workspace = without_input.make_workspace();
  EXPECT_EQ(run_phase2(without_input, workspace), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.gradY: expected a tensor with data"));

  aclSetRawTensorAddr(grad_y, grad_y.data());
  aclSetRawTensorAddr(out, nullptr);
  const Planned without_output(grad_y, out);
  EXPECT_EQ(run_phase2(without_output, workspace), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.out: expected a tensor with data"));
}

TEST_F(Protocol, ResultsOfPhase1MustHaveAPlace) {
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, nullptr, out, nullptr, &executor),
            ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_THAT(recent_message(),
              HasSubstr("aclnnGroupedBiasAddGrad.workspaceSize: expected a pointer, got null"));
  EXPECT_EQ(aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, nullptr, out, &workspace_size, nullptr),
            ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.executor: expected a pointer, got null"));
  EXPECT_EQ(executor, nullptr);
}

TEST_F(Protocol, AFailedPhase1LeavesNothing) {
  const Planned planned(nullptr, out);
  EXPECT_EQ(planned.status, ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(planned.executor, nullptr);
  EXPECT_EQ(planned.workspace_size, 0u);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.gradY: expected a tensor, got null"));
  EXPECT_EQ(Planned(grad_y, nullptr).status, ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.out: expected a tensor, got null"));
}

TEST_F(Protocol, DeadAndForeignTensorsAreRefused) {
  const int64_t shape[] = {kGroups, kRows, kColumns};
  aclTensor* dead = aclCreateTensor(shape, 3, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 3, nullptr);
  aclDestroyTensor(dead);
  EXPECT_EQ(Planned(dead, out).status, ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.gradY: expected a live aclTensor"));
  EXPECT_EQ(Planned(grad_y, out, dead).status, ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(),
              HasSubstr("aclnnGroupedBiasAddGrad.groupIdxOptional: expected a live aclTensor"));
  int64_t not_a_tensor = 0;
  EXPECT_EQ(Planned(reinterpret_cast<aclTensor*>(&not_a_tensor), out).status, ACLNN_ERR_PARAM_INVALID);
}

// A gradY that phase 1 refuses whatever the operator, and what the message says of it.
struct BadView {
  const char* what;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // empty: null
  int64_t offset;
  std::vector<int64_t> storage_shape;
  const char* message;
};

void PrintTo(const BadView& bad, std::ostream* to) {
  *to << bad.what;
}

const BadView kBadViews[] = {
    {"NegativeStride", {2, 3, 4}, {12, -4, 1}, 8, {24}, "expected strides of at least 0, got -4"},
    {"NegativeOffset", {2, 3, 4}, {}, -1, {24}, "expected an offset of at least 0, got -1"},
    {"NegativeSize", {2, -3, 4}, {}, 0, {24}, "expected a shape without negative sizes, got [2, -3, 4]"},
    {"LeavesItsStorage",
     {2, 3, 4},
     {},
     1,
     {24},
     "expected a view inside its storage of 24 elements, got shape [2, 3, 4], whose last element is number "
     "24"},
    {"StrideLeavesItsStorage",
     {2, 3, 4},
     {13, 4, 1},
     0,
     {2, 3, 4},
     "expected a view inside its storage of 24 elements"},
    {"EmptyStorage", {2, 3, 4}, {}, 0, {0}, "expected a view inside its storage of 0 elements"},
    {"NegativeStorage",
     {2, 3, 4},
     {},
     0,
     {-24},
     "expected a storage shape that the address space can hold, got [-24]"},
    {"StorageOverflows",
     {2, 3, 4},
     {},
     0,
     {INT64_MAX, 3},
     "expected a storage shape that the address space can hold"},
    {"NineAxes", {1, 1, 1, 1, 1, 1, 2, 3, 4}, {}, 0, {24}, "expected at most 8 dimensions, got 9"},
    {"SizeOverflows",
     {INT64_MAX, INT64_MAX, 4},
     {},
     0,
     {24},
     "expected a size that the address space can hold"},
    {"BytesOverflow",
     {int64_t{1} << 61, 1, 4},
     {0, 0, 0},
     0,
     {24},
     "expected a size that the address space can hold"},
    {"ReachOverflows",
     {3, 3, 4},
     {INT64_MAX, INT64_MAX, 1},
     0,
     {24},
     "expected a size that the address space can hold"},
    {"OffsetOverflows", {2, 3, 4}, {}, INT64_MAX, {24}, "expected a size that the address space can hold"},
    {"EmptyOverflows",
     {0, INT64_MAX, INT64_MAX},
     {},
     0,
     {0},
     "expected a size that the address space can hold"},
};

class BadViews : public testing::TestWithParam<BadView> {};

TEST_P(BadViews, AreRefusedByName) {
  const BadView& bad = GetParam();
  recent_message();
  float data = 0;
  aclTensor* grad_y = aclCreateTensor(
      bad.shape.data(), bad.shape.size(), ACL_FLOAT, bad.strides.empty() ? nullptr : bad.strides.data(),
      bad.offset, ACL_FORMAT_ND, bad.storage_shape.data(), bad.storage_shape.size(), &data);
  ASSERT_NE(grad_y, nullptr);
  TestTensor out({kGroups, kColumns}, DataType::float32);
  const Planned planned(grad_y, out);
  EXPECT_EQ(planned.status, ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(planned.executor, nullptr);
  EXPECT_THAT(recent_message(), HasSubstr(std::string("aclnnGroupedBiasAddGrad.gradY: ") + bad.message));
  EXPECT_EQ(aclDestroyTensor(grad_y), OK);
}

INSTANTIATE_TEST_SUITE_P(Protocol, BadViews, testing::ValuesIn(kBadViews),
                         [](const auto& bad) { return std::string(bad.param.what); });

TEST_F(Protocol, StridesOfSingleElementsDoNotMatter) {
  const int64_t shape[] = {1, 1, 4};
  const int64_t strides[] = {INT64_MIN, -3, 1};
  float values[] = {1, 2, 3, 4};
  aclTensor* view = aclCreateTensor(shape, 3, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, &shape[2], 1, values);
  TestTensor sum({1, kColumns}, DataType::float32);
  const Planned planned(view, sum);
  ASSERT_EQ(planned.status, OK) << recent_message();
  auto workspace = planned.make_workspace();
  ASSERT_EQ(run_phase2_and_wait(planned, workspace), OK);
  EXPECT_EQ(sum.values(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(aclDestroyTensor(view), OK);
}

TEST_F(Protocol, ABroadcastInputMayLieInOneElement) {
  const int64_t shape[] = {kGroups, kRows, kColumns};
  const int64_t strides[] = {0, 0, 0};
  const int64_t storage_shape[] = {1};
  float value = 2;
  aclTensor* view = aclCreateTensor(shape, 3, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, storage_shape, 1, &value);
  const Planned planned(view, out);
  ASSERT_EQ(planned.status, OK);
  auto workspace = planned.make_workspace();
  ASSERT_EQ(run_phase2_and_wait(planned, workspace), OK);
  EXPECT_EQ(out.values(), std::vector<double>(kGroups * kColumns, 2 * kRows));
  EXPECT_EQ(aclDestroyTensor(view), OK);
}

TEST_F(Protocol, MessagesNameOperatorAndParameter) {
  TestTensor integers({kGroups, kRows, kColumns}, DataType::int64);
  EXPECT_EQ(Planned(integers, out).status, ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(),
              HasSubstr("aclnnGroupedBiasAddGrad.gradY: expected data type float32 or float16 or "
                        "bfloat16, got int64 (aclDataType 9)"));
  TestTensor halves({kGroups, kColumns}, DataType::float16);
  EXPECT_EQ(Planned(grad_y, halves).status, ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(
      recent_message(),
      HasSubstr("aclnnGroupedBiasAddGrad.out: expected data type float32, as gradY has, got float16"));
  TestTensor wide({kGroups, kColumns + 1}, DataType::float32);
  EXPECT_EQ(Planned(grad_y, wide).status, ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.out: expected shape [2, 4], got [2, 5]"));
  TestTensor flat({kColumns}, DataType::float32);
  EXPECT_EQ(Planned(flat, out).status, ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.gradY: expected "));
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
}

TEST_F(Protocol, AnEmptyOutputNeedsNothing) {
  TestTensor empty({kGroups, kRows, 0}, DataType::float32);
  TestTensor nothing({kGroups, 0}, DataType::float32);
  aclSetRawTensorAddr(empty, nullptr);
  aclSetRawTensorAddr(nothing, nullptr);
  const Planned planned(empty, nothing);
  ASSERT_EQ(planned.status, OK);
  EXPECT_EQ(planned.workspace_size, 0u);
  ASSERT_NE(planned.executor, nullptr);
  EXPECT_EQ(aclnnGroupedBiasAddGrad(nullptr, 0, planned.executor, nullptr), OK);
}

TEST_F(Protocol, AnEmptyInputGivesZeros) {
  const int64_t shape[] = {kGroups, 0, kColumns};
  const int64_t no_storage[] = {0};
  aclTensor* empty = aclCreateTensor(shape, 3, ACL_FLOAT, nullptr, 7, ACL_FORMAT_ND, no_storage, 1, nullptr);
  const Planned planned(empty, out);
  ASSERT_EQ(planned.status, OK);
  EXPECT_EQ(planned.workspace_size, 0u);
  ASSERT_EQ(aclnnGroupedBiasAddGrad(nullptr, 0, planned.executor, nullptr), OK);
  ASSERT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
  EXPECT_EQ(out.values(), std::vector<double>(kGroups * kColumns, 0));
  EXPECT_TRUE(out.holes_untouched());
  EXPECT_EQ(aclDestroyTensor(empty), OK);
}

TEST_F(Protocol, OfManyThreadsOneRunsAnExecutor) {
  constexpr int kThreads = 4;
  for (int round = 0; round < 100; ++round) {
    const Planned planned(grad_y, out);
    auto workspace = planned.make_workspace();
    std::atomic<int> ran = 0;
    std::atomic<int> refused = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        aclrtSetDevice(0);
        const aclnnStatus status = run_phase2_and_wait(planned, workspace);
        ran += status == OK;
        refused += status == ACLNN_ERR_INNER;
        aclrtResetDevice(0);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(ran, 1);
    ASSERT_EQ(refused, kThreads - 1);
  }
}

TEST_F(Protocol, UsesOfOneExecutorAtATimeNeverMeet) {
  constexpr int kThreads = 4;
  const Planned planned(grad_y, out);
  aclSetAclOpExecutorRepeatable(planned.executor);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        const aclnnStatus status = aclSetTensorAddr(planned.executor, 0, grad_y, grad_y.data());
        wrong += status != OK && status != ACLNN_ERR_INNER;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), OK);
}

// Streams end runs of the executor while it takes new ones, and after it is gone.
TEST_F(Protocol, RunsOfOneExecutorMayBeUnderWayInManyStreams) {
  constexpr size_t kStreams = 4;
  constexpr size_t kRuns = 800;
  TestTensor contiguous_out({kGroups, kColumns}, DataType::float32);
  const Planned planned(grad_y, contiguous_out);
  ASSERT_EQ(aclSetAclOpExecutorRepeatable(planned.executor), OK);
  auto workspaces = std::vector(kStreams, planned.make_workspace());
  std::vector<std::unique_ptr<TestTensor>> outs;
  std::array<aclrtStream, kStreams> streams{};
  std::array<Gate, kStreams> gates;
  for (size_t i = 0; i < kStreams; ++i) {
    ASSERT_EQ(aclrtCreateStream(&streams[i]), ACL_SUCCESS);
    gates[i].close_stream(streams[i]);
  }
  for (size_t run = 0; run < kRuns; ++run) {
    outs.push_back(std::make_unique<TestTensor>(Shape{kGroups, kColumns}, DataType::float32));
    TestTensor& result = *outs.back();
    ASSERT_EQ(aclSetTensorAddr(planned.executor, 2, result, result.data()), OK);
    ASSERT_EQ(run_phase2(planned, workspaces[run % kStreams], streams[run % kStreams]), OK);
    if (run % (kRuns / kStreams) == kRuns / kStreams / 2) gates[run / (kRuns / kStreams)].open();
  }
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), OK);
  for (aclrtStream stream : streams) EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
  for (const auto& result : outs) EXPECT_EQ(result->values(), expected_out(grad_y_values(0)));
}

TEST_F(Protocol, ThreadsWithExecutorsOfTheirOwnDoNotDisturbEachOther) {
  constexpr int kThreads = 4;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&wrong, i] {
      aclrtSetDevice(0);
      aclrtStream stream = nullptr;
      aclrtCreateStream(&stream);
      TestTensor own({kGroups, kRows, kColumns}, DataType::float32, Layout::transposed, grad_y_values(i));
      TestTensor own_out({kGroups, kColumns}, DataType::float32, Layout::gapped);
      for (int round = 0; round < 100; ++round) {
        own_out.set(std::vector<double>(kGroups * kColumns));
        const Planned planned(own, own_out);
        auto workspace = planned.make_workspace();
        wrong += run_phase2(planned, workspace, stream) != OK;
        wrong += aclrtSynchronizeStream(stream) != ACL_SUCCESS;
        wrong += own_out.values() != expected_out(grad_y_values(i));
      }
      aclrtDestroyStream(stream);
      aclrtResetDevice(0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace aclgrad::test
