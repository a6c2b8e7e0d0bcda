// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What holds for every operator, on the cases and mistakes that each describes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/data_type.h"
#include "support/expect_reference.h"
#include "support/kernel_memory.h"
#include "support/message.h"

namespace aclgrad::test {
namespace {

bool is_on_cuda() {
  const char* devices = std::getenv("ACLGRAD_DEVICES");
  return devices != nullptr && std::string_view(devices) == "cuda";
}

// Which main() has set.
bool is_deterministic() {
  int64_t value = 0;
  return aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value) == ACL_SUCCESS && value != 0;
}

class TypedOperator : public testing::TestWithParam<Typed<Operator>> {
 protected:
  void SetUp() override {
    if (is_deterministic() && !of().adds_in_any_order) GTEST_SKIP() << "the option changes nothing";
  }

  // Whether a sum may be rounded in another way where tensors lie in another way.
  bool may_round() const { return is_on_cuda() && !is_deterministic() && of().adds_in_any_order; }
  const Operator& of() const { return *GetParam().of; }
  DataType type() const { return GetParam().type; }
};

INSTANTIATE_TEST_SUITE_P(All, TypedOperator, testing::ValuesIn(typed(operators())), name_of_typed);

TEST_P(TypedOperator, MatchesItsReferenceInAllLayouts) {
  const int checked =
      expect_reference(of(), of().cases(type()),
                       {{Layout::contiguous, 0}, {Layout::transposed, 0}, {Layout::gapped, 0}}, may_round());
  EXPECT_GT(checked, 0);
  RecordProperty("checked", checked);
}

bool has_empty_tensor(const Case& c) {
  const std::vector<int64_t> counts = element_counts_in(c.arguments);
  return std::count(counts.begin(), counts.end(), 0) > 0;
}

// Sanitizers see what leaves a tensor. Without elements there is nothing that needs a workspace.
TEST_P(TypedOperator, TakesAnyContents) {
  const std::vector<Case> cases = of().hard_cases(type());
  expect_reference(of(), cases, kHardWays, may_round());
  for (const Case& c : cases) {
    if (!has_empty_tensor(c)) continue;
    SCOPED_TRACE(c.title);
    const Arguments arguments(c.arguments);
    uint64_t size = 1;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(of().phase1(arguments.c(), &size, &executor), OK);
    EXPECT_EQ(size, 0u);
    EXPECT_EQ(of().phase2(nullptr, 0, executor, nullptr), OK);
    EXPECT_EQ(aclrtSynchronizeStream(nullptr), OK);
  }
}

// The CPU's promise; "AnyThreadCount" keeps it from GPUs.
TEST_P(TypedOperator, GivesTheSameBitsForAnyThreadCount) {
  for (const Case& c : of().parallel_cases(type())) {
    SCOPED_TRACE(c.title);
    std::vector<std::byte> first;
    for (int threads : {1, 2, 3, 4, 7, 64, 1}) {
      set_thread_count(threads);
      const Arguments arguments(c.arguments, threads % 2 == 0 ? Layout::gapped : Layout::contiguous);
      ASSERT_EQ(of().run(arguments), OK);
      if (first.empty()) first = arguments.bytes(of().outputs());
      EXPECT_EQ(arguments.bytes(of().outputs()), first) << threads << " threads";
    }
    set_thread_count(0);
  }
}

// A repeatable executor gives bitwise the same results each time, with a workspace that holds what was there before.
TEST_P(TypedOperator, GivesTheSameBitsWhenRepeated) {
  for (const Case& c : of().parallel_cases(type())) {
    SCOPED_TRACE(c.title);
    const Arguments arguments(c.arguments);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(of().phase1(arguments.c(), &size, &executor), OK);
    ASSERT_EQ(aclSetAclOpExecutorRepeatable(executor), OK);
    std::vector<std::byte> first;
    for (std::byte contents : {std::byte{0}, std::byte{0xFF}, std::byte{0x5A}}) {
      KernelBytes workspace(size, contents);
      ASSERT_EQ(of().phase2(workspace.data(), size, executor, nullptr), OK);
      ASSERT_EQ(aclrtSynchronizeStream(nullptr), OK);
      if (first.empty()) first = arguments.bytes(of().outputs());
      EXPECT_EQ(arguments.bytes(of().outputs()), first);
    }
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), OK);
  }
}

// ---- Statuses and messages

class AnyOperator : public testing::TestWithParam<const Operator*> {
 protected:
  void SetUp() override { aclGetRecentErrMsg(); }
  const Operator& of() const { return *GetParam(); }
  const std::vector<Value>& right() const { return right_; }

