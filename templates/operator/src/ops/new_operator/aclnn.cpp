// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The C entry points of the elementwise product's gradient.
#include "aclnnop/aclnn_new_operator.h"

#include "executor/call.h"
#include "ops/new_operator/kernel.h"

namespace aclgrad::ops::new_operator {
namespace {

void plan(Call& call, const aclTensor* gradOutput, const aclTensor* other_tensor,
          const aclTensor* out_tensor) {
  const Argument& grad_output = call.input("gradOutput", gradOutput);
  const Argument& other = call.input("other", other_tensor);
  const Argument& out = call.output("out", out_tensor);

  call.check_type(grad_output, {DataType::float32, DataType::float16, DataType::bfloat16});
  call.check_same_type(grad_output, {&other, &out});
  call.check_rank(grad_output, {2});
  const int64_t rows = grad_output.size(0), columns = grad_output.size(1);
  call.check_shape(other, {rows, columns});
  call.check_shape(out, {rows, columns});

  if (out.empty()) return call.plan_nothing();

  auto& problem = call.problem<NewOperator>();
  call.operand(problem.grad_output, grad_output, 0);
  call.operand(problem.other, other, 0);
  call.operand(problem.grad_input, out, 0);
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
