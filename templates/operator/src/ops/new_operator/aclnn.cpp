// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The C entry points of the elementwise product's gradient.
#include "aclnnop/aclnn_new_operator.h"

#include "executor/call.h"
#include "ops/new_operator/kernel.h"

namespace aclgrad::ops::new_operator {
namespace {

void plan(Call& call, const aclTensor* gradOutput, const aclTensor* other, const aclTensor* out_tensor) {
  auto& problem = call.problem<NewOperator>();
  call.input("gradOutput", gradOutput, problem.grad_output);
  call.input("other", other, problem.other);
  const Argument& out = call.output("out", out_tensor, problem.grad_input);
  check(problem, call);
  if (out.empty()) return call.plan_nothing();
  call.plan_problem(problem);
}

}  // namespace
}  // namespace aclgrad::ops::new_operator

using namespace aclgrad;
using namespace aclgrad::ops::new_operator;

aclnnStatus aclnnNewOperatorGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* other,
                                             aclTensor* out, uint64_t* workspaceSize,
                                             aclOpExecutor** executor) {
  return plan_call("aclnnNewOperator", workspaceSize, executor,
                   [&](Call& call) { plan(call, gradOutput, other, out); });
}

aclnnStatus aclnnNewOperator(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                             aclrtStream stream) {
  return run_call("aclnnNewOperator", workspace, workspaceSize, executor, stream);
}
