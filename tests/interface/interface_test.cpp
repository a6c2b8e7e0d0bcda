// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What holds for every function of the C++ interface, on the cases and mistakes that each describes: its values in all
// types and layouts, and that it looks at its problem before it computes, and refuses what no kernel can run on with
// the name of the field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/data_type.h"
#include "support/expect_reference.h"

namespace aclgrad::test {
namespace {

class TypedFunction : public testing::TestWithParam<Typed<Function>> {
 protected:
  void TearDown() override { set_thread_count(0); }
  const Function& of() const { return *GetParam().of; }
  DataType type() const { return GetParam().type; }
};

INSTANTIATE_TEST_SUITE_P(, TypedFunction, testing::ValuesIn(typed(functions())), name_of_typed);

TEST_P(TypedFunction, MatchesItsReferenceInAllLayouts) {
  const int checked = expect_reference(
      of(), of().cases(type()), {{Layout::contiguous, 1}, {Layout::transposed, 4}, {Layout::gapped, 4}});
  EXPECT_GT(checked, 0);
  RecordProperty("checked", checked);
}

// Of what no operator computes: tests/operators/ has the rest.
TEST_P(TypedFunction, TakesAnyContents) {
  expect_reference(of(), of().hard_cases(type()), kHardWays);
}

// Subsets of the outputs that may be left out: each case has another one.
TEST_P(TypedFunction, OutputsThatAreNotWantedChangeNoOther) {
  std::vector<size_t> optional;
  for (size_t i = 0; i < of().fields.size(); ++i) {
    if (of().fields[i].role == Role::optional_output) optional.push_back(i);
  }
  const unsigned all = (1u << optional.size()) - 1;
  unsigned mask = 0;
  for (const Case& c : of().cases(type())) {
    if (all == 0) break;
    SCOPED_TRACE(c.title);
    mask = (mask + 1) % all;
    set_thread_count(1);
    const FunctionCall complete(of(), c.arguments);
    complete.run();
    std::vector<Value> arguments = c.arguments;
    for (size_t i = 0; i < optional.size(); ++i) {
      if ((mask >> i & 1) == 0) arguments[optional[i]] = Null{};
    }
    set_thread_count(4);
    const FunctionCall call(of(), arguments);
    call.run();
    for (size_t i : optional) {
      if (call.tensor(i) == nullptr) continue;
      EXPECT_EQ(call.tensor(i)->bytes(), complete.tensor(i)->bytes())
          << of().fields[i].name << " of " << mask;
    }
  }
}

// ---- Refusals

class AnyFunction : public testing::TestWithParam<const Function*> {
 protected:
  const Function& of() const { return *GetParam(); }

  void expect_refused(const std::string& field, const std::function<void()>& call) const {
    SCOPED_TRACE(field.empty() ? "any field" : field);
    try {
      call();
      ADD_FAILURE() << "is taken";
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), testing::StartsWith(of().name + "." + field));
      EXPECT_THAT(error.what(), testing::HasSubstr(": expected "));
      EXPECT_THAT(error.what(), testing::HasSubstr(", got "));
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }

  // By whatever looks at a problem. What lies in memory is not seen where only the workspace's size is asked for.
  void expect_refused(const std::string& field, const AnyProblem& wrong, bool is_in_memory = false) const {
    const size_t bytes = size_t{1} << 20;
    const Workspace workspace(bytes);
    expect_refused(field, [&] { wrong.run(workspace); });
    if (of().runs_on_gpu) expect_refused(field, [&] { wrong.run(workspace, CudaLaunch{}); });
    if (is_in_memory) {
      EXPECT_NO_THROW(wrong.workspace_size());
    } else {
      expect_refused(field, [&] { wrong.workspace_size(); });
      if (of().runs_on_gpu) expect_refused(field, [&] { wrong.workspace_size(CudaLaunch{}); });
    }
  }

  // The same with one tensor changed.
  void expect_refused(const std::string& field, const AnyProblem& right, size_t index,
                      const std::function<void(Tensor&)>& change, bool is_in_memory = false) const {
    const auto wrong = right.copy();
    Tensor tensor = wrong->tensor(index);
    change(tensor);
    wrong->set_tensor(index, tensor);
    expect_refused(field, *wrong, is_in_memory);
  }

  // For each choice of optional tensors a case in which every axis has more than one element.
  std::vector<Case> right_cases() const {
    std::vector<Case> right;
    std::set<std::vector<bool>> choices;
    for (const Case& c : of().cases(of().types.front())) {
      std::vector<bool> given;
      bool has_long_axes = true;
      for (size_t i = 0; i < of().fields.size(); ++i) {
        const auto* tensor = std::get_if<TensorValue>(&c.arguments[i]);
        given.push_back(tensor != nullptr);
        for (int64_t size : tensor == nullptr ? Shape{} : tensor->shape)
          has_long_axes = has_long_axes && size > 1;
      }
      if (has_long_axes && choices.insert(given).second) right.push_back(c);
    }
    EXPECT_FALSE(right.empty());
    return right;
  }

