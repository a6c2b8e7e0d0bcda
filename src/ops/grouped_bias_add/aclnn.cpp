// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The C entry points of the grouped bias-add gradient.
#include "aclnnop/aclnn_grouped_bias_add_grad.h"

#include "executor/call.h"
#include "ops/grouped_bias_add/kernel.h"

namespace aclgrad::ops::grouped_bias_add {
namespace {

constexpr int64_t kMaxGroups = 2048;  // of a groupIdx

void plan(Call& call, const aclTensor* gradY, const aclTensor* groupIdxOptional, int64_t groupIdxType,
          const aclTensor* out_tensor) {
  const Argument& grad_y = call.input("gradY", gradY);
  const Argument& group_idx = call.optional_input("groupIdxOptional", groupIdxOptional);
  const Argument& out = call.output("out", out_tensor);
  const bool grouped = group_idx.given;

  call.check_type(grad_y, {DataType::float32, DataType::float16, DataType::bfloat16});
  call.check_same_type(grad_y, {&out});
  if (grouped) call.check_type(group_idx, {DataType::int32, DataType::int64});
  call.check_rank(grad_y, {grouped ? 2 : 3});
  if (grouped) {
    call.check_rank(group_idx, {1});
    call.check(group_idx.size(0) <= kMaxGroups, "groupIdxOptional", "at most 2048 entries",
               group_idx.size(0));
  }

  call.check_shape(out, {grouped ? group_idx.size(0) : grad_y.size(0), grad_y.size(grouped ? 1 : 2)});
  call.check(groupIdxType == 0 || groupIdxType == 1, "groupIdxType", "0 (end offsets) or 1 (counts)",
             groupIdxType);

  if (out.empty()) return call.plan_nothing();
  if (grad_y.empty()) return call.plan_zeros({&out});

  if (grouped) call.use_partly(grad_y);  // without rows behind the last group

  auto& problem = call.problem<GroupedBiasAddBackward>();
  call.operand(problem.grad_output, grad_y, grouped ? 1 : 2);
  call.operand(problem.group_idx, group_idx, 0);
  problem.kind = static_cast<GroupKind>(groupIdxType);
  call.operand(problem.grad_bias, out, 0);
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
