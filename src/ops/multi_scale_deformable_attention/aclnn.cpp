// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The C entry points of multi-scale deformable attention and its gradient.
#include <algorithm>

#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "executor/call.h"
#include "ops/multi_scale_deformable_attention/kernel.h"

namespace aclgrad::ops::multi_scale_deformable_attention {
namespace {

// The arguments that the operator and its gradient share.
struct Inputs {
  const aclTensor* value;
  const aclTensor* spatialShape;
  const aclTensor* levelStartIndex;
  const aclTensor* location;
  const aclTensor* attnWeight;
};

void declare(Call& call, const Inputs& in, MultiScaleDeformableSampling& problem) {
  call.use_partly(call.input("value", in.value, problem.value));  // without rows outside of the levels
  call.input("spatialShape", in.spatialShape, problem.spatial_shapes);
  // Without entries behind the last level.
  call.use_partly(call.input("levelStartIndex", in.levelStartIndex, problem.level_start_index));
  call.input("location", in.location, problem.sampling_locations);
  call.input("attnWeight", in.attnWeight, problem.attention_weights);
}

void check_formats(const Call& call) {
  for (const Argument& argument : call.arguments()) {
    call.check(argument.format != ACL_FORMAT_FRACTAL_NZ, argument.name, "a format other than FRACTAL_NZ",
               "FRACTAL_NZ");
  }
}

bool has_empty_input(const Call& call) {
  const auto inputs = call.inputs();
  return std::any_of(inputs.begin(), inputs.end(), [](const Argument& input) { return input.empty(); });
}

void plan_grad(Call& call, const Inputs& in, const aclTensor* gradOutput, const aclTensor* gradValue,
               const aclTensor* gradLocation, const aclTensor* gradAttnWeight) {
  auto& problem = call.problem<MultiScaleDeformableAttentionBackward>();
  declare(call, in, problem);
  call.input("gradOutput", gradOutput, problem.grad_output);
  const Argument& grad_value = call.output("gradValue", gradValue, problem.grad_value);
  const Argument& grad_location = call.output("gradLocation", gradLocation, problem.grad_sampling_locations);
  const Argument& grad_weight = call.output("gradAttnWeight", gradAttnWeight, problem.grad_attention_weights);
  check(problem, call);
  check_formats(call);

  if (has_empty_input(call)) return call.plan_zeros({&grad_value, &grad_location, &grad_weight});
  split_heads(problem.grad_output, problem.heads());
  call.plan_problem(problem);
}

void plan_forward(Call& call, const Inputs& in, const aclTensor* output_tensor) {
  auto& problem = call.problem<MultiScaleDeformableAttention>();
  declare(call, in, problem);
  const Argument& output = call.output("output", output_tensor, problem.output);
  check(problem, call);
  check_formats(call);

  if (has_empty_input(call)) return call.plan_zeros({&output});
  split_heads(problem.output, problem.heads());
  call.plan_problem(problem);
}

}  // namespace
}  // namespace aclgrad::ops::multi_scale_deformable_attention

using namespace aclgrad;
using namespace aclgrad::ops::multi_scale_deformable_attention;

aclnnStatus aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(
    const aclTensor* value, const aclTensor* spatialShape, const aclTensor* levelStartIndex,
    const aclTensor* location, const aclTensor* attnWeight, const aclTensor* gradOutput, aclTensor* gradValue,
    aclTensor* gradLocation, aclTensor* gradAttnWeight, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan_call("aclnnMultiScaleDeformableAttentionGrad", workspaceSize, executor, [&](Call& call) {
    plan_grad(call, {value, spatialShape, levelStartIndex, location, attnWeight}, gradOutput, gradValue,
              gradLocation, gradAttnWeight);
  });
}

aclnnStatus aclnnMultiScaleDeformableAttentionGrad(void* workspace, uint64_t workspaceSize,
                                                   aclOpExecutor* executor, aclrtStream stream) {
  return run_call("aclnnMultiScaleDeformableAttentionGrad", workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(
    const aclTensor* value, const aclTensor* spatialShape, const aclTensor* levelStartIndex,
    const aclTensor* location, const aclTensor* attnWeight, aclTensor* output, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return plan_call("aclnnMultiScaleDeformableAttnFunction", workspaceSize, executor, [&](Call& call) {
    plan_forward(call, {value, spatialShape, levelStartIndex, location, attnWeight}, output);
  });
}

aclnnStatus aclnnMultiScaleDeformableAttnFunction(void* workspace, uint64_t workspaceSize,
                                                  aclOpExecutor* executor, aclrtStream stream) {
  return run_call("aclnnMultiScaleDeformableAttnFunction", workspace, workspaceSize, executor, stream);
}
