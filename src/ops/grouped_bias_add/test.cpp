// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What is true of the grouped bias-add gradient alone; what holds for every operator is tested in tests/operators/.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "aclgrad/grouped_bias_add.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "base/data_type.h"
#include "ops/grouped_bias_add/cases.h"
#include "ops/grouped_bias_add/reference.h"
#include "support/test_tensor.h"

namespace aclgrad::test {
namespace {

using namespace grouped_bias_add_cases;

aclnnStatus run_grad(aclTensor* grad_y, aclTensor* group_idx, aclTensor* out) {
  return run(
      [&](auto* size, auto* executor) {
        return aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, group_idx, out, size, executor);
      },
      aclnnGroupedBiasAddGrad);
}

TEST(GroupedBiasAddGrad, ErrorGrowsSlowlyWithLength) {
  const int64_t rows = 200000;
  const std::vector<double> grad_y = rounded(uniform(rows * 16, 0, 1, 4), DataType::float32);
  const auto expected = reference::grouped_bias_add_grad(grad_y, 16, {0}, {rows});
  TestTensor x({rows, 16}, DataType::float32, Layout::contiguous, grad_y);
  TestTensor idx({1}, DataType::int64, Layout::contiguous, {static_cast<double>(rows)});
  TestTensor out({1, 16}, DataType::float32);
  ASSERT_EQ(run_grad(x, idx, out), OK);
  EXPECT_LE(relative_error(out.values(), expected), 2e-7);
}

TEST(GroupedBiasAddGrad, CarriesNanAndInfinity) {
  const double infinity = std::numeric_limits<double>::infinity();
  TestTensor x({4, 3}, DataType::bfloat16, Layout::contiguous,
               {1, 2, 3, std::nan(""), infinity, -infinity, 1, 1, infinity, 1, 1, 1});
  TestTensor idx({2}, DataType::int32, Layout::contiguous, {1, 4});
  TestTensor out({2, 3}, DataType::bfloat16);
  ASSERT_EQ(run_grad(x, idx, out), OK);
  const std::vector<double> got = out.values();
  EXPECT_EQ(got[0], 1);
  EXPECT_TRUE(std::isnan(got[3]));
  EXPECT_EQ(got[4], infinity);
  EXPECT_TRUE(std::isnan(got[5]));
}

}  // namespace
}  // namespace aclgrad::test
