// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Gradient of an elementwise product with respect to one of its factors, over arrays of Python.
#include "arguments.h"
#include "binding.h"
#include "operand.h"
#include "ops/new_operator/kernel.h"
#include "ops/new_operator/reference.h"

namespace aclgrad::python {
namespace {

void compute(const Place& place, const Array& grad_output, const Array& other, const Array& grad_input) {
  if (grad_output.empty()) return;
  if (grad_output.type() == DataType::float64) {
    return write_doubles(reference::new_operator(doubles_of(grad_output.view), doubles_of(other.view)),
                         grad_input.view);
  }
  const Operand grad_output_operand = Operand::read(place, grad_output.view, 0);
  const Operand other_operand = Operand::read(place, other.view, 0);
  const Operand out = Operand::write(place, grad_input.view, 0);
  NewOperator problem;
  problem.grad_output = grad_output_operand.tensor();
  problem.other = other_operand.tensor();
  problem.grad_input = out.tensor();
  place.run(problem);
  out.finish();
}

Array new_operator(const Argument& grad_output_object, const Argument& other_object, const Argument& out) {
  const Arguments arguments("new_operator", Arguments::Memory::cpu_or_gpu);
  const Array grad_output = arguments.floats("grad_output", grad_output_object);
  const Array other = arguments.floats("other", other_object);
  arguments.check_same_type(grad_output, {&other});
  arguments.check_type_on_gpu(grad_output);
  arguments.check_rank(grad_output, 2);
  arguments.check_shape(other, {grad_output.size(0), grad_output.size(1)});
  const Array grad_input =
      arguments.result("out", grad_output, {grad_output.size(0), grad_output.size(1)}, out);
  const Place place(arguments, grad_output, {&other, &grad_input});
  arguments.claim({&grad_input}, {&grad_output, &other});
  place.compute([&] { compute(place, grad_output, other, grad_input); });
  return grad_input;
}

const Binding kBinding([](nb::module_& module) { define(module, "new_operator", new_operator); });

}  // namespace
}  // namespace aclgrad::python
