// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the elementwise product's gradient expects of its problem, and its functions of the C++ and the C interface. Axes:
// R rows of C columns.
#include "tensor/contract.h"

#include "aclgrad/new_operator.h"
#include "aclnnop/aclnn_new_operator.h"
#include "executor/call.h"

ACLGRAD_DECLARE_KERNEL(new_operator, NewOperator)

namespace aclgrad {

void check(const NewOperator& p, Contract& contract) {
  contract.floats({DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  contract.input("grad_output", p.grad_output, "RC", 0);
  contract.input("other", p.other, "RC", 0);
  contract.output("grad_input", p.grad_input, "RC", 0);
}

}  // namespace aclgrad

ACLGRAD_DEFINE_FUNCTION_AND_CUDA(NewOperator, new_operator)

// ---- The C interface

using namespace aclgrad;

aclnnStatus aclnnNewOperatorGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* other,
                                             aclTensor* out, uint64_t* workspaceSize,
                                             aclOpExecutor** executor) {
  return plan_call("aclnnNewOperator", workspaceSize, executor, [&](Call& call) {
    auto& problem = call.problem<NewOperator>();
    call.input("gradOutput", gradOutput, problem.grad_output);
    call.input("other", other, problem.other);
    const Argument& grad_input = call.output("out", out, problem.grad_input);
    check(problem, call);
    if (grad_input.empty()) return call.plan_nothing();
    call.plan_problem(problem);
  });
}

ACLGRAD_DEFINE_PHASE2(aclnnNewOperator)
