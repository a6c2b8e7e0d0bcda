// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The arguments of a call, in PyTorch's terms.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "executor/companion.h"
#include "tensor/tensor.h"

namespace aclgrad::aten {

using companion::Function;
using companion::Kind;
using companion::Parameter;
using companion::Role;

template <class T>
const T& object(const companion::Value& value) {
  return *static_cast<const T*>(value.handle);
}

// Calls visit(tensor) for each tensor of a call, in the order of the storages that phase 2 gets. Null ones, too.
template <class Visit>
void for_each_tensor(const Function& function, const companion::Value* arguments, Visit&& visit) {
  for (size_t i = 0; i < function.count; ++i) {
    const Parameter& parameter = function.parameters[i];
    if (parameter.kind == Kind::tensor) visit(parameter, static_cast<const aclTensor*>(arguments[i].handle));
    if (parameter.kind != Kind::tensor_list || arguments[i].handle == nullptr) continue;
    for (const aclTensor* member : object<aclTensorList>(arguments[i]).members) visit(parameter, member);
  }
}

// Throws std::invalid_argument where PyTorch computes nothing in a type.
at::ScalarType known_type(int64_t type, const char* parameter, bool with_int4 = false);

// None for tensors, lists of them, and what is null.
c10::IValue attribute(const Parameter& parameter, const companion::Value& value);

struct TensorSpec {
  const char* parameter = nullptr;  // null where the tensor was not given
  Role role = Role::input;
  at::ScalarType type = at::kFloat;
  std::vector<int64_t> sizes = {};
  std::vector<int64_t> strides = {};
  size_t bytes = 0;  // from the first element to behind the last
  bool is_int4 = false;

  bool is_given() const { return parameter != nullptr; }
  bool is_contiguous() const;
};

TensorSpec spec_of(const Parameter& parameter, const aclTensor& tensor);

// What a call is told apart by, as bytes: all but the addresses and offsets.
std::string key_of(const Function& function, const companion::Value* arguments);

}  // namespace aclgrad::aten
