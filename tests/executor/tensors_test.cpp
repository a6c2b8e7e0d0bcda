// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What both phases ask of tensors, whatever the operator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "executor/protocol.h"

namespace aclgrad::test {
namespace {

using testing::EndsWith;

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

constexpr const char* kTooLarge = "expected a size that the address space can hold";
constexpr const char* kOutside = "expected a view inside its storage of 24 elements";
constexpr const char* kNoStorage =
    "expected a view inside its storage of 0 elements, got shape [2, 3, 4], whose last element is number 23";
constexpr const char* kNegativeStorage =
    "expected a storage shape that the address space can hold, got [-24]";
constexpr const char* kLargeStorage = "expected a storage shape that the address space can hold";

const BadView kBadViews[] = {
    {"NegativeStride", {2, 3, 4}, {12, -4, 1}, 8, {24}, "expected strides of at least 0, got -4"},
    {"NegativeOffset", {2, 3, 4}, {}, -1, {24}, "expected an offset of at least 0, got -1"},
    {"NegativeSize", {2, -3, 4}, {}, 0, {24}, "expected a shape without negative sizes, got [2, -3, 4]"},
    {"LeavesItsStorage", {2, 3, 4}, {}, 1, {24}, kOutside},
    {"StrideLeavesItsStorage", {2, 3, 4}, {13, 4, 1}, 0, {2, 3, 4}, kOutside},
    {"EmptyStorage", {2, 3, 4}, {}, 0, {0}, kNoStorage},
    {"NegativeStorage", {2, 3, 4}, {}, 0, {-24}, kNegativeStorage},
    {"StorageOverflows", {2, 3, 4}, {}, 0, {INT64_MAX, 3}, kLargeStorage},
    {"NineAxes", {1, 1, 1, 1, 1, 1, 2, 3, 4}, {}, 0, {24}, "expected at most 8 dimensions, got 9"},
    {"SizeOverflows", {INT64_MAX, INT64_MAX, 4}, {}, 0, {24}, kTooLarge},
    {"BytesOverflow", {int64_t{1} << 61, 1, 4}, {0, 0, 0}, 0, {24}, kTooLarge},
    {"ReachOverflows", {3, 3, 4}, {INT64_MAX, INT64_MAX, 1}, 0, {24}, kTooLarge},
    {"OffsetOverflows", {2, 3, 4}, {}, INT64_MAX, {24}, kTooLarge},
    {"EmptyOverflows", {0, INT64_MAX, INT64_MAX}, {}, 0, {0}, kTooLarge},
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
  EXPECT_EQ(planned.workspace_size, 0u);
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
  ASSERT_EQ(planned.run(), OK);
  EXPECT_EQ(sum.values(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(aclDestroyTensor(view), OK);
}

TEST_F(Protocol, AViewMayBeginInsideItsStorage) {
  const int64_t shape[] = {1, 1, 4};
  const int64_t storage_shape[] = {6};
  float values[] = {-1, -1, 1, 2, 3, 4};
  aclTensor* view = aclCreateTensor(shape, 3, ACL_FLOAT, nullptr, 2, ACL_FORMAT_ND, storage_shape, 1, values);
  TestTensor sum({1, kColumns}, DataType::float32);
  ASSERT_EQ(Planned(view, sum).run(), OK);
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
  ASSERT_EQ(planned.run(), OK);
  EXPECT_EQ(out.values(), std::vector<double>(kGroups * kColumns, 2 * kRows));
  EXPECT_EQ(aclDestroyTensor(view), OK);
}

TEST_F(Protocol, NullComesBeforeAWrongView) {
  int64_t not_a_tensor = 0;
  auto* dead = reinterpret_cast<aclTensor*>(&not_a_tensor);
  EXPECT_EQ(Planned(dead, static_cast<aclTensor*>(nullptr)).status, ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_THAT(recent_message(), HasSubstr("aclnnGroupedBiasAddGrad.out: expected a tensor, got null"));
}

TEST_F(Protocol, AnOutputMustNotRepeatElements) {
  const int64_t shape[] = {kGroups, kColumns};
  float values[kColumns + 1] = {};
  for (const int64_t row : {int64_t{0}, int64_t{1}}) {
    const int64_t strides[] = {row, 1};
    const int64_t storage[] = {kColumns + row};
    aclTensor* view = aclCreateTensor(shape, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, storage, 1, values);
    EXPECT_EQ(Planned(grad_y, view).status, ACLNN_ERR_PARAM_INVALID);
    EXPECT_THAT(recent_message(),
                HasSubstr("aclnnGroupedBiasAddGrad.out: expected memory of its own for each element"));
    EXPECT_EQ(aclDestroyTensor(view), OK);
  }
}

TEST_F(Protocol, MessagesNameOperatorAndParameter) {
  TestTensor integers({kGroups, kRows, kColumns}, DataType::int64);
  EXPECT_EQ(Planned(integers, out).status, ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(),
              HasSubstr("aclnnGroupedBiasAddGrad.gradY: expected data type float32, float16 or "
                        "bfloat16, got int64 (aclDataType 9)"));
  TestTensor halves({kGroups, kColumns}, DataType::float16);
  EXPECT_EQ(Planned(grad_y, halves).status, ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(
      recent_message(),
      HasSubstr("aclnnGroupedBiasAddGrad.out: expected data type float32, as gradY has, got float16"));
  TestTensor wide({kGroups, kColumns + 1}, DataType::float32);
  EXPECT_EQ(Planned(grad_y, wide).status, ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(recent_message(), EndsWith("aclnnGroupedBiasAddGrad.out: expected shape [2, 4], got [2, 5]."));
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

}  // namespace
}  // namespace aclgrad::test
