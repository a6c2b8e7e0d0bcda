// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "aten/language.h"

#include <ATen/ScalarOps.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>
#include <unordered_map>

#include "aten/built_in.h"

namespace aclgrad::aten {
namespace {

// ---- Values, as the schema of an operator wants them ----

at::Tensor wrapped_number(const IValue& value) {
  at::Tensor tensor = c10::scalar_to_tensor(value.toScalar());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

IValue convert(const IValue& value, const c10::TypePtr& type);

// A list of the type's elements, from a list of anything that converts to them, or from one element.
template <class T>
IValue list_of(const IValue& value, const c10::TypePtr& element) {
  c10::List<T> list;
  const auto add = [&](const IValue& member) { list.push_back(convert(member, element).to<T>()); };
  if (!value.isList()) {
    add(value);
  } else {
    for (const IValue& member : value.toListRef()) add(member);
  }
  return list;
}

IValue convert_list(const IValue& value, const c10::TypePtr& element) {
  switch (element->kind()) {
    case c10::TypeKind::TensorType:
      return value.isTensorList() ? value : list_of<at::Tensor>(value, element);
    case c10::TypeKind::OptionalType:
      return list_of<std::optional<at::Tensor>>(value, element);
    case c10::TypeKind::IntType:
      return value.isIntList() ? value : list_of<int64_t>(value, element);
    case c10::TypeKind::BoolType:
      return value.isBoolList() ? value : list_of<bool>(value, element);
    case c10::TypeKind::FloatType:
      return list_of<double>(value, element);
    case c10::TypeKind::NumberType:
      return list_of<at::Scalar>(value, element);
    default:
      throw std::logic_error("no list of " + element->str());
  }
}

IValue convert(const IValue& value, const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::OptionalType:
      return value.isNone() ? value : convert(value, type->expectRef<c10::OptionalType>().getElementType());
    case c10::TypeKind::ListType:
      return convert_list(value, type->expectRef<c10::ListType>().getElementType());
    case c10::TypeKind::TensorType:
      if (value.isNone()) return at::Tensor();
      return value.isScalar() ? wrapped_number(value) : value;
    case c10::TypeKind::FloatType:
      return value.isScalar() ? value.toScalar().toDouble() : value;
    case c10::TypeKind::IntType:
      return value.isScalar() ? IValue(to_integer(value)) : value;
    case c10::TypeKind::BoolType:
      return value.isScalar() ? IValue(to_integer(value) != 0) : value;
    case c10::TypeKind::NumberType:
      return value.isTensor() ? IValue(value.toTensor().item()) : value;
    default:
      return value;
  }
}

// ---- Operators and their variants that write into outputs ----

c10::OperatorHandle find_operator(const std::string& name) {
  const size_t dot = name.find('.');
  const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
  const auto found = c10::Dispatcher::singleton().findSchema({"aten::" + name.substr(0, dot), overload});
  if (!found) throw std::runtime_error("This version of PyTorch has no operator aten::" + name + ".");
  return *found;
}

std::optional<c10::OperatorHandle> find_out_variant(const c10::OperatorHandle& functional) {
  static const auto* const overloads = [] {
    auto* all = new std::unordered_map<std::string, std::vector<std::string>>;
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames())
      (*all)[name.name].push_back(name.overload_name);
    return all;
  }();
  const c10::FunctionSchema& wanted = functional.schema();
  const auto& inputs = wanted.arguments();
  // An operator that is made of others would change its output's size meanwhile.
  const bool has_kernel = functional.hasKernelForDispatchKey(c10::DispatchKey::CPU);
  if (!has_kernel || wanted.is_mutable() || wanted.returns().empty()) return std::nullopt;
  for (const std::string& overload : overloads->at(wanted.name())) {
    const auto found = c10::Dispatcher::singleton().findSchema({wanted.name(), overload});
    if (!found || found->schema().arguments().size() != inputs.size() + wanted.returns().size()) continue;
    const auto& all = found->schema().arguments();
    const auto same = [](const c10::Argument& a, const c10::Argument& b) {
      return a.name() == b.name() && *a.type() == *b.type();
    };
    const bool outputs_last = std::all_of(
        all.begin() + static_cast<ptrdiff_t>(inputs.size()), all.end(),
        [](const c10::Argument& a) { return a.is_out() && a.type()->kind() == c10::TypeKind::TensorType; });
    if (outputs_last && std::equal(inputs.begin(), inputs.end(), all.begin(), same)) return found;
  }
  return std::nullopt;
}

// ---- Reading ----

std::map<std::string, IValue> constants() {
  std::map<std::string, IValue> constants{{"none", IValue()}, {"true", true}, {"false", false}};
  constexpr std::pair<const char*, at::ScalarType> kTypes[] = {
      {"float32", at::kFloat}, {"float64", at::kDouble}, {"int8", at::kChar}, {"uint8", at::kByte},
      {"int32", at::kInt},     {"int64", at::kLong},     {"bool", at::kBool}};
  for (const auto& [name, type] : kTypes) constants[name] = static_cast<int64_t>(type);
  return constants;
}

// Reads what polish() in table.py writes.
class Reader {
 public:
  explicit Reader(const companion::Function& function) : words_(function.mathematics) {
    for (size_t i = 0; i < function.count; ++i) names_.emplace_back(function.parameters[i].name);
    subjects_ = names_;
  }

  void read(Nodes& definitions, Nodes& results) {
    for (std::string word; words_ >> word;) {
      if (word.substr(0, 2) != ":=") {
        results.push_back(node(word));
      } else {
        definitions.push_back(node());
        names_.push_back(word.substr(2));
        subjects_.push_back(definitions.back().subject);
      }
    }
  }