  aclnnStatus phase1(const std::vector<Value>& values) const {
    const Arguments arguments(values);
    return phase1(arguments.c());
  }
  aclnnStatus phase1(const CArguments& arguments) const {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    aclGetRecentErrMsg();
    const aclnnStatus status = of().phase1(arguments, &size, &executor);
    EXPECT_EQ(status == OK, executor != nullptr);
    if (executor != nullptr && aclSetAclOpExecutorRepeatable(executor) == OK)
      aclDestroyAclOpExecutor(executor);
    return status;
  }

  void expect_message(const std::string& parameter) const {
    const std::string name(of().said_name);
    expect_readable_message(parameter.empty() ? name : name + "." + parameter + ":");
  }

 private:
  const std::vector<Value> right_ = GetParam()->cases(GetParam()->types.front()).front().arguments;
};

INSTANTIATE_TEST_SUITE_P(All, AnyOperator, testing::ValuesIn(pointers_to(operators())), name_of_described);

TEST_P(AnyOperator, RefusesEveryMistake) {
  EXPECT_EQ(phase1(right()), OK);
  for (const Mistake& mistake : of().all_mistakes()) {
    SCOPED_TRACE(mistake.title);
    EXPECT_EQ(phase1(mistake.arguments), mistake.status);
    expect_message(mistake.parameter);
  }
}

// Null comes before everything else that may be wrong.
TEST_P(AnyOperator, RefusesNullTensors) {
  for (size_t i = 0; i < of().parameters.size(); ++i) {
    const Parameter& parameter = of().parameters[i];
    if (parameter.role == Role::attribute) continue;
    SCOPED_TRACE(parameter.name);
    std::vector<Value> values = right();
    values[i] = Null{};
    const aclnnStatus status = phase1(values);
    if (parameter.role == Role::optional_input) {
      EXPECT_NE(status, 161001);
      continue;
    }
    EXPECT_EQ(status, 161001);
    expect_message(parameter.name);
    for (Mistake& mistake : of().all_mistakes()) {
      mistake.arguments[i] = Null{};
      EXPECT_EQ(phase1(mistake.arguments), 161001) << mistake.title;
    }
  }
}

TEST_P(AnyOperator, RefusesNullResults) {
  const Arguments arguments(right());
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(of().phase1(arguments.c(), nullptr, &executor), 161001);
  expect_message("workspaceSize");
  EXPECT_EQ(of().phase1(arguments.c(), &size, nullptr), 161001);
  expect_message("executor");
  EXPECT_EQ(of().phase2(nullptr, 0, nullptr, nullptr), 561103);
  expect_message("");
}

TEST_P(AnyOperator, RefusesOtherTypesAndRanks) {
  for (size_t i = 0; i < of().parameters.size(); ++i) {
    const std::vector<Value> values = right();
    const auto* tensor = std::get_if<TensorValue>(&values[i]);
    if (tensor == nullptr) continue;
    const auto& [name, role, free_axes] = of().parameters[i];
    SCOPED_TRACE(name);
    const auto expect_refused = [&](const Shape& shape, aclDataType type, const std::string& named) {
      const Arguments arguments(values);
      aclTensor* changed = aclCreateTensor(shape.data(), shape.size(), type, nullptr, 0, ACL_FORMAT_ND,
                                           shape.data(), shape.size(), arguments.tensor(i)->data());
      CArguments c = arguments.c();
      c[i].handle = changed;
      EXPECT_EQ(phase1(c), 161002) << text(shape) << " of type " << type;
      expect_message(named);
      aclDestroyTensor(changed);
    };
    for (aclDataType type : {ACL_INT8, ACL_BOOL, ACL_COMPLEX64, ACL_DT_UNDEFINED})
      expect_refused(tensor->shape, type, name);
    for (DataType type : {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64}) {
      // Other floating-point tensors of the call have another one, and may be named.
      if (type != tensor->type)
        expect_refused(tensor->shape, static_cast<aclDataType>(type), role == Role::output ? name : "");
    }
    Shape longer = tensor->shape;
    longer.push_back(1);
    expect_refused(longer, static_cast<aclDataType>(tensor->type), name);
    // An optional tensor without axes is absent.
    expect_refused({}, static_cast<aclDataType>(tensor->type), role == Role::optional_input ? "" : name);
  }
}

TEST_P(AnyOperator, RefusesWhatIsNoHandle) {
  for (size_t i = 0; i < of().parameters.size(); ++i) {
    const std::vector<Value> values = right();
    const bool is_array = std::holds_alternative<std::vector<int64_t>>(values[i]) ||
                          std::holds_alternative<std::vector<bool>>(values[i]);
    if (of().parameters[i].role == Role::attribute && !is_array) continue;
    SCOPED_TRACE(of().parameters[i].name);
    const Arguments arguments(values);
    CArguments c = arguments.c();
    int64_t nothing[32] = {};
    c[i].handle = nothing;
    EXPECT_EQ(phase1(c), 161002);
    expect_message(of().parameters[i].name);
  }
}

}  // namespace
}  // namespace aclgrad::test
