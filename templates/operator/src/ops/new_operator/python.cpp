// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Gradient of an elementwise product with respect to one of its factors, over arrays of Python.
#include "aclgrad/new_operator.h"
#include "binding.h"

ACLGRAD_DECLARE_KERNEL(new_operator, NewOperator)

namespace aclgrad::python {
namespace {

Array new_operator(const Argument& grad_output, const Argument& other, const Argument& out) {
  Call call(Call::Memory::cpu_or_gpu);
  NewOperator p;
  call.input("grad_output", grad_output, p.grad_output);
  call.input("other", other, p.other);
  call.output("out", out, p.grad_input);
  check(p, call);
  return only(call.run(p));
}

const Binding kBinding([](nb::module_& module) { define(module, "new_operator", new_operator); });

}  // namespace
}  // namespace aclgrad::python
