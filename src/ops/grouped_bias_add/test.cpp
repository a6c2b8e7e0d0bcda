// The grouped bias-add gradient against its definition, and the status codes of its calls.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "ops/grouped_bias_add/cases.h"
#include "ops/grouped_bias_add/problem.h"
#include "ops/grouped_bias_add/reference.h"
#include "support/test_tensor.h"
#include "support/workspace.h"

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

aclnnStatus run_grad_v2(aclTensor* grad_y, aclTensor* group_idx, int64_t type, aclTensor* out) {
  return run(
      [&](auto* size, auto* executor) {
        return aclnnGroupedBiasAddGradV2GetWorkspaceSize(grad_y, group_idx, type, out, size, executor);
      },
      aclnnGroupedBiasAddGradV2);
}

TEST(GroupedBiasAddGrad, MatchesReferenceInAllTypesAndLayouts) {
  for (const Case& c : kCases) {
    for (DataType type : kFloatTypes) {
      const std::vector<double> grad_y = rounded(uniform(c.rows * c.columns, -5, 5, 1), type);
      const Ranges ranges = ranges_of(c.group_idx, c.group_idx_type, c.rows);
      const auto expected = reference::grouped_bias_add_grad(grad_y, c.columns, ranges.begin, ranges.end);
      const auto groups = static_cast<int64_t>(c.group_idx.size());
      for (Layout layout : kLayouts) {
        for (DataType index_type : {DataType::int32, DataType::int64}) {
          const bool fits =
              std::all_of(c.group_idx.begin(), c.group_idx.end(), [](double v) { return v < 2e9; });
          if (index_type == DataType::int32 && !fits) continue;
          SCOPED_TRACE(testing::Message()
                       << c.rows << "x" << c.columns << " type " << static_cast<int>(type) << " "
                       << name_of(layout) << " groups " << testing::PrintToString(c.group_idx));
          TestTensor x({c.rows, c.columns}, type, layout, grad_y);
          TestTensor idx({groups}, index_type, layout, c.group_idx);
          TestTensor out({groups, c.columns}, type, layout);
          ASSERT_EQ(run_grad_v2(x, idx, c.group_idx_type, out), OK);
          EXPECT_LE(relative_error(out.values(), expected), tolerance(type, false));
          EXPECT_TRUE(out.holes_untouched());
        }
      }
    }
  }
}

TEST(GroupedBiasAddGrad, SumsEqualGroups) {
  const Shape shapes[] = {{1, 1, 1}, {3, 7, 31}, {5, 1, 64}, {2, 1030, 15}, {16, 2000, 128}, {1340, 19, 1}};
  for (const Shape& shape : shapes) {
    for (DataType type : kFloatTypes) {
      const std::vector<double> grad_y = rounded(uniform(element_count(shape), -5, 5, 2), type);
      Ranges ranges;
      for (int64_t g = 0; g < shape[0]; ++g) {
        ranges.begin.push_back(g * shape[1]);
        ranges.end.push_back((g + 1) * shape[1]);
      }
      const auto expected = reference::grouped_bias_add_grad(grad_y, shape[2], ranges.begin, ranges.end);
      for (Layout layout : kLayouts) {
        SCOPED_TRACE(testing::PrintToString(shape) + name_of(layout));
        TestTensor x(shape, type, layout, grad_y);
        TestTensor out({shape[0], shape[2]}, type, layout);
        ASSERT_EQ(run_grad(x, nullptr, out), OK);
        EXPECT_LE(relative_error(out.values(), expected), tolerance(type, false));
        EXPECT_TRUE(out.holes_untouched());
      }
    }
  }
}

TEST(GroupedBiasAddGrad, GivesTheSameBitsForAnyThreadCountAndLayout) {
  const std::vector<double> values = uniform(3000 * 1500, -5, 5, 3);
  for (DataType type : kFloatTypes) {
    std::vector<std::byte> first;
    for (int threads : {1, 2, 3, 4, 7, 4}) {
      set_thread_count(threads);
      for (Layout layout : kLayouts) {
        TestTensor x({3000, 1500}, type, layout, values);
        TestTensor idx({3}, DataType::int64, layout, {1, 2900, 3000});
        TestTensor out({3, 1500}, type, layout);
        ASSERT_EQ(run_grad(x, idx, out), OK);
        if (first.empty()) first = out.bytes();
        EXPECT_EQ(out.bytes(), first) << threads << " threads, " << name_of(layout);
      }
    }
    set_thread_count(0);
  }
}