 private:
  Node node() {
    std::string word;
    words_ >> word;
    return node(word);
  }

  Node node(const std::string& word) {
    const std::string rest = word.substr(1);
    switch (word.at(0)) {
      case '$': {
        const auto index =
            static_cast<size_t>(names_.rend() - std::find(names_.rbegin(), names_.rend(), rest)) - 1;
        return {[index](const Values& values) { return values[index]; }, rest, {}, subjects_[index]};
      }
      case '.':
        return {[whole = node(), index = std::stoul(rest)](const Values& values) {
          const IValue value = whole.evaluate(values);
          return value.isTuple() ? value.toTupleRef().elements().at(index) : value.toListRef().at(index);
        }};
      case '[':
        return {[members = nodes(rest)](const Values& values) -> IValue {
          c10::impl::GenericList list(c10::AnyType::get());
          for (const Node& member : members) list.push_back(member.evaluate(values));
          return list;
        }};
      case '@':
        return call(rest.substr(0, rest.find('/')), rest.substr(rest.find('/') + 1));
      case '\'':
        return literal(rest);
      default:
        break;
    }
    static const std::map<std::string, IValue> known = constants();
    if (const auto found = known.find(word); found != known.end()) return literal(found->second);
    const bool is_real = word.find_first_of(".en") != std::string::npos;  // inf, too
    return literal(is_real ? IValue(std::stod(word)) : IValue(int64_t{std::stoll(word)}));
  }

  static Node literal(IValue value) {
    return {[value = std::move(value)](const Values&) { return value; }};
  }

  Nodes nodes(const std::string& count) {
    Nodes nodes(std::stoul(count));
    for (Node& each : nodes) each = node();
    return nodes;
  }

  Node call(const std::string& name, const std::string& count) {
    if (const auto found = built_in_functions().find(name); found != built_in_functions().end()) {
      Nodes arguments = nodes(count);
      std::string subject = arguments.at(0).subject;
      return {[&function = found->second, arguments = std::move(arguments)](const Values& values) {
                return function(arguments, values);
              },
              {},
              {},
              std::move(subject)};
    }
    std::vector<std::pair<std::string, Node>> arguments(std::stoul(count));
    for (auto& [keyword, argument] : arguments) {
      std::string word;
      words_ >> word;
      if (word.back() == '=') {
        keyword = word.substr(0, word.size() - 1);
        words_ >> word;
      }
      argument = node(word);
    }
    std::string subject = arguments.empty() ? "" : arguments[0].second.subject;
    const auto call = std::make_shared<const OperatorCall>(name, std::move(arguments));
    return {[call](const Values& values) { return call->evaluate(values); }, {}, call, std::move(subject)};
  }

  std::istringstream words_;
  std::vector<std::string> names_;
  std::vector<std::string> subjects_;  // of their values, for refusals
};

}  // namespace

int64_t to_integer(const IValue& value) {
  return value.isBool() ? value.toBool() : value.toScalar().toLong();
}

OperatorCall::OperatorCall(const std::string& name, std::vector<std::pair<std::string, Node>> arguments)
    : operator_(find_operator(name)), out_(find_out_variant(operator_)) {
  const auto& parameters = operator_.schema().arguments();
  arguments_.resize(parameters.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto& [keyword, node] = arguments[i];
    const auto index = keyword.empty() ? std::optional(static_cast<int>(i))
                                       : operator_.schema().argumentIndexWithName(keyword);
    if (!index || static_cast<size_t>(*index) >= parameters.size())
      throw std::logic_error("functions.txt: aten::" + name + " has no parameter " + keyword);
    arguments_[static_cast<size_t>(*index)] = std::move(node);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!arguments_[i] && !parameters[i].default_value())
      throw std::logic_error("functions.txt: aten::" + name + " lacks " + parameters[i].name());
  }
}

torch::jit::Stack OperatorCall::arguments(const Values& values) const {
  const auto& parameters = operator_.schema().arguments();
  torch::jit::Stack stack;
  stack.reserve(parameters.size() + 3);
  for (size_t i = 0; i < parameters.size(); ++i) {
    stack.push_back(arguments_[i] ? convert(arguments_[i]->evaluate(values), parameters[i].type())
                                  : *parameters[i].default_value());
  }
  return stack;
}

IValue OperatorCall::evaluate(const Values& values) const {
  torch::jit::Stack stack = arguments(values);
  operator_.callBoxed(stack);
  if (stack.size() == 1) return std::move(stack[0]);
  return c10::ivalue::Tuple::create(std::move(stack));
}

void OperatorCall::evaluate_into(const Values& values, const std::vector<at::Tensor>& outputs) const {
  torch::jit::Stack stack = arguments(values);
  for (const at::Tensor& output : outputs) stack.emplace_back(output);
  out_->callBoxed(stack);
}

Program::Program(const companion::Function& function) {
  Reader(function).read(definitions_, results_);
}

bool Program::is_copy() const {
  return std::all_of(results_.begin(), results_.end(), [](const Node& node) { return !node.name.empty(); });
}

void Program::define(Values& values) const {
  for (const Node& definition : definitions_) values.push_back(definition.evaluate(values));
}

std::vector<IValue> Program::evaluate(Values values) const {
  define(values);
  std::vector<IValue> results;
  for (const Node& node : results_) {
    IValue value = node.evaluate(values);
    if (!value.isTuple()) {
      results.push_back(std::move(value));
      continue;
    }
    for (const IValue& member : value.toTupleRef().elements()) results.push_back(member);
  }
  return results;
}

void Program::evaluate_into(Values values, const std::vector<at::Tensor>& outputs) const {
  define(values);
  results_[0].call->evaluate_into(values, outputs);
}

}  // namespace aclgrad::aten
