// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What multi-scale deformable attention and its gradients expect of their problems, and their functions of the C++ and
// the C interface. Axes: N batches, S rows of all levels, M heads, C channels, Q queries, L levels, P points.
#include "tensor/contract.h"

#include <fmt/format.h>

#include <algorithm>

#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "executor/call.h"
#include "ops/multi_scale_deformable_attention/kernel.h"

namespace aclgrad {

static constexpr int kFirstDense = 3;

// In C and Python tensors may be empty.
static void check_extents(const Contract& contract, std::string_view field, const ConstTensor& tensor) {
  if (contract.in_c() || contract.in_python()) return;
  for (int axis = 0; axis < tensor.shape.rank(); ++axis)
    contract.number(fmt::format("{}.shape[{}]", field, axis), tensor.size(axis), 1);
}

// Those of the documents.
static void check_limits(const Contract& contract, bool is_gradient) {
  const auto size = [&](char letter) { return contract.size(letter); };
  contract.check(size('C') % 8 == 0 && size('C') <= 256, "value",
                 "channels that are a multiple of 8, at most 256", size('C'));
  contract.check(size('L') <= 16, "spatialShape", "at most 16 levels", size('L'));
  contract.check(size('M') <= 16, "value", "at most 16 heads", size('M'));
  contract.check(size('P') <= 16, "location", "at most 16 points", size('P'));
  if (!is_gradient) {
    if (contract.is_strict())
      contract.check(size('Q') >= 32, "location", "at least 32 queries (strict)", size('Q'));
    return;
  }
  contract.check(size('Q') < 500000, "location", "less than 500000 queries", size('Q'));
  if (!contract.is_strict()) return;
  contract.check(size('L') < 10, "spatialShape", "less than 10 levels (strict)", size('L'));
  contract.check(size('N') <= 32, "value", "at most 32 batches (strict)", size('N'));
  const int64_t sum = size('C') + size('P') + size('L');
  contract.check(sum <= 512, "value", "channels + points + levels of at most 512 (strict)", sum);
}

static void check_sampling(const MultiScaleDeformableSampling& p, Contract& contract, bool is_gradient) {
  if (contract.in_c()) {
    contract.floats({DataType::float32, DataType::float16, DataType::bfloat16});
  } else {
    contract.floats({DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  }
  contract.input("value", p.value, "NSMC", kFirstDense);
  check_extents(contract, "value", p.value);
  contract.input("sampling_locations", p.sampling_locations, "NQMLP2", kFirstDense);
  check_extents(contract, "sampling_locations", p.sampling_locations);
  contract.input("attention_weights", p.attention_weights, "NQMLP", kFirstDense);
  contract.integers("spatial_shapes", p.spatial_shapes, "L2");
  if (contract.in_c() && !is_gradient) {
    contract.integers("level_start_index", p.level_start_index, "I");
    contract.check(contract.size('I') >= contract.size('L'), "levelStartIndex", "an entry for each level",
                   contract.size('I'));
  } else {
    contract.integers("level_start_index", p.level_start_index, "L");
  }
  if (contract.in_c()) check_limits(contract, is_gradient);
}

// [N, Q, M, C], of which C and Python have the last two in one, too. So is what Python makes.
static std::string_view axes_of(const ConstTensor& query_rows, Contract& contract) {
  const int rank = query_rows.shape.rank();
  const bool are_joined = contract.in_python() ? rank != 4 : contract.in_c() && rank == 3;
  if (!are_joined) return "NQMC";
  const int64_t heads = contract.size('M'), channels = contract.size('C');
  const bool are_known = heads != Contract::kAnySize && channels != Contract::kAnySize;
  contract.set_size('R', are_known ? heads * channels : Contract::kAnySize);
  return "NQR";
}

void check(const MultiScaleDeformableAttention& p, Contract& contract) {
  check_sampling(p, contract, false);
  const std::string_view axes = axes_of(p.output, contract);
  contract.output("output", p.output, axes, static_cast<int>(axes.size()) - 1);
}

// The gradient's, and the double backward's.
template <class Problem>
static std::string_view check_gradients(const Problem& p, Contract& contract) {
  check_sampling(p, contract, true);
  const std::string_view axes = axes_of(p.grad_output, contract);
  contract.input("grad_output", p.grad_output, axes, static_cast<int>(axes.size()) - 1);
  contract.optional_output("grad_value", p.grad_value, "NSMC", kFirstDense);
  contract.optional_output("grad_sampling_locations", p.grad_sampling_locations, "NQMLP2", kFirstDense);
  contract.optional_output("grad_attention_weights", p.grad_attention_weights, "NQMLP", kFirstDense);
  return axes;
}

void check(const MultiScaleDeformableAttentionBackward& p, Contract& contract) {
  check_gradients(p, contract);
}

void check(const MultiScaleDeformableAttentionDoubleBackward& p, Contract& contract) {
  const std::string_view axes = check_gradients(p, contract);
  contract.optional_input("grad_grad_value", p.grad_grad_value, "NSMC", kFirstDense);
  contract.optional_input("grad_grad_sampling_locations", p.grad_grad_sampling_locations, "NQMLP2",
                          kFirstDense);
  contract.optional_input("grad_grad_attention_weights", p.grad_grad_attention_weights, "NQMLP", kFirstDense);
  contract.optional_output("grad_grad_output", p.grad_grad_output, axes, static_cast<int>(axes.size()) - 1);
}

}  // namespace aclgrad

ACLGRAD_DEFINE_FUNCTION_AND_CUDA(MultiScaleDeformableAttention, multi_scale_deformable_attention)
ACLGRAD_DEFINE_FUNCTION_AND_CUDA(MultiScaleDeformableAttentionBackward,
                                 multi_scale_deformable_attention_backward)
ACLGRAD_DEFINE_FUNCTION(MultiScaleDeformableAttentionDoubleBackward,
                        multi_scale_deformable_attention_double_backward)

// ---- The C interface

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
  const auto all = call.arguments();
  return std::any_of(all.begin(), all.end(), [](const Argument& any) { return any.is_input && any.empty(); });
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

ACLGRAD_DEFINE_PHASE2(aclnnMultiScaleDeformableAttentionGrad)

aclnnStatus aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(
    const aclTensor* value, const aclTensor* spatialShape, const aclTensor* levelStartIndex,
    const aclTensor* location, const aclTensor* attnWeight, aclTensor* output, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return plan_call("aclnnMultiScaleDeformableAttnFunction", workspaceSize, executor, [&](Call& call) {
    plan_forward(call, {value, spatialShape, levelStartIndex, location, attnWeight}, output);
  });
}

ACLGRAD_DEFINE_PHASE2(aclnnMultiScaleDeformableAttnFunction)