TEST(GroupedBiasAddGrad, ErrorGrowsSlowlyWithLength) {
  const int64_t rows = 200000;
  const std::vector<double> grad_y = rounded(uniform(rows * 16, 0, 1, 4), DataType::float32);
  const auto expected = reference::grouped_bias_add_grad(grad_y, 16, {0}, {rows});
  TestTensor x({rows, 16}, DataType::float32, Layout::contiguous, grad_y);
  TestTensor idx({1}, DataType::int64, Layout::contiguous, {static_cast<double>(rows)});
  TestTensor out({1, 16}, DataType::float32);
  ASSERT_EQ(run_grad(x, idx, out), OK);
  print_ulp_histogram("grouped bias-add gradient, sums of 200000", out.values(), expected, DataType::float32);
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

TEST(GroupedBiasAddGrad, EmptyTensors) {
  TestTensor no_rows({0, 8}, DataType::float32);
  TestTensor idx({2}, DataType::int64, Layout::contiguous, {0, 0});
  TestTensor out({2, 8}, DataType::float32, Layout::gapped);
  EXPECT_EQ(run_grad(no_rows, idx, out), OK);
  EXPECT_EQ(out.values(), std::vector<double>(16, 0.0));
  EXPECT_TRUE(out.holes_untouched());
  TestTensor no_columns({4, 0}, DataType::float32);
  TestTensor no_out({2, 0}, DataType::float32);
  EXPECT_EQ(run_grad(no_columns, idx, no_out), OK);
  TestTensor rows({4, 8}, DataType::float32);
  TestTensor no_groups({0}, DataType::int64);
  TestTensor no_sums({0, 8}, DataType::float32);
  EXPECT_EQ(run_grad(rows, no_groups, no_sums), OK);
  TestTensor equal({3, 0, 8}, DataType::float16);
  TestTensor zeros({3, 8}, DataType::float16);
  EXPECT_EQ(run_grad(equal, nullptr, zeros), OK);
  EXPECT_EQ(zeros.values(), std::vector<double>(24, 0.0));
}

TEST(GroupedBiasAddGrad, StatusCodes) {
  TestTensor x2({6, 4}, DataType::float32, Layout::contiguous, std::vector<double>(24, 1.0));
  TestTensor x3({2, 3, 4}, DataType::float32, Layout::contiguous, std::vector<double>(24, 1.0));
  TestTensor idx({2}, DataType::int64, Layout::contiguous, {3, 6});
  TestTensor idx_float({2}, DataType::float32);
  TestTensor idx_2d({2, 1}, DataType::int64);
  TestTensor idx_large({2049}, DataType::int64);
  TestTensor out_large({2049, 4}, DataType::float32);
  TestTensor out({2, 4}, DataType::float32);
  TestTensor out_half({2, 4}, DataType::float16);
  TestTensor out_wrong({3, 4}, DataType::float32);
  TestTensor out_3d({2, 4, 1}, DataType::float32);
  TestTensor x_double({6, 4}, DataType::float64);
  TestTensor out_double({2, 4}, DataType::float64);
  TestTensor x_many({2049, 1, 4}, DataType::float32, Layout::contiguous, std::vector<double>(2049 * 4, 1.0));

  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(aclnnGroupedBiasAddGradGetWorkspaceSize(x2, idx, out, nullptr, &executor), 161001);
  EXPECT_EQ(aclnnGroupedBiasAddGradGetWorkspaceSize(x2, idx, out, &size, nullptr), 161001);

  EXPECT_EQ(run_grad(nullptr, idx, out), 161001);
  EXPECT_EQ(run_grad(x2, idx, nullptr), 161001);
  EXPECT_EQ(run_grad(x_double, idx, out_double), 161002);
  EXPECT_EQ(run_grad(x2, idx, out_half), 161002);
  EXPECT_EQ(run_grad(x2, idx_float, out), 161002);
  EXPECT_EQ(run_grad(x2, nullptr, out), 161002);
  EXPECT_EQ(run_grad(x3, idx, out), 161002);
  EXPECT_EQ(run_grad(x2, idx_2d, out), 161002);
  EXPECT_EQ(run_grad(x2, idx_large, out_large), 161002);
  EXPECT_EQ(run_grad(x_many, nullptr, out_large), 0);
  EXPECT_EQ(run_grad(x2, idx, out_wrong), 161002);
  EXPECT_EQ(run_grad(x2, idx, out_3d), 161002);
  EXPECT_EQ(run_grad_v2(x2, idx, 2, out), 161002);
  EXPECT_EQ(run_grad_v2(x2, idx, -1, out), 161002);
  EXPECT_EQ(run_grad_v2(x2, idx, 1, out), 0);
  EXPECT_EQ(run_grad(x2, idx, out), 0);
  EXPECT_EQ(run_grad(x3, nullptr, out), 0);
}

TEST(GroupedBiasAddGrad, CppInterfaceTakesMoreGroupsThanTheDocuments) {
  const int64_t groups = 5000;
  std::vector<float> grad_y(static_cast<size_t>(groups), 2.0f);
  std::vector<int32_t> counts(static_cast<size_t>(groups), 1);
  std::vector<float> out(static_cast<size_t>(groups));
  GroupedBiasAddGrad problem;
  problem.kind = GroupedBiasAddGrad::Groups::counts;
  problem.groups = problem.rows = groups;
  problem.columns = problem.row_stride = 1;
  problem.grad_y = grad_y.data();
  problem.group_idx = {counts.data(), DataType::int32};
  problem.out = out.data();
  Workspace workspace(workspace_size(problem));
  grouped_bias_add_grad(problem, workspace.data());
  EXPECT_EQ(out, grad_y);
}

}  // namespace
}  // namespace aclgrad::test
