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

// Phase 1 of one call, what it answered, and a workspace for phase 2.
struct Planned {
  uint64_t workspace_size = 12345;
  aclOpExecutor* executor = reinterpret_cast<aclOpExecutor*>(8);
  aclnnStatus status;
  mutable std::vector<std::byte> workspace;

  Planned(const aclTensor* grad_y, aclTensor* out, const aclTensor* group_idx = nullptr)
      : status(aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, group_idx, out, &workspace_size, &executor)),
        workspace(workspace_size) {}

  aclnnStatus phase2(aclrtStream stream = nullptr) const {
    return aclnnGroupedBiasAddGrad(workspace.data(), workspace.size(), executor, stream);
  }
  aclnnStatus run() const {
    const aclnnStatus answer = phase2();
    return answer != OK ? answer : aclrtSynchronizeStream(nullptr);
  }
};

class Protocol : public testing::Test {
 protected:
  void SetUp() override {
    grad_y.set(grad_y_values(0));
    recent_message();  // those of other tests
  }

  // The sums of grad_y_values(first).
  void expect_sums(double first = 0) const { EXPECT_EQ(out.values(), expected_out(grad_y_values(first))); }

  TestTensor grad_y{{kGroups, kRows, kColumns}, DataType::float32, Layout::transposed};
  TestTensor out{{kGroups, kColumns}, DataType::float32, Layout::gapped};
};

}  // namespace aclgrad::test
