// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// One call of an operator that has all its parts: inputs, an optional input, an output.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "runtime/fixture.h"
#include "support/test_tensor.h"

namespace aclgrad::test {

inline constexpr int64_t kGroups = 2;
inline constexpr int64_t kRows = 3;
inline constexpr int64_t kColumns = 4;

inline std::vector<double> grad_y_values(double first) {
  std::vector<double> values(kGroups * kRows * kColumns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<double>(i);
  return values;
}

inline std::vector<double> expected_out(const std::vector<double>& grad_y) {
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

inline aclnnStatus run_phase2(const Planned& planned, std::vector<std::byte>& workspace,
                              aclrtStream stream = nullptr) {
  return aclnnGroupedBiasAddGrad(workspace.empty() ? nullptr : workspace.data(), workspace.size(),
                                 planned.executor, stream);
}

inline aclnnStatus run_phase2_and_wait(const Planned& planned, std::vector<std::byte>& workspace) {
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

}  // namespace aclgrad::test
