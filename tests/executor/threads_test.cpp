// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Executors and threads.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "executor/protocol.h"

namespace aclgrad::test {
namespace {

TEST_F(Protocol, OfManyThreadsOneRunsAnExecutor) {
  constexpr int kThreads = 4;
  for (int round = 0; round < 100; ++round) {
    const Planned planned(grad_y, out);
    std::atomic<int> ran = 0;
    std::atomic<int> refused = 0;
    in_threads(kThreads, [&](int) {
      aclrtSetDevice(0);
      const aclnnStatus status = planned.run();
      ran += status == OK;
      refused += status == ACLNN_ERR_INNER;
      aclrtResetDevice(0);
    });
    ASSERT_EQ(ran, 1);
    ASSERT_EQ(refused, kThreads - 1);
  }
}

TEST_F(Protocol, UsesOfOneExecutorAtATimeNeverMeet) {
  constexpr int kThreads = 4;
  const Planned planned(grad_y, out);
  aclSetAclOpExecutorRepeatable(planned.executor);
  std::atomic<int> wrong = 0;
  in_threads(kThreads, [&](int) {
    for (int round = 0; round < 500; ++round) {
      const aclnnStatus status = aclSetTensorAddr(planned.executor, 0, grad_y, grad_y.data());
      wrong += status != OK && status != ACLNN_ERR_INNER;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), OK);
}

// Streams end runs of the executor while it takes new ones with other addresses, and one after it is gone.
TEST_F(Protocol, RunsOfOneExecutorMayBeUnderWayInManyStreams) {
  constexpr size_t kStreams = 4;
  constexpr size_t kRuns = 800;
  constexpr size_t kRunsOfGate = kRuns / kStreams;
  TestTensor contiguous_out({kGroups, kColumns}, DataType::float32);
  const Planned planned(grad_y, contiguous_out);
  ASSERT_EQ(aclSetAclOpExecutorRepeatable(planned.executor), OK);
  auto workspaces = std::vector(kStreams, planned.workspace);
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
    std::vector<std::byte>& workspace = workspaces[run % kStreams];
    ASSERT_EQ(aclnnGroupedBiasAddGrad(workspace.data(), workspace.size(), planned.executor,
                                      streams[run % kStreams]),
              OK);
    if (run % kRunsOfGate == kRunsOfGate / 2 && run < kRuns - kRunsOfGate) gates[run / kRunsOfGate].open();
  }
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), OK);
  gates.back().open();
  for (aclrtStream stream : streams) EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
  for (const auto& result : outs) EXPECT_EQ(result->values(), expected_out(grad_y_values(0)));
}

}  // namespace
}  // namespace aclgrad::test
