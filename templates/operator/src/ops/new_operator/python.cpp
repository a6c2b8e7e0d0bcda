// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Gradient of an elementwise product with respect to one of its factors, over arrays of Python.
#include "binding.h"
#include "ops/new_operator/kernel.h"
#include "ops/new_operator/reference.h"

namespace aclgrad::python {
namespace {

Array new_operator(const Argument& grad_output, const Argument& other, const Argument& out) {
  Call call(Call::Memory::cpu_or_gpu);
  NewOperator p;
  call.input("grad_output", grad_output, p.grad_output);
  call.input("other", other, p.other);
  call.output("out", out, p.grad_input);
  check(p, call);
  return only(call.compute([&] {
    if (p.grad_output.type != DataType::float64) return call.launch(p);
    write_doubles(reference::new_operator(doubles_of(p.grad_output), doubles_of(p.other)), p.grad_input);
  }));
}

const Binding kBinding([](nb::module_& module) { define(module, "new_operator", new_operator); });

}  // namespace
}  // namespace aclgrad::python
