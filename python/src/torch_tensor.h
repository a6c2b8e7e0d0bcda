// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Tensors on the CPU as PyTorch's dispatcher hands them to kernels: through its stable C interface, which does not know
// the objects that Python has for them.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "array.h"

namespace aclgrad::python {

Array read_torch_tensor(const TorchHandle& handle, std::string_view types);

TorchHandle new_torch_tensor(DataType type, const Shape& shape);

// The same with an object, in a third of the time that PyTorch takes to make one. Invalid where `like` is of a type that
// may make other ones, and before aclgrad.torch is imported.
nb::object new_torch_object(nb::handle like, DataType type, const Shape& shape);

// Adds what `aclgrad.torch.registration` calls.
void add_torch_kernels(nb::module_& module);

}  // namespace aclgrad::python
