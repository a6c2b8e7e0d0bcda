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

template <size_t>
using Handle = nb::handle;

template <bool kIsLast>
auto argument() {
  if constexpr (kIsLast) {
    return nb::arg().none() = nb::none();
  } else {
    return nb::arg().none();
  }
}

// Defines a function whose arguments may all be None: what is wrong with one is the function's own to say. The last one
// is None where it is left out.
template <class Result, class... Parameters>
void define(nb::module_& module, const char* name, Result (*function)(Parameters...)) {
  [&]<size_t... i>(std::index_sequence<i...>) {
    module.def(
        name,
        [function, caller = std::string(name)](Handle<i>... arguments) {
          const Caller named(caller);
          return object_of(function(arguments...));
        },
        argument<i + 1 == sizeof...(Parameters)>()...);
    functions()[name] = [function](std::vector<Argument> arguments) {
      arguments.resize(sizeof...(Parameters));
      return results_of(function(arguments[i]...));
    };
  }
  (std::index_sequence_for<Parameters...>());
}

// Also that of aclgrad.reference, without the last arguments, `output_mask` of several results and `out`. It is told
// whether positions are in double precision.
template <class Result, class... Parameters>
void define_with_reference(nb::module_& module, const char* name, Result (*function)(Parameters...)) {
  define(module, name, function);
  [&]<size_t... i>(std::index_sequence<i...>) {
    module.def(("reference_" + std::string(name)).c_str(),
               [function, caller = "reference." + std::string(name)](Handle<i>... arguments, bool in_double) {
                 const Caller named(caller, in_double);
                 const Argument none;
                 if constexpr (std::is_same_v<Result, Array>) {
                   return object_of(function(arguments..., none));
                 } else {
                   return object_of(function(arguments..., none, none));
                 }
               },
               argument<i == sizeof...(Parameters)>()..., nb::arg());
  }
  (std::make_index_sequence<sizeof...(Parameters) - (std::is_same_v<Result, Array> ? 1 : 2)>());
}

}  // namespace aclgrad::python
