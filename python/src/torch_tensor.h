// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Tensors on the CPU as PyTorch's dispatcher hands them to kernels: through its stable C interface, which does not know
// the objects that Python has for them. Here they lie in capsules instead, which the functions of operators take as they
// take any array.
#pragma once

#include <nanobind/nanobind.h>

#include <initializer_list>
#include <string_view>

#include "array.h"

namespace aclgrad::python {

bool is_torch_tensor(nb::handle object);  // in a capsule

Array read_torch_tensor(nb::handle capsule, std::string_view types);

// Of the same type.
nb::object new_torch_tensor(nb::handle like, const Shape& shape);

// Adds `register_torch_kernel`.
void add_torch_kernels(nb::module_& module);

}  // namespace aclgrad::python
