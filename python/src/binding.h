// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How an operator's functions come into the extension module: a static object in its src/ops/<operator>/python.cpp,
//
//   const Binding kBinding([](nb::module_& module) { define(module, "nsa_compress", forward); });
#pragma once

#include <nanobind/nanobind.h>

#include <utility>
#include <vector>

namespace aclgrad::python {

namespace nb = nanobind;

// Of functions with several.
using Results = nb::typed<nb::tuple, nb::any, nb::ellipsis>;

class Binding {
 public:
  using Add = void (*)(nb::module_& module);

  explicit Binding(Add add) { all().push_back(add); }

  static std::vector<Add>& all() {
    static std::vector<Add> all;
    return all;
  }
};

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
    module.def(name, function, argument<i + 1 == sizeof...(Parameters)>()...);
  }
  (std::index_sequence_for<Parameters...>());
}

}  // namespace aclgrad::python
