// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The C entry points of the grouped bias-add gradient.
#include "aclnnop/aclnn_grouped_bias_add_grad.h"

#include "executor/call.h"
#include "ops/grouped_bias_add/kernel.h"

namespace aclgrad::ops::grouped_bias_add {
namespace {

void plan(Call& call, const aclTensor* gradY, const aclTensor* groupIdxOptional, int64_t groupIdxType,
          const aclTensor* out) {
  auto& problem = call.problem<GroupedBiasAddBackward>();
  const Argument& grad_output = call.input("gradY", gradY, problem.grad_output);
  call.optional_input("groupIdxOptional", groupIdxOptional, problem.group_idx);
  const Argument& grad_bias = call.output("out", out, problem.grad_bias);
  call.mode("groupIdxType", groupIdxType, problem.kind);
  check(problem, call);

  if (grad_bias.empty()) return call.plan_nothing();
  if (grad_output.empty()) return call.plan_zeros({&grad_bias});
  if (!problem.has_equal_groups()) call.use_partly(grad_output);  // without rows behind the last group
  call.plan_problem(problem);
}

}  // namespace
}  // namespace aclgrad::ops::grouped_bias_add

using namespace aclgrad;
using namespace aclgrad::ops::grouped_bias_add;

aclnnStatus aclnnGroupedBiasAddGradGetWorkspaceSize(const aclTensor* gradY, const aclTensor* groupIdxOptional,
                                                    aclTensor* out, uint64_t* workspaceSize,
                                                    aclOpExecutor** executor) {
  return plan_call("aclnnGroupedBiasAddGrad", workspaceSize, executor,
                   [&](Call& call) { plan(call, gradY, groupIdxOptional, 0, out); });
}

aclnnStatus aclnnGroupedBiasAddGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                    aclrtStream stream) {
  return run_call("aclnnGroupedBiasAddGrad", workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnGroupedBiasAddGradV2GetWorkspaceSize(const aclTensor* gradY,
                                                      const aclTensor* groupIdxOptional, int64_t groupIdxType,
                                                      aclTensor* out, uint64_t* workspaceSize,
                                                      aclOpExecutor** executor) {
  return plan_call("aclnnGroupedBiasAddGradV2", workspaceSize, executor,
                   [&](Call& call) { plan(call, gradY, groupIdxOptional, groupIdxType, out); });
}

aclnnStatus aclnnGroupedBiasAddGradV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                      aclrtStream stream) {
  return run_call("aclnnGroupedBiasAddGradV2", workspace, workspaceSize, executor, stream);
}
