// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "support/function.h"

#include <algorithm>

namespace aclgrad::test {
namespace {

std::vector<Function>& registered() {
  static std::vector<Function> functions;
  return functions;
}

}  // namespace

bool is_output(Role role) {
  return role == Role::output || role == Role::optional_output;
}

std::vector<size_t> Function::outputs() const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (is_output(fields[i].role)) indices.push_back(i);
  }
  return indices;
}

const std::vector<Function>& functions() {
  return registered();
}

std::vector<const Function*> function_pointers() {
  std::vector<const Function*> all;
  for (const Function& of : functions()) all.push_back(&of);
  return all;
}

std::vector<Typed> typed_functions() {
  std::vector<Typed> all;
  for (const Function& of : functions()) {
    for (DataType type : of.types) all.push_back({&of, type});
  }
  return all;
}

void PrintTo(const Typed& typed, std::ostream* out) {
  *out << typed.of->name << ' ' << aclgrad::name_of(typed.type);
}

void register_function(Function function) {
  std::vector<Function>& all = registered();
  const auto after = std::upper_bound(all.begin(), all.end(), function,
                                      [](const Function& a, const Function& b) { return a.name < b.name; });
  all.insert(after, std::move(function));
}

FunctionCall::FunctionCall(const Function& of, const std::vector<Value>& arguments, Layout layout)
    : problem_(of.make_problem()) {
  const size_t fields = of.fields.size();
  for (size_t i = 0; i < fields; ++i) {
    const auto* value = std::get_if<TensorValue>(&arguments.at(i));
    tensors_.push_back(nullptr);
    if (value == nullptr) continue;
    tensors_[i] = std::make_unique<TestTensor>(value->shape, value->type, layout, value->values,
                                               of.fields[i].dense_axes);
    problem_->set_tensor(i, tensors_[i]->tensor());
  }
  for (size_t i = 0; i < of.attributes.size(); ++i)
    problem_->set_attribute(i, std::get<int64_t>(arguments.at(fields + i)));
}

void FunctionCall::run() const {
  problem_->run(Workspace(problem_->workspace_size()));
}

}  // namespace aclgrad::test
