// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The C entry points of multi-scale deformable attention and its gradient.
#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "executor/call.h"
#include "ops/multi_scale_deformable_attention/kernel.h"

namespace aclgrad::ops::multi_scale_deformable_attention {
namespace {

// The arguments that the operator and its gradient share.
struct Inputs {
  const Argument& value;
  const Argument& spatial_shape;
  const Argument& level_start_index;
  const Argument& location;
  const Argument& attention_weight;

  Inputs(Call& call, const aclTensor* value_tensor, const aclTensor* spatialShape,
         const aclTensor* levelStartIndex, const aclTensor* location_tensor, const aclTensor* attnWeight)
      : value(call.input("value", value_tensor)),
        spatial_shape(call.input("spatialShape", spatialShape)),
        level_start_index(call.input("levelStartIndex", levelStartIndex)),
        location(call.input("location", location_tensor)),
        attention_weight(call.input("attnWeight", attnWeight)) {}

  bool any_empty() const {
    return value.empty() || spatial_shape.empty() || level_start_index.empty() || location.empty() ||
           attention_weight.empty();
  }
};

// `others` are the float tensors beside those of Inputs.
void check_types_and_formats(const Call& call, const Inputs& in,
                             std::initializer_list<const Argument*> others) {
  call.check_type(in.value, {DataType::float32, DataType::float16, DataType::bfloat16});
  call.check_same_type(in.value, {&in.location, &in.attention_weight});
  call.check_same_type(in.value, others);
  call.check_type(in.spatial_shape, {DataType::int32, DataType::int64});
  call.check_type(in.level_start_index, {DataType::int32, DataType::int64});
  const auto check_format = [&](const Argument& argument) {
    const bool is_plain = argument.format != ACL_FORMAT_FRACTAL_NZ;
    call.check(is_plain, argument.name, "a format other than FRACTAL_NZ", "FRACTAL_NZ");
  };
  for (const Argument* argument :
       {&in.value, &in.spatial_shape, &in.level_start_index, &in.location, &in.attention_weight}) {
    check_format(*argument);
  }
  for (const Argument* argument : others) check_format(*argument);
}

// `query_rows`, [bs, Q, M, C], may have its last two axes in one.
void check_ranks(const Call& call, const Inputs& in, const Argument& query_rows) {
  call.check_rank(in.value, {4});
  call.check_rank(in.spatial_shape, {2});
  call.check_rank(in.level_start_index, {1});
  call.check_rank(in.location, {6});
  call.check_rank(in.attention_weight, {5});
  call.check_rank(query_rows, {3, 4});
  call.check(in.spatial_shape.size(1) == 2, "spatialShape", "a last axis of 2 (height, width)",
             in.spatial_shape.size(1));
  call.check(in.location.size(5) == 2, "location", "a last axis of 2 (x, y)", in.location.size(5));
}

// What the shapes must agree with.
struct Sizes {
  int64_t batches, rows, heads, channels, queries, levels, points;

