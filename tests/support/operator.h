// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// An operator as the tests see it: its C functions, right calls with what they must give, and wrong ones with the status
// that they must get. Each operator describes itself in src/ops/<operator>/description.cpp; what must hold for every
// operator is a loop over operators(), in tests/operators/.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "aclnn/acl_meta.h"
#include "base/data_type.h"
#include "support/test_tensor.h"

namespace aclgrad::test {

// ---- A call

struct TensorValue {
  Shape shape;
  DataType type;
  std::vector<double> values{};  // none for an output
};

struct Null {};

// An argument of phase 1. Numbers, enumerators and bools of the C interface are int64_t here.
using Value = std::variant<Null, TensorValue, int64_t, std::vector<int64_t>, std::vector<bool>, std::string>;

// The same as phase 1 takes it: a handle or a string, or a number.
struct CArgument {
  void* handle = nullptr;
  int64_t number = 0;

  template <class T>
  T as() const {
    if constexpr (std::is_pointer_v<T>) {
      return static_cast<T>(handle);
    } else {
      return static_cast<T>(number);
    }
  }
};

using CArguments = std::vector<CArgument>;

// The tensors among a call's arguments.
class CallTensors {
 public:
  virtual ~CallTensors() = default;

  const TestTensor* tensor(size_t index) const { return tensors_.at(index).get(); }  // null: none
  std::vector<std::byte> bytes(const std::vector<size_t>& indices) const;
  bool holes_untouched() const;

 protected:
  std::vector<std::unique_ptr<TestTensor>> tensors_;
};

// The handles of a call's arguments.
class Arguments : public CallTensors {
 public:
  explicit Arguments(const std::vector<Value>& values, Layout layout = Layout::contiguous);
  ~Arguments() override;
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  const CArguments& c() const { return arguments_; }

 private:
  CArgument make(const Value& value, Layout layout);

  std::vector<std::function<void()>> releases_;
  std::vector<std::unique_ptr<std::string>> strings_;
  CArguments arguments_;
};

// ---- What an operator says of itself

enum class Role { input, optional_input, output, optional_output, attribute };

inline bool is_output(Role role) {
  return role == Role::output || role == Role::optional_output;
}

// The indices of those with such a role.
template <class Parameter>
std::vector<size_t> outputs_among(const std::vector<Parameter>& all) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < all.size(); ++i) {
    if (is_output(all[i].role)) indices.push_back(i);
  }
  return indices;
}

struct Parameter {
  const char* name;  // as in messages
  Role role;
  std::vector<size_t> free_axes{};  // of a tensor, those whose sizes nothing else fixes
};

// What an output must be: `error` of it and the expected values is at most `allowed`.
struct Expected {
  std::vector<double> values;
  double allowed;
  double (*error)(const std::vector<double>& actual, const std::vector<double>& expected) = relative_error;
  // Whether a position that is rounded to the other side of a pixel's centre or edge makes it another value.
  bool jumps = false;
  // The sum of the absolute values of each element's terms.
  std::vector<double> terms{};
};

// One entry for each output, in the order of the call; without a value, the output must be left as it was.
using Outputs = std::vector<std::optional<Expected>>;

// What the outputs of a call must be. Positions are computed in the arithmetic of its type, or in double precision.
using ReferenceCall = Outputs (*)(const std::vector<Value>& arguments, bool positions_in_double);

// The same with `terms`.
Outputs outputs_with_terms(ReferenceCall expected, const std::vector<Value>& arguments);

struct Case {
  std::string title;
  std::vector<Value> arguments;
  bool mixes_infinities = false;  // so that the order of terms says whether a result is infinite or NaN
};

// What references read of a call's arguments, in their order; null for a tensor that is left out.
std::vector<const TensorValue*> tensors_in(const std::vector<Value>& arguments);
std::vector<int64_t> numbers_in(const std::vector<Value>& arguments);
std::vector<int64_t> element_counts_in(const std::vector<Value>& arguments);  // of each tensor

// What is wrong with the values of an output, as a whole or of an element; empty where nothing is.
std::string mistake_in(std::vector<double> values, DataType type, Expected expected,
                       bool mixes_infinities = false);

