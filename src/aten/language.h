// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The right side of a line of functions.txt, which table.py has parsed: read once, evaluated on tensors of any device.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/companion.h"

namespace aclgrad::aten {

using c10::IValue;

// The values of a function's parameters, then those of the names that its mathematics defines. A null one is None; an array
// is a list; a list of tensors is a vector of optional tensors.
using Values = std::vector<IValue>;

int64_t to_integer(const IValue& value);

class OperatorCall;

// A part of a function's mathematics.
struct Node {
  std::function<IValue(const Values&)> evaluate;
  std::string name = {};                          // where it is a name
  std::shared_ptr<const OperatorCall> call = {};  // where it is a call of one of PyTorch's operators
  std::string subject = name;                     // what a refusal of its value names: the first name in it
};

using Nodes = std::vector<Node>;

class OperatorCall {
 public:
  OperatorCall(const std::string& name, std::vector<std::pair<std::string, Node>> arguments);

  IValue evaluate(const Values& values) const;

  // Whether the operator has a variant that writes its results into tensors of the caller, and a call of that.
  bool has_out() const { return out_.has_value(); }
  void evaluate_into(const Values& values, const std::vector<at::Tensor>& outputs) const;

 private:
  torch::jit::Stack arguments(const Values& values) const;

  c10::OperatorHandle operator_;
  std::optional<c10::OperatorHandle> out_;
  std::vector<std::optional<Node>> arguments_;  // of the schema's; none where the default is taken
};

class Program {
 public:
  explicit Program(const companion::Function& function);

  // The results one after the other, the members of tuples by themselves.
  std::vector<IValue> evaluate(Values values) const;

  // Whether the whole is one call with a variant that writes into outputs, and that call.
  bool has_out() const { return results_.size() == 1 && results_[0].call && results_[0].call->has_out(); }
  void evaluate_into(Values values, const std::vector<at::Tensor>& outputs) const;

  // Whether the results are arguments as they are, so that nothing but a conversion is left to do.
  bool is_copy() const;

 private:
  void define(Values& values) const;

  Nodes definitions_;
  Nodes results_;
};

}  // namespace aclgrad::aten
