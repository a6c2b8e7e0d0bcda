// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The right side of a line of functions.txt: parsed once, evaluated on tensors of any device.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/companion.h"

namespace aclgrad::aten {

using c10::IValue;

// The values of a function's parameters, then those of the names that its mathematics defines. A null one is None; an array
// is a list; a list of tensors is a vector of optional tensors.
using Values = std::vector<IValue>;

int64_t to_integer(const IValue& value);

// A part of a function's mathematics.
class Node {
 public:
  virtual ~Node() = default;
  virtual IValue evaluate(const Values& values) const = 0;
  virtual std::string name() const { return {}; }  // where it is a name
};

using NodePointer = std::unique_ptr<const Node>;
using Nodes = std::vector<NodePointer>;

// A call of one of PyTorch's operators.
class OperatorCall final : public Node {
 public:
  OperatorCall(const std::string& name, std::vector<std::pair<std::string, NodePointer>> arguments);

  IValue evaluate(const Values& values) const override;

  // Whether the operator has a variant that writes its results into tensors of the caller, and a call of that.
  bool has_out() const { return out_.has_value(); }
  void evaluate_into(const Values& values, const std::vector<at::Tensor>& outputs) const;

 private:
  torch::jit::Stack arguments(const Values& values) const;

  c10::OperatorHandle operator_;
  std::optional<c10::OperatorHandle> out_;
  std::vector<NodePointer> arguments_;  // one for each of the schema's; null where its default is taken
};

class Program {
 public:
  explicit Program(const companion::Function& function);

  // The results one after the other, the members of tuples by themselves.
  std::vector<IValue> evaluate(Values values) const;

  // Where the whole is one call with a variant that writes into outputs: that call. Else null.
  const OperatorCall* call_with_out() const { return call_with_out_; }

  // Writes the results of that call into the outputs.
  void evaluate_into(Values values, const std::vector<at::Tensor>& outputs) const;

  // Whether the results are arguments as they are, so that nothing but a conversion is left to do.
  bool is_copy() const { return is_copy_; }

 private:
  void define(Values& values) const;

  std::vector<NodePointer> definitions_;
  std::vector<NodePointer> results_;
  const OperatorCall* call_with_out_ = nullptr;
  bool is_copy_ = false;
};

}  // namespace aclgrad::aten
