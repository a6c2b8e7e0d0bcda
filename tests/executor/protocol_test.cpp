// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The two-phase protocol: executors, addresses, streams, workspaces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "aclnnop/aclnn_grid_sampler2d.h"
#include "executor/protocol.h"

namespace aclgrad::test {
namespace {

using testing::AllOf;

TEST_F(Protocol, RunsOnce) {
  const Planned planned(grad_y, out);
  ASSERT_EQ(planned.status, OK);
  ASSERT_GT(planned.workspace_size, 0u);
  ASSERT_EQ(planned.run(), OK);
  expect_sums();
  EXPECT_TRUE(out.holes_untouched());
  EXPECT_EQ(planned.phase2(), ACLNN_ERR_INNER);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad: expected a live executor"));
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(planned.executor), ACLNN_ERR_INNER);
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), ACLNN_ERR_INNER);
}

TEST_F(Protocol, RepeatableRunsUntilDestroyed) {
  const Planned planned(grad_y, out);
  ASSERT_EQ(aclSetAclOpExecutorRepeatable(planned.executor), OK);
  for (double first : {0.0, 5.0, -7.0}) {
    grad_y.set(grad_y_values(first));
    ASSERT_EQ(planned.run(), OK);
    expect_sums(first);
  }
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), OK);
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), ACLNN_ERR_INNER);
  EXPECT_EQ(planned.phase2(), ACLNN_ERR_INNER);
}

TEST_F(Protocol, NullAndForeignExecutors) {
  EXPECT_EQ(aclDestroyAclOpExecutor(nullptr), ACLNN_ERR_INNER_NULLPTR);
  EXPECT_EQ(aclDestroyOpExecutor(nullptr), ACLNN_ERR_INNER_NULLPTR);
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
    for (const auto phase_2 : {aclnnGroupedBiasAddGradV2, aclnnGridSampler2D}) {
      EXPECT_EQ(phase_2(planned.workspace.data(), planned.workspace.size(), planned.executor, nullptr),
                ACLNN_ERR_PARAM_INVALID);
    }
    EXPECT_THAT(recent_message(), HasSubstr("aclnnGridSampler2D.executor: expected an executor of "
                                            "aclnnGridSampler2DGetWorkspaceSize, got one of "
                                            "aclnnGroupedBiasAddGradGetWorkspaceSize."));
    ASSERT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
    EXPECT_EQ(out.bytes(), before);
    ASSERT_EQ(planned.run(), OK);
    expect_sums();
    if (repeatable) {
      ASSERT_EQ(aclDestroyAclOpExecutor(planned.executor), OK);
    }
  }
}

