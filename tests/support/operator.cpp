// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "support/operator.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/reference_terms.h"

namespace aclgrad::test {
std::vector<std::byte> CallTensors::bytes(const std::vector<size_t>& indices) const {
  std::vector<std::byte> all;
  for (size_t i : indices) {
    if (tensors_.at(i) == nullptr) continue;
    const std::vector<std::byte> bytes = tensors_[i]->bytes();
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

bool CallTensors::holes_untouched() const {
  return std::all_of(tensors_.begin(), tensors_.end(),
                     [](const auto& tensor) { return tensor == nullptr || tensor->holes_untouched(); });
}

Arguments::Arguments(const std::vector<Value>& values, Layout layout) {
  tensors_.resize(values.size());
  for (const Value& value : values) arguments_.push_back(make(value, layout));
}

Arguments::~Arguments() {
  for (const auto& release : releases_) release();
}

CArgument Arguments::make(const Value& value, Layout layout) {
  const auto owned = [this](auto* handle, auto destroy) {
    releases_.push_back([handle, destroy] { destroy(handle); });
    return CArgument{.handle = handle};
  };
  if (const auto* tensor = std::get_if<TensorValue>(&value)) {
    tensors_[arguments_.size()] =
        std::make_unique<TestTensor>(tensor->shape, tensor->type, layout, tensor->values);
    return {.handle = tensors_[arguments_.size()]->handle()};
  }
  if (const auto* number = std::get_if<int64_t>(&value)) return {.number = *number};
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&value))
    return owned(aclCreateIntArray(integers->data(), integers->size()), aclDestroyIntArray);
  if (const auto* flags = std::get_if<std::vector<bool>>(&value)) {
    const auto array = std::make_unique<bool[]>(flags->size());
    std::copy(flags->begin(), flags->end(), array.get());
    return owned(aclCreateBoolArray(array.get(), flags->size()), aclDestroyBoolArray);
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    strings_.push_back(std::make_unique<std::string>(*text));
    return {.handle = strings_.back()->data()};
  }
  return {};
}

aclnnStatus Operator::run(const Arguments& arguments) const {
  return test::run([&](auto* size, auto* executor) { return phase1(arguments.c(), size, executor); }, phase2);
}

// Each axis of a tensor has the size that another one has, and that one is given here as well.
std::vector<Mistake> Operator::all_mistakes() const {
  std::vector<Mistake> all = mistakes();
  std::vector<Value> right = cases(types.front()).front().arguments;
  for (Value& value : right) {
    if (auto* tensor = std::get_if<TensorValue>(&value)) tensor->values.clear();
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [parameter, role, free_axes] = parameters[i];
    const auto* tensor = std::get_if<TensorValue>(&right[i]);
    for (size_t axis = 0; tensor != nullptr && axis < tensor->shape.size(); ++axis) {
      if (std::count(free_axes.begin(), free_axes.end(), axis) > 0) continue;
      Mistake longer{"axis " + std::to_string(axis) + " of " + parameter, right, 161002,
                     role == Role::output ? parameter : ""};
      ++std::get<TensorValue>(longer.arguments[i]).shape[axis];
      all.push_back(std::move(longer));
    }
  }
  return all;
}

std::vector<const TensorValue*> tensors_in(const std::vector<Value>& arguments) {
  std::vector<const TensorValue*> tensors;
  for (const Value& argument : arguments) {
    const auto* tensor = std::get_if<TensorValue>(&argument);
    if (tensor != nullptr || std::holds_alternative<Null>(argument)) tensors.push_back(tensor);
  }
  return tensors;
}

std::vector<int64_t> numbers_in(const std::vector<Value>& arguments) {
  std::vector<int64_t> numbers;
  for (const Value& argument : arguments) {
    if (const auto* number = std::get_if<int64_t>(&argument)) numbers.push_back(*number);
  }
  return numbers;
}

std::vector<int64_t> element_counts_in(const std::vector<Value>& arguments) {
  std::vector<int64_t> counts;
  for (const Value& argument : arguments) {
    if (const auto* tensor = std::get_if<TensorValue>(&argument))
      counts.push_back(element_count(tensor->shape));
  }
  return counts;
}

Outputs outputs_with_terms(ReferenceCall expected, const std::vector<Value>& arguments) {
  Outputs outputs = expected(arguments, false);
  reference::sums_absolute_values = true;
  Outputs terms = expected(arguments, false);
  reference::sums_absolute_values = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].has_value()) outputs[i]->terms = std::move(terms[i]->values);
  }
  return outputs;
}

std::string mistake_in(std::vector<double> values, DataType type, Expected expected, bool mixes_infinities) {
  const auto of_element = [&](size_t i) {
    return "element " + std::to_string(i) + ": expected " + std::to_string(expected.values[i]) + ", got " +
           std::to_string(values[i]);
  };
  if (values.size() != expected.values.size()) return "another number of elements";
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i]) && std::isfinite(expected.values[i])) continue;
    expected.values[i] = rounded(expected.values[i], type);
    if (std::isfinite(values[i]) != std::isfinite(expected.values[i])) return of_element(i);
    if (mixes_infinities) values[i] = expected.values[i] = 0;
  }
  const double error = expected.error(values, expected.values);
  if (!(error <= expected.allowed)) {
    return "error " + std::to_string(error) + ", allowed " + std::to_string(expected.allowed);
  }
  const std::vector<double> errors = errors_in_terms(values, expected.values, expected.terms, type);
  const auto worst = std::max_element(errors.begin(), errors.end());
  if (worst == errors.end() || *worst <= kAllowedInTerms) return "";
  return of_element(static_cast<size_t>(worst - errors.begin())) + ", the error is " +
         std::to_string(*worst) + " rounding errors of its terms";
}

std::string text(const Shape& shape) {
  std::string result;
  for (int64_t size : shape) result += (result.empty() ? "" : "x") + std::to_string(size);
  return result;
}

const Operator& operator_named(std::string_view name) {
  for (const Operator& of : operators()) {
    if (of.name == name) return of;
  }
  throw std::out_of_range("no operator is described as " + std::string(name));
}

Hashes& known_hashes() {
  static Hashes hashes;
  return hashes;
}

}  // namespace aclgrad::test
