// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What is true of the grouped bias-add gradient alone; what holds for every operator is tested in tests/operators/.
#include <gtest/gtest.h>

#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "ops/grouped_bias_add/reference.h"
#include "support/test_tensor.h"

namespace aclgrad::test {
namespace {

TEST(GroupedBiasAddGrad, ErrorGrowsSlowlyWithLength) {
  const int64_t rows = 200000;
  const std::vector<double> grad_y = rounded(uniform(rows * 16, 0, 1, 4), DataType::float32);
  const auto expected = reference::grouped_bias_add_grad(grad_y, 16, {{0, rows}});
  TestTensor x({rows, 16}, DataType::float32, Layout::contiguous, grad_y);
  TestTensor idx({1}, DataType::int64, Layout::contiguous, {static_cast<double>(rows)});
  TestTensor out({1, 16}, DataType::float32);
  const auto phase1 = [&](auto* size, auto* executor) {
    return aclnnGroupedBiasAddGradGetWorkspaceSize(x, idx, out, size, executor);
  };
  ASSERT_EQ(run(phase1, aclnnGroupedBiasAddGrad), OK);
  EXPECT_LE(relative_error(out.values(), expected), 2e-7);
}

}  // namespace
}  // namespace aclgrad::test
