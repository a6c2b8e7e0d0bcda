// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Functions of companion libraries, with an interpreter of a few lines: out[i] = x[i] + the sum of a list's members.
#include "executor/companion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "acl/acl.h"
#include "base/error.h"
#include "tensor/tensor.h"

namespace aclgrad::test {
namespace {

using companion::Function;
using companion::Kind;
using companion::Parameter;
using companion::Role;
using companion::Value;

constexpr Parameter kParameters[] = {{"x", Kind::tensor},
                                     {"listOptional", Kind::tensor_list, Role::input, true},
                                     {"mode", Kind::integer},
                                     {"out", Kind::tensor, Role::output}};
constexpr Function kFunction = {"aclnnTested", kParameters, 4, "x + sum(list)"};

constexpr Parameter kOtherParameters[] = {{"x", Kind::tensor},
                                          {"scalesOptional", Kind::scalar_list, Role::input, true},
                                          {"mode", Kind::integer},
                                          {"firstOptional", Kind::tensor, Role::output, true},
                                          {"out", Kind::tensor, Role::sized_by_data}};
constexpr const aclTensor* none = nullptr;
constexpr Function kOtherFunction = {"aclnnOther", kOtherParameters, 5, "not run"};

constexpr Parameter kInPlaceParameters[] = {{"y", Kind::tensor, Role::in_place},
                                            {"listOptional", Kind::tensor_list, Role::input, true},
                                            {"mode", Kind::integer},
                                            {"x", Kind::tensor}};
constexpr Function kInPlaceFunction = {"aclnnInPlace", kInPlaceParameters, 4, "x = y"};

class Sum final : public companion::Computation {
 public:
  Sum(size_t members, size_t count, bool fails) : members_(members), count_(count), fails_(fails) {}

  void run(void* const* storages, const SetShape&) const override {
    if (fails_) throw std::runtime_error("too much.");
    auto* out = static_cast<float*>(storages[members_ + 1]);
    for (size_t i = 0; i < count_; ++i) {
      out[i] = 0;
      for (size_t member = 0; member <= members_; ++member)
        out[i] += static_cast<float*>(storages[member])[i];
    }
  }

 private:
  const size_t members_, count_;
  const bool fails_;
};

// mode 1 is refused in phase 1, mode 2 fails in phase 2.
class TestedInterpreter final : public companion::Interpreter {
 public:
  std::unique_ptr<companion::Computation> plan(const Function&, const Value* arguments) override {
    if (arguments[2].integer == 1) throw std::invalid_argument("mode: expected 0, got 1.");
    const auto* list = static_cast<const aclTensorList*>(arguments[1].handle);
    const auto* x = static_cast<const aclTensor*>(arguments[0].handle);
    return std::make_unique<Sum>(list != nullptr ? list->members.size() : 0, x->view_shape[0],
                                 arguments[2].integer == 2);
  }
};

companion::Interpreter& tested_interpreter() {
  static TestedInterpreter interpreter;
  return interpreter;
}

class CompanionFunction : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(aclrtSetDevice(0), 0);
    ASSERT_EQ(aclrtCreateStream(&stream), 0);
    x = tensor(1);
    out = tensor(0);
  }
  void TearDown() override {
    for (aclTensor* each : tensors) aclDestroyTensor(each);
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
  }

  aclTensor* tensor(float value, bool is_owned_by_list = false) {
    data.push_back(std::make_unique<std::vector<float>>(4, value));
    const int64_t shape[] = {4};
    aclTensor* made =
        aclCreateTensor(shape, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 1, data.back()->data());
    if (!is_owned_by_list) tensors.push_back(made);
    return made;
  }

  aclnnStatus plan(const aclTensor* first, const aclTensorList* list, int64_t mode, const aclTensor* last) {
    const Value arguments[] = {first, list, mode, last};
    uint64_t size = 1;
    const aclnnStatus status = plan_function(kFunction, arguments, tested_interpreter, &size, &executor);
    EXPECT_EQ(size, 0u);
    return status;
  }
  aclnnStatus run() { return run_function(kFunction, nullptr, 0, executor, stream); }

  aclrtStream stream = nullptr;
  aclOpExecutor* executor = nullptr;
  std::vector<std::unique_ptr<std::vector<float>>> data;  // that of `out` is the second
  std::vector<aclTensor*> tensors;
  aclTensor* x = nullptr;
  aclTensor* out = nullptr;
};

TEST_F(CompanionFunction, Computes) {
  ASSERT_EQ(plan(x, nullptr, 0, out), 0);
  ASSERT_EQ(run(), 0);
  ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
  EXPECT_THAT(*data[1], testing::Each(1));
}

TEST_F(CompanionFunction, TakesMoreTensorsThanAPlanHasArguments) {
  std::vector<aclTensor*> members;
  for (int i = 0; i < 20; ++i) members.push_back(tensor(2, true));
  const aclTensorList* list = aclCreateTensorList(members.data(), members.size());
  ASSERT_EQ(plan(x, list, 0, out), 0);
  ASSERT_EQ(run(), 0);
  ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
  EXPECT_THAT(*data[1], testing::Each(41));
  EXPECT_EQ(aclDestroyTensorList(list), 0);
}