// In the order of the list in aclnn_base.h: each call mends what the one before was refused for.
TEST_F(Protocol, Phase2AnswersWithTheFirstStatusThatApplies) {
  const aclrtStream no_stream = reinterpret_cast<aclrtStream>(8);
  const Planned planned(grad_y, out);
  const Planned used_up(grad_y, out);  // the later one: the next executor may get its address
  ASSERT_EQ(used_up.run(), OK);
  ASSERT_GT(planned.workspace_size, 0u);
  ASSERT_EQ(aclSetAclOpExecutorRepeatable(planned.executor), OK);
  ASSERT_EQ(aclSetTensorAddr(planned.executor, 0, grad_y, nullptr), OK);
  ASSERT_EQ(aclSetTensorAddr(planned.executor, 2, out, nullptr), OK);
  const uint64_t size = planned.workspace_size;

  EXPECT_EQ(aclnnGridSampler2D(nullptr, 0, nullptr, no_stream), ACLNN_ERR_INNER_NULLPTR);
  EXPECT_EQ(aclnnGridSampler2D(nullptr, 0, used_up.executor, no_stream), ACLNN_ERR_INNER);
  EXPECT_EQ(aclnnGridSampler2D(nullptr, 0, planned.executor, no_stream), ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGridSampler2D.executor"));
  EXPECT_EQ(aclnnGroupedBiasAddGrad(nullptr, size, planned.executor, no_stream), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.workspace: expected"));
  EXPECT_EQ(aclnnGroupedBiasAddGrad(planned.workspace.data(), size - 1, planned.executor, no_stream),
            ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.workspaceSize: expected at least " +
                                          std::to_string(size) + " bytes, got " + std::to_string(size - 1)));
  EXPECT_EQ(planned.phase2(no_stream), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.gradY: expected a tensor with data"));
  ASSERT_EQ(aclSetTensorAddr(planned.executor, 0, grad_y, grad_y.data()), OK);
  EXPECT_EQ(planned.phase2(no_stream), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.out: expected a tensor with data"));
  ASSERT_EQ(aclSetTensorAddr(planned.executor, 2, out, out.data()), OK);
  EXPECT_EQ(planned.phase2(no_stream), ACLNN_ERR_RUNTIME_ERROR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.stream"));
  EXPECT_EQ(planned.run(), OK);
  EXPECT_EQ(aclDestroyOpExecutor(planned.executor), OK);
  EXPECT_EQ(aclDestroyOpExecutor(planned.executor), ACLNN_ERR_INNER);
  EXPECT_THAT(recent_message(), HasSubstr("aclDestroyOpExecutor: expected a live executor"));
}

TEST_F(Protocol, RefreshedAddressesServeTheNextRuns) {
  TestTensor other_grad_y({kGroups, kRows, kColumns}, DataType::float32, Layout::transposed,
                          grad_y_values(100));
  TestTensor other_out({kGroups, kColumns}, DataType::float32, Layout::gapped);
  const auto first = expected_out(grad_y_values(0));
  const auto second = expected_out(grad_y_values(100));
  const Planned planned(grad_y, out);
  aclSetAclOpExecutorRepeatable(planned.executor);

  EXPECT_EQ(aclSetTensorAddr(planned.executor, 0, other_grad_y, other_grad_y.data()), OK);
  ASSERT_EQ(planned.run(), OK);
  EXPECT_EQ(out.values(), second);

  // Inputs come first, those that were null in phase 1 included: `out` is number 2.
  EXPECT_EQ(aclSetTensorAddr(planned.executor, 2, other_out, other_out.data()), OK);
  EXPECT_EQ(aclSetInputTensorAddr(planned.executor, 0, grad_y, grad_y.data()), OK);
  ASSERT_EQ(planned.run(), OK);
  EXPECT_EQ(other_out.values(), first);
  EXPECT_EQ(out.values(), second);

  EXPECT_EQ(aclSetOutputTensorAddr(planned.executor, 0, out, out.data()), OK);
  ASSERT_EQ(planned.run(), OK);
  EXPECT_EQ(out.values(), first);

  EXPECT_EQ(AclSetTensorAddr(planned.executor, 0, other_grad_y, other_grad_y.data()), OK);
  EXPECT_EQ(AclSetInputTensorAddr(planned.executor, 0, other_grad_y, other_grad_y.data()), OK);
  EXPECT_EQ(AclSetOutputTensorAddr(planned.executor, 0, other_out, other_out.data()), OK);
  ASSERT_EQ(planned.run(), OK);
  EXPECT_EQ(other_out.values(), second);
  EXPECT_TRUE(out.holes_untouched());
  EXPECT_TRUE(other_out.holes_untouched());
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), OK);
}

TEST_F(Protocol, AddressesMayComeAfterPhase1) {
  aclSetRawTensorAddr(grad_y, nullptr);
  aclSetRawTensorAddr(out, nullptr);
  const Planned planned(grad_y, out);
  ASSERT_EQ(planned.status, OK);
  EXPECT_EQ(aclSetTensorAddr(planned.executor, 0, grad_y, grad_y.data()), OK);
  EXPECT_EQ(aclSetTensorAddr(planned.executor, 2, out, out.data()), OK);
  ASSERT_EQ(planned.run(), OK);
  expect_sums();
}

TEST_F(Protocol, WrongUsesOfAddressRefresh) {
  const Planned planned(grad_y, out);
  aclOpExecutor* executor = planned.executor;
  void* data = grad_y.data();
  EXPECT_EQ(aclSetTensorAddr(executor, 3, grad_y, data), ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(),
              HasSubstr("aclSetTensorAddr.index: expected less than 3, the number of tensors, got 3"));
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
  ASSERT_EQ(planned.run(), OK);
  expect_sums();
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
  ASSERT_EQ(planned.phase2(), OK);
  EXPECT_EQ(aclDestroyTensor(large), OK);
  EXPECT_EQ(aclDestroyTensor(result), OK);
  ASSERT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
  EXPECT_EQ(sum, std::vector<float>(1000, 2000));
}

TEST_F(Protocol, AnExecutorKeepsWhatPhase1Saw) {
  const Planned planned(grad_y, out);
  const int64_t shape[] = {1};
  ASSERT_EQ(aclInitTensor(grad_y, shape, 1, ACL_INT64, nullptr, 0, ACL_FORMAT_ND, shape, 1, nullptr), OK);
  ASSERT_EQ(planned.run(), OK);
  expect_sums();
}

TEST_F(Protocol, Phase2MayRunOnAnotherThread) {
  const Planned planned(grad_y, out);
  std::thread([&] {
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    EXPECT_EQ(planned.run(), OK);
    EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
  }).join();
  expect_sums();
}

TEST_F(Protocol, Phase2NeedsAContext) {
  const Planned planned(grad_y, out);
  std::thread([&] {
    EXPECT_EQ(planned.phase2(), ACLNN_ERR_RUNTIME_ERROR);
    EXPECT_THAT(
        recent_message(),
        AllOf(HasSubstr("107002"), HasSubstr("aclnnGroupedBiasAddGrad: The calling thread has no context.")));
  }).join();
}

aclrtStream destroyed_stream() {
  const aclrtStream stream = new_stream();
  EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
  return stream;
}

TEST_F(Protocol, StreamsThatCannotTakeTheWork) {
  int not_a_stream = 0;
  const aclrtStream destroyed = destroyed_stream();
  aclrtContext own_context = nullptr;
  ASSERT_EQ(aclrtGetCurrentContext(&own_context), ACL_SUCCESS);
  const aclrtContext other_context = new_context();
  const aclrtStream of_other_context = new_stream();
  ASSERT_EQ(aclrtSetCurrentContext(own_context), ACL_SUCCESS);

  for (aclrtStream stream : {aclrtStream{&not_a_stream}, destroyed, of_other_context}) {
    const Planned planned(grad_y, out);
    EXPECT_EQ(planned.phase2(stream), ACLNN_ERR_RUNTIME_ERROR);
    EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.stream"));
    EXPECT_EQ(planned.phase2(), ACLNN_ERR_INNER);  // it is gone, as after a success
  }
  EXPECT_EQ(aclrtDestroyContext(other_context), ACL_SUCCESS);
}

TEST_F(Protocol, AStreamMustLiveEvenWhereThereIsNothingToDo) {
  TestTensor empty({kGroups, kRows, 0}, DataType::float32);
  TestTensor nothing({kGroups, 0}, DataType::float32);
  const aclrtStream destroyed = destroyed_stream();
  EXPECT_EQ(Planned(empty, nothing).phase2(destroyed), ACLNN_ERR_RUNTIME_ERROR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.stream"));
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
    expect_sums();
    const auto is_canary = [&](std::byte byte) { return byte == kCanary; };
    EXPECT_TRUE(std::all_of(memory.data(), workspace, is_canary));
    EXPECT_TRUE(std::all_of(workspace + planned.workspace_size, memory.data() + memory.size(), is_canary));
  }
}

}  // namespace
}  // namespace aclgrad::test
