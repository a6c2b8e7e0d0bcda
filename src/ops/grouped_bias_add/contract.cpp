// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the gradients of the grouped bias-add expect of their problems, and their functions of the C++ and the C interface.
#include "tensor/contract.h"

#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "executor/call.h"
#include "ops/grouped_bias_add/kernel.h"

namespace aclgrad {

static void check_kind(const GroupKind& kind, const Contract& contract) {
  contract.mode("kind", kind, {contract.in_python() ? "ends" : "end offsets", "counts"});
}

void check(const GroupedBiasAddBackward& p, Contract& contract) {
  contract.floats({DataType::float32, DataType::float16, DataType::bfloat16});
  if (p.has_equal_groups()) {
    contract.input("grad_output", p.grad_output, "GRH", 2);
  } else {
    contract.input("grad_output", p.grad_output, "RH", 1);
    contract.integers("group_idx", p.group_idx, "G");
    const int64_t groups = contract.size('G');
    if (contract.in_c()) contract.check(groups <= 2048, "groupIdxOptional", "at most 2048 entries", groups);
  }
  contract.output("grad_bias", p.grad_bias, "GH", 0);
  check_kind(p.kind, contract);
}

void check(const GroupedBiasAddDoubleBackward& p, Contract& contract) {
  contract.floats({DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  contract.input("grad_grad_bias", p.grad_grad_bias, "GH", 0);
  if (p.has_equal_groups()) {
    contract.output("grad_grad_output", p.grad_grad_output, "GRH", 2);
  } else {
    contract.output("grad_grad_output", p.grad_grad_output, "RH", 1);
    contract.integers("group_idx", p.group_idx, "G");
  }
  check_kind(p.kind, contract);
}

}  // namespace aclgrad

ACLGRAD_DEFINE_FUNCTION_AND_CUDA(GroupedBiasAddBackward, grouped_bias_add_backward)
ACLGRAD_DEFINE_FUNCTION(GroupedBiasAddDoubleBackward, grouped_bias_add_double_backward)

// ---- The C interface

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

ACLGRAD_DEFINE_PHASE2(aclnnGroupedBiasAddGrad)

aclnnStatus aclnnGroupedBiasAddGradV2GetWorkspaceSize(const aclTensor* gradY,
                                                      const aclTensor* groupIdxOptional, int64_t groupIdxType,
                                                      aclTensor* out, uint64_t* workspaceSize,
                                                      aclOpExecutor** executor) {
  return plan_call("aclnnGroupedBiasAddGradV2", workspaceSize, executor,
                   [&](Call& call) { plan(call, gradY, groupIdxOptional, groupIdxType, out); });
}

ACLGRAD_DEFINE_PHASE2(aclnnGroupedBiasAddGradV2)