  explicit Sizes(const Inputs& in)
      : batches(in.value.size(0)),
        rows(in.value.size(1)),
        heads(in.value.size(2)),
        channels(in.value.size(3)),
        queries(in.location.size(1)),
        levels(in.spatial_shape.size(0)),
        points(in.location.size(4)) {}
};

void check_common_limits(const Call& call, const Sizes& sizes) {
  call.check(sizes.channels % 8 == 0 && sizes.channels <= 256, "value",
             "channels that are a multiple of 8, at most 256", sizes.channels);
  call.check(sizes.levels <= 16, "spatialShape", "at most 16 levels", sizes.levels);
  call.check(sizes.heads <= 16, "value", "at most 16 heads", sizes.heads);
  call.check(sizes.points <= 16, "location", "at most 16 points", sizes.points);
}

void check_grad_limits(const Call& call, const Sizes& sizes) {
  check_common_limits(call, sizes);
  call.check(sizes.queries < 500000, "location", "less than 500000 queries", sizes.queries);
  if (!Call::strict()) return;
  call.check(sizes.levels < 10, "spatialShape", "less than 10 levels (strict)", sizes.levels);
  call.check(sizes.batches <= 32, "value", "at most 32 batches (strict)", sizes.batches);
  const int64_t sum = sizes.channels + sizes.points + sizes.levels;
  call.check(sum <= 512, "value", "channels + points + levels of at most 512 (strict)", sum);
}

void check_sampling_shapes(const Call& call, const Argument& location, const Argument& attention_weight,
                           const Sizes& sizes) {
  call.check_shape(location, {sizes.batches, sizes.queries, sizes.heads, sizes.levels, sizes.points, 2});
  call.check_shape(attention_weight, {sizes.batches, sizes.queries, sizes.heads, sizes.levels, sizes.points});
}

void check_query_rows(const Call& call, const Argument& argument, const Sizes& sizes) {
  if (argument.view.rank == 3) {
    call.check_shape(argument, {sizes.batches, sizes.queries, sizes.heads * sizes.channels});
  } else {
    call.check_shape(argument, {sizes.batches, sizes.queries, sizes.heads, sizes.channels});
  }
}

// A tensor [bs, rows or Q, M, block...] where it lies if its blocks are contiguous, else packed. Of one with 3 axes, the last
// holds M blocks.
template <class Void>
void place(BasicTensor<Void>& tensor, Call& call, const Argument& argument, int64_t heads) {
  const bool joined = argument.view.rank == 3;
  call.operand(tensor, argument, joined ? 2 : 3);
  if (!joined) return;
  const int64_t channels = tensor.size(2) / heads;
  tensor.shape = {tensor.size(0), tensor.size(1), heads, channels};
  tensor.strides = {tensor.stride(0), tensor.stride(1), channels, 1};
}

void place_inputs(Call& call, const Inputs& in, MultiScaleDeformableSampling& problem) {
  call.use_partly(in.value);              // without rows outside of the levels
  call.use_partly(in.level_start_index);  // without entries behind the last level
  call.operand(problem.value, in.value, 3);
  call.operand(problem.spatial_shapes, in.spatial_shape, 0);
  call.operand(problem.level_start_index, in.level_start_index, 0);
  call.operand(problem.sampling_locations, in.location, 3);
  call.operand(problem.attention_weights, in.attention_weight, 3);
}

void plan_grad(Call& call, const Inputs& in, const aclTensor* gradOutput, const aclTensor* gradValue,
               const aclTensor* gradLocation, const aclTensor* gradAttnWeight) {
  const Argument& grad_output = call.input("gradOutput", gradOutput);
  const Argument& grad_value = call.output("gradValue", gradValue);
  const Argument& grad_location = call.output("gradLocation", gradLocation);
  const Argument& grad_attention_weight = call.output("gradAttnWeight", gradAttnWeight);

  check_types_and_formats(call, in, {&grad_output, &grad_value, &grad_location, &grad_attention_weight});
  check_ranks(call, in, grad_output);
  const Sizes sizes(in);
  check_grad_limits(call, sizes);
  check_sampling_shapes(call, in.location, in.attention_weight, sizes);
  call.check_shape(in.level_start_index, {sizes.levels});
  check_query_rows(call, grad_output, sizes);
  call.check_shape(grad_value, {sizes.batches, sizes.rows, sizes.heads, sizes.channels});
  check_sampling_shapes(call, grad_location, grad_attention_weight, sizes);

  if (in.any_empty() || grad_output.empty()) {
    return call.plan_zeros({&grad_value, &grad_location, &grad_attention_weight});
  }

  auto& problem = call.problem<MultiScaleDeformableAttentionBackward>();
  place_inputs(call, in, problem);
  place(problem.grad_output, call, grad_output, sizes.heads);
  call.operand(problem.grad_value, grad_value, 3);
  call.operand(problem.grad_sampling_locations, grad_location, 3);
  call.operand(problem.grad_attention_weights, grad_attention_weight, 3);
  call.plan_problem(problem);
}

void plan_forward(Call& call, const Inputs& in, const aclTensor* output_tensor) {
  const Argument& output = call.output("output", output_tensor);

  check_types_and_formats(call, in, {&output});
  check_ranks(call, in, output);
  const Sizes sizes(in);
  check_common_limits(call, sizes);
  if (Call::strict()) {
    call.check(sizes.queries >= 32, "location", "at least 32 queries (strict)", sizes.queries);
  }
  check_sampling_shapes(call, in.location, in.attention_weight, sizes);
  call.check(in.level_start_index.size(0) >= sizes.levels, "levelStartIndex", "an entry for each level",
             in.level_start_index.size(0));
  check_query_rows(call, output, sizes);

  if (in.any_empty()) return call.plan_zeros({&output});

  auto& problem = call.problem<MultiScaleDeformableAttention>();
  place_inputs(call, in, problem);
  place(problem.output, call, output, sizes.heads);
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
    const Inputs in(call, value, spatialShape, levelStartIndex, location, attnWeight);
    plan_grad(call, in, gradOutput, gradValue, gradLocation, gradAttnWeight);
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
    const Inputs in(call, value, spatialShape, levelStartIndex, location, attnWeight);
    plan_forward(call, in, output);
  });
}

aclnnStatus aclnnMultiScaleDeformableAttnFunction(void* workspace, uint64_t workspaceSize,
                                                  aclOpExecutor* executor, aclrtStream stream) {
  return run_call("aclnnMultiScaleDeformableAttnFunction", workspace, workspaceSize, executor, stream);
}
