// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "aten/language.h"

#include <ATen/ScalarOps.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>
#include <unordered_map>

#include "aten/built_in.h"

namespace aclgrad::aten {
namespace {

// ---- Values, as the schema of an operator wants them ----

bool is_number(const IValue& value) {
  return value.isScalar() || value.isBool();
}

at::Tensor wrapped_number(const IValue& value) {
  at::Tensor tensor = c10::scalar_to_tensor(value.toScalar());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

IValue convert(const IValue& value, const c10::TypePtr& type);

// A list of the type's elements, from a list of anything that converts to them, or from one element.
template <class T, class Get>
IValue list_of(const IValue& value, const c10::TypePtr& element, Get get) {
  c10::List<T> list;
  if (!value.isList()) {
    list.push_back(get(convert(value, element)));
  } else {
    for (const IValue& member : value.toListRef()) list.push_back(get(convert(member, element)));
  }
  return list;
}

IValue convert_list(const IValue& value, const c10::TypePtr& element) {
  switch (element->kind()) {
    case c10::TypeKind::TensorType:
      if (value.isTensorList()) return value;
      return list_of<at::Tensor>(value, element, [](const IValue& v) { return v.toTensor(); });
    case c10::TypeKind::OptionalType:
      return list_of<std::optional<at::Tensor>>(value, element, [](const IValue& v) {
        return v.isNone() ? std::nullopt : std::optional<at::Tensor>(v.toTensor());
      });
    case c10::TypeKind::IntType:
      if (value.isIntList()) return value;
      return list_of<int64_t>(value, element, [](const IValue& v) { return v.toInt(); });
    case c10::TypeKind::BoolType:
      if (value.isBoolList()) return value;
      return list_of<bool>(value, element, [](const IValue& v) { return v.toBool(); });
    case c10::TypeKind::FloatType:
      return list_of<double>(value, element, [](const IValue& v) { return v.toDouble(); });
    case c10::TypeKind::NumberType:
      return list_of<at::Scalar>(value, element, [](const IValue& v) { return v.toScalar(); });
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
      return is_number(value) ? wrapped_number(value) : value;
    case c10::TypeKind::FloatType:
      return is_number(value) ? value.toScalar().toDouble() : value;
    case c10::TypeKind::IntType:
      return is_number(value) ? IValue(to_integer(value)) : value;
    case c10::TypeKind::BoolType:
      return is_number(value) ? IValue(to_integer(value) != 0) : value;
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

// ---- Nodes ----

class Literal final : public Node {
 public:
  explicit Literal(IValue value) : value_(std::move(value)) {}
  IValue evaluate(const Values&) const override { return value_; }

 private:
  const IValue value_;
};

class Name final : public Node {
 public:
  Name(std::string name, size_t index) : name_(std::move(name)), index_(index) {}
  IValue evaluate(const Values& values) const override { return values[index_]; }
  std::string name() const override { return name_; }

 private:
  const std::string name_;
  const size_t index_;
};

class ListNode final : public Node {
 public:
  explicit ListNode(std::vector<NodePointer> members) : members_(std::move(members)) {}

  IValue evaluate(const Values& values) const override {
    c10::impl::GenericList list(c10::AnyType::get());
    for (const NodePointer& member : members_) list.push_back(member->evaluate(values));
    return list;
  }

 private:
  const std::vector<NodePointer> members_;
};

class Member final : public Node {
 public:
  Member(NodePointer whole, int64_t index) : whole_(std::move(whole)), index_(static_cast<size_t>(index)) {}

  IValue evaluate(const Values& values) const override {
    const IValue whole = whole_->evaluate(values);
    return whole.isTuple() ? whole.toTupleRef().elements().at(index_) : whole.toListRef().at(index_);
  }

 private:
  const NodePointer whole_;
  const size_t index_;
};

class BuiltInCall final : public Node {
 public:
  BuiltInCall(const BuiltIn& function, Nodes arguments)
      : function_(function), arguments_(std::move(arguments)) {}

  IValue evaluate(const Values& values) const override { return function_(arguments_, values); }

 private:
  const BuiltIn& function_;
  const Nodes arguments_;
};

// ---- Parsing ----

class Parser {
 public:
  Parser(const companion::Function& function, std::string text) : text_(std::move(text)) {
    for (size_t i = 0; i < function.count; ++i) names_.emplace_back(function.parameters[i].name);
  }

  // name := expression; ...; expression; expression
  void parse(std::vector<NodePointer>& definitions, std::vector<NodePointer>& results) {
    do {
      const size_t start = at_;
      const std::string name = word();
      if (!name.empty() && take(':') && take('=')) {
        definitions.push_back(expression());
        names_.push_back(name);
      } else {
        at_ = start;
        results.push_back(expression());
      }
    } while (take(';'));
    skip();
    if (at_ != text_.size()) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw std::logic_error("functions.txt: cannot be read from here on: " + text_.substr(at_));
  }

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string word(const char* further = "_") {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                  std::strchr(further, text_[at_]) != nullptr))
      ++at_;
    return text_.substr(start, at_ - start);
  }

  NodePointer expression() {
    NodePointer node = simple();
    while (take('[')) {
      node = std::make_unique<Member>(std::move(node), std::stoll(word("-")));
      if (!take(']')) fail();
    }
    return node;
  }

  NodePointer simple() {
    if (take('[')) return std::make_unique<ListNode>(members(']'));
    if (take('\'')) {
      const std::string text = word("_- ");
      if (!take('\'')) fail();
      return std::make_unique<Literal>(text);
    }
    skip();
    const bool is_numeric = at_ < text_.size() && (std::isdigit(text_[at_]) || text_[at_] == '-');
    if (is_numeric) return number(word("-.e"));
    const std::string name = word("_.");
    if (name.empty()) fail();
    if (take('(')) return call(name);
    const auto found = std::find(names_.rbegin(), names_.rend(), name);
    if (found != names_.rend())
      return std::make_unique<Name>(name, static_cast<size_t>(names_.rend() - found) - 1);
    return constant(name);
  }

  static NodePointer number(const std::string& text) {
    if (text == "-inf") return std::make_unique<Literal>(-std::numeric_limits<double>::infinity());
    const bool is_real = text.find_first_of(".e") != std::string::npos;
    return std::make_unique<Literal>(is_real ? IValue(std::stod(text)) : IValue(int64_t{std::stoll(text)}));
  }

  NodePointer constant(const std::string& name) const {
    const auto type = [](at::ScalarType t) { return IValue(static_cast<int64_t>(t)); };
    static const std::map<std::string, IValue> constants{{"none", IValue()},
                                                         {"true", true},
                                                         {"false", false},
                                                         {"inf", std::numeric_limits<double>::infinity()},
                                                         {"float32", type(at::kFloat)},
                                                         {"float64", type(at::kDouble)},
                                                         {"int32", type(at::kInt)},
                                                         {"int64", type(at::kLong)},
                                                         {"bool", type(at::kBool)},
                                                         {"int8", type(at::kChar)},
                                                         {"uint8", type(at::kByte)}};
    const auto found = constants.find(name);
    if (found == constants.end()) fail();
    return std::make_unique<Literal>(found->second);
  }

  std::vector<NodePointer> members(char end) {
    std::vector<NodePointer> nodes;
    if (take(end)) return nodes;
    do nodes.push_back(expression());
    while (take(','));
    if (!take(end)) fail();
    return nodes;
  }

  NodePointer call(const std::string& name) {
    if (const auto found = built_in_functions().find(name); found != built_in_functions().end())
      return std::make_unique<BuiltInCall>(found->second, members(')'));
    std::vector<std::pair<std::string, NodePointer>> arguments;
    while (!take(')')) {
      const size_t start = at_;
      std::string keyword = word();
      if (keyword.empty() || !take('=')) {
        keyword.clear();
        at_ = start;
      }
      arguments.emplace_back(keyword, expression());
      take(',');
    }
    return std::make_unique<OperatorCall>(name, std::move(arguments));
  }

  const std::string text_;
  size_t at_ = 0;
  std::vector<std::string> names_;
};

}  // namespace

int64_t to_integer(const IValue& value) {
  return value.isBool() ? value.toBool() : value.toScalar().toLong();
}

OperatorCall::OperatorCall(const std::string& name,
                           std::vector<std::pair<std::string, NodePointer>> arguments)
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
    if (arguments_[i] == nullptr && !parameters[i].default_value())
      throw std::logic_error("functions.txt: aten::" + name + " lacks " + parameters[i].name());
  }
}

torch::jit::Stack OperatorCall::arguments(const Values& values) const {
  const auto& parameters = operator_.schema().arguments();
  torch::jit::Stack stack;
  stack.reserve(parameters.size() + 3);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool is_given = arguments_[i] != nullptr;
    stack.push_back(is_given ? convert(arguments_[i]->evaluate(values), parameters[i].type())
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
  Parser(function, function.mathematics).parse(definitions_, results_);
  const auto* call = results_.size() == 1 ? dynamic_cast<const OperatorCall*>(results_[0].get()) : nullptr;
  if (call != nullptr && call->has_out()) call_with_out_ = call;
  is_copy_ = std::all_of(results_.begin(), results_.end(), [](const NodePointer& node) {
    return dynamic_cast<const Name*>(node.get()) != nullptr;
  });
}

void Program::define(Values& values) const {
  for (const NodePointer& definition : definitions_) values.push_back(definition->evaluate(values));
}

std::vector<IValue> Program::evaluate(Values values) const {
  define(values);
  std::vector<IValue> results;
  for (const NodePointer& node : results_) {
    IValue value = node->evaluate(values);
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
  call_with_out_->evaluate_into(values, outputs);
}

}  // namespace aclgrad::aten