struct Mistake {
  std::string title;
  std::vector<Value> arguments;
  aclnnStatus status;
  std::string parameter;  // which the message names
};

inline std::vector<Mistake> no_mistakes() {
  return {};
}
inline std::vector<Case> no_cases(DataType) {
  return {};
}

struct Operator {
  std::string_view name;              // of the phase 1 function, without GetWorkspaceSize
  std::string_view said_name = name;  // in messages
  std::vector<Parameter> parameters;
  std::vector<DataType> types;  // of its floating-point tensors
  aclnnStatus (*phase1)(const CArguments&, uint64_t* workspace_size, aclOpExecutor** executor);
  Phase2 phase2;
  ReferenceCall expected;
  std::vector<Case> (*cases)(DataType type);
  std::vector<Case> (*parallel_cases)(DataType type);  // large enough for several threads
  // With any contents of device memory, and with tensors without elements.
  std::vector<Case> (*hard_cases)(DataType type) = no_cases;
  std::vector<Mistake> (*mistakes)() = no_mistakes;  // beyond those that a tensor of any operator may have
  bool adds_in_any_order = false;                    // on a GPU, without ACL_OPT_DETERMINISTIC

  std::vector<Mistake> all_mistakes() const;          // tensors have no values
  aclnnStatus run(const Arguments& arguments) const;  // both phases
  std::vector<size_t> outputs() const { return outputs_among(parameters); }
};

std::string text(const Shape& shape);  // 2x3x4

// All operators, or all functions of the C++ interface (function.h), by name.
template <class Described>
std::vector<Described>& described() {
  static std::vector<Described> all;
  return all;
}

inline const std::vector<Operator>& operators() {
  return described<Operator>();
}
const Operator& operator_named(std::string_view name);

template <class Described>
void register_described(Described description) {
  std::vector<Described>& all = described<Described>();
  const auto by_name = [](const Described& a, const Described& b) { return a.name < b.name; };
  all.insert(std::upper_bound(all.begin(), all.end(), description, by_name), std::move(description));
}

// A static object of this type adds an operator.
struct Registration {
  explicit Registration(Operator description) { register_described(std::move(description)); }
};

// For tests with an operator or a function as their parameter.
template <class Described>
std::vector<const Described*> pointers_to(const std::vector<Described>& all) {
  std::vector<const Described*> pointers;
  for (const Described& of : all) pointers.push_back(&of);
  return pointers;
}
inline constexpr auto name_of_described = [](const auto& test) { return std::string(test.param->name); };

// For tests with one of its types, too.
template <class Described>
struct Typed {
  const Described* of;
  DataType type;

  friend void PrintTo(const Typed& typed, std::ostream* out) {
    *out << typed.of->name << '_' << aclgrad::name_of(typed.type);
  }
};
template <class Described>
std::vector<Typed<Described>> typed(const std::vector<Described>& all) {
  std::vector<Typed<Described>> result;
  for (const Described& of : all) {
    for (DataType type : of.types) result.push_back({&of, type});
  }
  return result;
}
inline constexpr auto name_of_typed = [](const auto& test) {
  return std::string(test.param.of->name) + "_" + std::string(aclgrad::name_of(test.param.type));
};

// By operator or function, for each of its types: the hash of the outputs' bits in all cases, on every processor.
// tests/determinism/ says what it must be.
using Hashes = std::map<std::string, std::vector<uint64_t>>;
Hashes& known_hashes();

// A static object of this type adds some.
struct HashRegistration {
  HashRegistration(std::initializer_list<Hashes::value_type> hashes) { known_hashes().insert(hashes); }
};

// aclnn…GetWorkspaceSize over a list of arguments. `Parameters` are their types as the operator's document gives them:
// programs may declare the functions themselves, so that one `const` more would be an error.
template <auto kFunction, class... Parameters>
aclnnStatus phase1_of(const CArguments& arguments, uint64_t* workspace_size, aclOpExecutor** executor) {
  static_assert(
      std::is_same_v<decltype(kFunction), aclnnStatus (*)(Parameters..., uint64_t*, aclOpExecutor**)>);
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return kFunction(arguments.at(i).template as<Parameters>()..., workspace_size, executor);
  }
  (std::index_sequence_for<Parameters...>());
}

}  // namespace aclgrad::test
