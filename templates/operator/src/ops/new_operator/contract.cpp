// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the elementwise product's gradient expects of its problem, and its functions of the C++ interface.
#include "tensor/contract.h"

#include "ops/new_operator/kernel.h"

namespace aclgrad {

void check(const NewOperator& p, Contract& contract) {
  contract.floats({DataType::float32, DataType::float16, DataType::bfloat16});
  contract.input("grad_output", p.grad_output, "RC", 0);
  contract.input("other", p.other, "RC", 0);
  contract.output("grad_input", p.grad_input, "RC", 0);
}

}  // namespace aclgrad

ACLGRAD_DEFINE_FUNCTION_AND_CUDA(NewOperator, new_operator)
