// The functions of the extension module, a file for each operator.
#pragma once

#include <nanobind/nanobind.h>

#include <type_traits>

namespace aclgrad::python {

// Defines a function whose arguments may all be None: what is wrong with one is the function's own to say.
template <class Result, class... Parameters>
void define(nanobind::module_& module, const char* name, Result (*function)(Parameters...)) {
  const auto argument = [](auto*) { return nanobind::arg().none(); };
  module.def(name, function, argument(static_cast<std::remove_reference_t<Parameters>*>(nullptr))...);
}

void add_multi_scale_deformable_attention(nanobind::module_& module);
void add_nsa_compress(nanobind::module_& module);
void add_grid_sampler_2d(nanobind::module_& module);
void add_grouped_bias_add(nanobind::module_& module);

}  // namespace aclgrad::python
