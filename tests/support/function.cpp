// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "support/function.h"

namespace aclgrad::test {
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