TEST_F(CompanionFunction, RefusesWrongMembersOfListsOfAnyLength) {
  const int64_t four[] = {4}, one[] = {1};
  for (const size_t count : {2, 20}) {
    std::vector<aclTensor*> members;
    for (size_t i = 0; i < count; ++i) members.push_back(tensor(2, true));
    const aclTensorList* list = aclCreateTensorList(members.data(), count);
    const auto init = [&](int64_t offset) {
      return aclInitTensor(members[1], four, 1, ACL_FLOAT, one, offset, ACL_FORMAT_ND, four, 1, nullptr);
    };
    ASSERT_EQ(init(1), 0);
    EXPECT_EQ(plan(x, list, 0, out), 161002) << "beyond its storage";
    ASSERT_EQ(init(0), 0);
    ASSERT_EQ(aclSetRawTensorAddr(members[1], nullptr), 0);
    take_recent_error_message();
    const aclnnStatus planned = plan(x, list, 0, out);
    EXPECT_EQ(planned == 0 ? run() : planned, 161001);
    EXPECT_THAT(take_recent_error_message(),
                testing::HasSubstr("aclnnTested.listOptional: expected a tensor with data"));
    EXPECT_EQ(aclDestroyTensorList(list), 0);
  }
}

TEST_F(CompanionFunction, OutputsThatAreNotGivenCountAsOutputs) {
  const Value arguments[] = {x, none, int64_t{0}, none, out};
  uint64_t size = 0;
  ASSERT_EQ(plan_function(kOtherFunction, arguments, tested_interpreter, &size, &executor), 0);
  float other[4];
  EXPECT_EQ(aclSetOutputTensorAddr(executor, 0, out, other), 161002) << "was null in phase 1";
  EXPECT_EQ(aclSetOutputTensorAddr(executor, 1, out, other), 0);
  EXPECT_EQ(aclSetInputTensorAddr(executor, 1, out, other), 161002) << "there is one input";
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(executor), 561000) << "its data decides a shape";
  EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
}

TEST_F(CompanionFunction, TensorsThatAreChangedInPlaceCountAsInputsAndAsOutputs) {
  const Value arguments[] = {out, static_cast<const aclTensorList*>(nullptr), int64_t{0}, x};
  uint64_t size = 0;
  ASSERT_EQ(plan_function(kInPlaceFunction, arguments, tested_interpreter, &size, &executor), 0);
  EXPECT_EQ(aclSetInputTensorAddr(executor, 2, x, nullptr), 161002) << "there are two inputs";
  EXPECT_EQ(aclSetOutputTensorAddr(executor, 1, out, nullptr), 161002) << "there is one output";
  EXPECT_EQ(aclSetTensorAddr(executor, 3, out, nullptr), 161002) << "there are three tensors";
  std::vector<float> y(4, 5), other_x(4, 0);
  ASSERT_EQ(aclSetInputTensorAddr(executor, 0, out, y.data()), 0);
  ASSERT_EQ(aclSetInputTensorAddr(executor, 1, x, other_x.data()), 0);
  ASSERT_EQ(aclSetTensorAddr(executor, 2, out, y.data()), 0);
  ASSERT_EQ(run_function(kInPlaceFunction, nullptr, 0, executor, stream), 0);
  ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
  EXPECT_THAT(other_x, testing::Each(5));
}

TEST_F(CompanionFunction, RefusesListsWithScalarsThatAreNotAlive) {
  float one = 1;
  aclScalar* const members[] = {aclCreateScalar(&one, ACL_FLOAT), nullptr};
  const aclScalarList* list = aclCreateScalarList(members, 2);
  const Value arguments[] = {x, list, int64_t{0}, none, out};
  uint64_t size = 0;
  EXPECT_EQ(plan_function(kOtherFunction, arguments, tested_interpreter, &size, &executor), 161002);
  EXPECT_EQ(aclDestroyScalarList(list), 0);
}

TEST_F(CompanionFunction, RefusesNullDeadHandlesAndWhatTheInterpreterRefuses) {
  EXPECT_EQ(plan(nullptr, nullptr, 0, out), 161001);
  EXPECT_EQ(plan(x, nullptr, 0, nullptr), 161001);
  EXPECT_EQ(plan(x, reinterpret_cast<const aclTensorList*>(out), 0, out), 161002);
  take_recent_error_message();
  EXPECT_EQ(plan(x, nullptr, 1, out), 161002);
  EXPECT_THAT(take_recent_error_message(), testing::HasSubstr("aclnnTested.mode: expected 0, got 1."));
}

TEST_F(CompanionFunction, TensorsHaveAtMostEightAxes) {
  const int64_t shape[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  for (const auto& [axes, status] : {std::pair{8, 0}, std::pair{9, 161002}}) {
    ASSERT_EQ(aclInitTensor(x, shape, axes, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, axes, nullptr), 0);
    EXPECT_EQ(plan(x, nullptr, 0, out), status) << axes;
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), status == 0 ? 0 : 561103);
  }
}

TEST_F(CompanionFunction, ReportsAFailureAtTheNextSynchronisation) {
  ASSERT_EQ(plan(x, nullptr, 2, out), 0);
  ASSERT_EQ(run(), 0);
  take_recent_error_message();
  EXPECT_EQ(aclrtSynchronizeStream(stream), 507015);
  EXPECT_THAT(take_recent_error_message(), testing::HasSubstr("aclnnTested: too much."));
}

TEST_F(CompanionFunction, TakesAnotherAddressBetweenThePhases) {
  std::vector<float> other(4, 7);
  ASSERT_EQ(plan(x, nullptr, 0, out), 0);
  ASSERT_EQ(aclSetInputTensorAddr(executor, 0, x, other.data()), 0);
  ASSERT_EQ(run(), 0);
  ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
  EXPECT_THAT(*data[1], testing::Each(7));
}

}  // namespace
}  // namespace aclgrad::test