  // Calls body(call, field) for each tensor of these cases.
  template <class Body>
  void for_each_tensor(Body&& body) const {
    for (const Case& c : right_cases()) {
      SCOPED_TRACE(c.title);
      const FunctionCall call(of(), c.arguments);
      for (size_t i = 0; i < of().fields.size(); ++i) {
        if (call.tensor(i) != nullptr) body(call, i);
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(, AnyFunction, testing::ValuesIn(pointers_to(functions())), name_of_described);

TEST_P(AnyFunction, RefusesEveryMistake) {
  for (const Case& c : right_cases()) {
    SCOPED_TRACE(c.title);
    const FunctionCall call(of(), c.arguments);
    for (const ProblemMistake& mistake : of().mistakes) {
      const auto wrong = call.problem().copy();
      mistake.make(*wrong);
      expect_refused(mistake.field, *wrong, mistake.is_in_memory);
    }
  }
}

TEST_P(AnyFunction, RefusesTypesAndShapes) {
  for_each_tensor([&](const FunctionCall& call, size_t i) {
    const auto& [name, role, dense_axes, free_axes] = of().fields[i];
    const auto refused = [&, i](const std::string& field, auto change) {
      expect_refused(field, call.problem(), i, change);
    };
    refused(name + ": expected data type", [](Tensor& t) { t.type = static_cast<DataType>(-77); });
    if (i > 0) {
      const bool is_index = call.tensor(i)->type() == DataType::int64;
      refused(name + ": expected data type",
              [&](Tensor& t) { t.type = is_index ? DataType::float32 : DataType::int32; });
    }
    if (role == Role::input || role == Role::output)
      refused(name + ": expected a tensor, got none", [](Tensor& t) { t = {}; });
    for (size_t axis = 0; axis < call.tensor(i)->shape().size(); ++axis) {
      const auto at = static_cast<int>(axis);
      refused(name + ": expected a shape without negative sizes", [&](Tensor& t) { t.shape[at] = -1; });
      if (std::count(free_axes.begin(), free_axes.end(), axis) > 0) continue;
      const auto longer = call.problem().copy();
      Tensor tensor = longer->tensor(i);
      ++tensor.shape[at];
      longer->set_tensor(i, tensor);
      expect_refused("", [&] { longer->run(Workspace(size_t{1} << 20)); });
    }
  });
}

TEST_P(AnyFunction, RefusesStrides) {
  for_each_tensor([&](const FunctionCall& call, size_t i) {
    const auto& [name, role, dense_axes, free_axes] = of().fields[i];
    expect_refused(name + ".strides", call.problem(), i, [](Tensor& t) { t.strides = {}; });
    const size_t rank = call.tensor(i)->shape().size();
    for (size_t axis = 0; axis < rank; ++axis) {
      const std::string field = name + ".strides[" + std::to_string(axis) + "]";
      const auto set = [axis](int64_t stride) {
        return [=](Tensor& t) { t.strides[static_cast<int>(axis)] = stride; };
      };
      std::vector<int64_t> wrong = {-1, std::numeric_limits<int64_t>::max(), int64_t{1} << 60};
      if (axis + dense_axes >= rank) wrong.push_back(call.tensor(i)->strides()[axis] + 1);
      for (const int64_t stride : wrong) expect_refused(field, call.problem(), i, set(stride));
      if (is_output(role)) expect_refused(name + ".strides", call.problem(), i, set(0));
    }
  });
}

TEST_P(AnyFunction, RefusesAddresses) {
  for_each_tensor([&](const FunctionCall& call, size_t i) {
    const std::string field = of().fields[i].name + ".data";
    const auto unaligned = [](Tensor& t) { t.data = static_cast<std::byte*>(t.data) + 1; };
    expect_refused(
        field, call.problem(), i, [](Tensor& t) { t.data = nullptr; }, true);
    expect_refused(field, call.problem(), i, unaligned, true);
  });
}

TEST_P(AnyFunction, RefusesWorkspaces) {
  for (const Case& c : of().cases(of().types.front())) {
    const FunctionCall call(of(), c.arguments);
    const size_t bytes = call.problem().workspace_size();
    if (bytes == 0) continue;
    const Workspace memory(bytes + 64);
    const WorkspaceView right = memory;
    const auto refused = [&](const std::string& field, void* data, size_t size) {
      expect_refused(field, [&] { call.problem().run({data, size}); });
    };
    refused("workspace.bytes", right.data, bytes - 1);
    refused("workspace.data", nullptr, bytes);
    refused("workspace.data", static_cast<std::byte*>(right.data) + 8, bytes);
  }
}

// Tensors without elements need no addresses.
TEST_P(AnyFunction, TakesEmptyTensorsWithoutAddresses) {
  for (const Case& c : of().cases(of().types.front())) {
    const FunctionCall call(of(), c.arguments);
    bool is_empty = true;
    for (size_t i = 0; i < of().fields.size(); ++i) {
      if (call.tensor(i) == nullptr || element_count(call.tensor(i)->shape()) > 0) {
        is_empty = is_empty && call.tensor(i) == nullptr;
        continue;
      }
      Tensor tensor = call.problem().tensor(i);
      tensor.data = nullptr;
      call.problem().set_tensor(i, tensor);
    }
    EXPECT_TRUE(!is_empty || call.problem().workspace_size() == 0) << c.title;
    EXPECT_NO_THROW(call.run()) << c.title;
  }
}

}  // namespace
}  // namespace aclgrad::test
