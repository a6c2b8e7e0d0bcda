// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How an operator's functions come into the extension module: a static object in its src/ops/<operator>/python.cpp,
//
//   const Binding kBinding([](nb::module_& module) { define(module, "nsa_compress", forward); });
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "call.h"

namespace aclgrad::python {

// By their names, for PyTorch's dispatcher. Arguments that are left out are None.
using Function = std::function<Results(std::vector<Argument>)>;
inline std::map<std::string, Function>& functions() {
  static auto& functions = *new std::map<std::string, Function>;
  return functions;
}

class Binding {
 public:
  using Add = void (*)(nb::module_& module);

  explicit Binding(Add add) { all().push_back(add); }

  static std::vector<Add>& all() {
    static std::vector<Add> all;
    return all;
  }
};

inline Results results_of(Array result) {
  return {std::move(result)};
}
inline Results results_of(Results results) {
  return results;
}

inline nb::object object_of(const Array& result) {
  return result.object;
}
inline nb::typed<nb::tuple, nb::any, nb::ellipsis> object_of(const Results& results) {
  nb::list objects;
  for (const auto& result : results) objects.append(result ? result->object : nb::none());
  return nb::borrow<nb::typed<nb::tuple, nb::any, nb::ellipsis>>(nb::tuple(objects));
}

template <class Parameter>
using Bound = std::conditional_t<std::is_same_v<Parameter, const Argument&>, nb::handle, Parameter>;

template <bool kIsLast>
auto argument() {
  if constexpr (kIsLast) {
    return nb::arg().none() = nb::none();
  } else {
    return nb::arg().none();
  }
}

// The function of aclgrad or of aclgrad.reference that has it.
inline std::string caller_of(std::string_view name) {
  constexpr std::string_view kReference = "reference_";
  if (!name.starts_with(kReference)) return std::string(name);
  return "reference." + std::string(name.substr(kReference.size()));
}

// Defines a function whose arguments may all be None: what is wrong with one is the function's own to say. The last one
// is None where it is left out.
template <class Result, class... Parameters>
void define(nb::module_& module, const char* name, Result (*function)(Parameters...)) {
  [&]<size_t... i>(std::index_sequence<i...>) {
    module.def(
        name,
        [function, caller = caller_of(name)](Bound<Parameters>... arguments) {
          const Caller named(caller);
          return object_of(function(arguments...));
        },
        argument<i + 1 == sizeof...(Parameters)>()...);
    if constexpr ((std::is_same_v<Parameters, const Argument&> && ...)) {
      functions()[name] = [function](std::vector<Argument> arguments) {
        arguments.resize(sizeof...(Parameters));
        return results_of(function(arguments[i]...));
      };
    }
  }
  (std::index_sequence_for<Parameters...>());
}

}  // namespace aclgrad::python
