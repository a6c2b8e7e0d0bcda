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

void set_sizes(const Inputs& in, MultiScaleDeformableSampling& problem) {
  problem.type = in.value.type();
  problem.batches = in.value.size(0);
  problem.rows = in.value.size(1);
  problem.heads = in.value.size(2);
  problem.channels = in.value.size(3);
  problem.queries = in.location.size(1);
  problem.levels = in.spatial_shape.size(0);
  problem.points = in.location.size(4);
}

void check_common_limits(const Call& call, const MultiScaleDeformableSampling& sizes) {
  call.check(sizes.channels % 8 == 0 && sizes.channels <= 256, "value",
             "channels that are a multiple of 8, at most 256", sizes.channels);
  call.check(sizes.levels <= 16, "spatialShape", "at most 16 levels", sizes.levels);
  call.check(sizes.heads <= 16, "value", "at most 16 heads", sizes.heads);
  call.check(sizes.points <= 16, "location", "at most 16 points", sizes.points);
}

void check_grad_limits(const Call& call, const MultiScaleDeformableSampling& sizes) {
  check_common_limits(call, sizes);
  call.check(sizes.queries < 500000, "location", "less than 500000 queries", sizes.queries);
  if (!Call::strict()) return;
  call.check(sizes.levels < 10, "spatialShape", "less than 10 levels (strict)", sizes.levels);
  call.check(sizes.batches <= 32, "value", "at most 32 batches (strict)", sizes.batches);
  const int64_t sum = sizes.channels + sizes.points + sizes.levels;
  call.check(sum <= 512, "value", "channels + points + levels of at most 512 (strict)", sum);
}

void check_sampling_shapes(const Call& call, const Argument& location, const Argument& attention_weight,
                           const MultiScaleDeformableSampling& sizes) {
  call.check_shape(location, {sizes.batches, sizes.queries, sizes.heads, sizes.levels, sizes.points, 2});
  call.check_shape(attention_weight, {sizes.batches, sizes.queries, sizes.heads, sizes.levels, sizes.points});
}

void check_query_rows(const Call& call, const Argument& argument, const MultiScaleDeformableSampling& sizes) {
  if (argument.view.rank == 3) {
    call.check_shape(argument, {sizes.batches, sizes.queries, sizes.heads * sizes.channels});
  } else {
    call.check_shape(argument, {sizes.batches, sizes.queries, sizes.heads, sizes.channels});
  }
}

// Whether the elements from `axis` on lie side by side.
bool is_contiguous_from(const TensorView& view, int axis) {
  int64_t expected = 1;
  for (auto i = static_cast<size_t>(view.rank); i-- > static_cast<size_t>(axis);) {
    if (view.shape[i] == 1) continue;
    if (view.strides[i] != expected) return false;
    expected *= view.shape[i];
  }
  return true;
}

// A tensor [bs, rows or Q, M, block...] is used where it lies if its blocks are contiguous, else packed. Of
// one with 3 axes, the last holds M blocks.
BlockStrides place(Call& call, const Argument& argument, int64_t heads) {
  const TensorView& view = argument.view;
  const bool joined = view.rank == 3;
  const int64_t block = view.size() / (view.shape[0] * view.shape[1] * heads);
  if (!is_contiguous_from(view, joined ? 2 : 3)) {
    call.pack({&argument});
    return BlockStrides::contiguous(view.shape[1], heads, block);
  }
  return {view.strides[0], view.strides[1], joined ? block : view.strides[2]};
}

void place_inputs(Call& call, const Inputs& in, MultiScaleDeformableSampling& problem) {
  problem.value_strides = place(call, in.value, problem.heads);
  problem.location_strides = place(call, in.location, problem.heads);
  problem.attention_weight_strides = place(call, in.attention_weight, problem.heads);
  call.pack({&in.spatial_shape, &in.level_start_index});
}

void bind_inputs(const Launch& launch, const Inputs& in, MultiScaleDeformableSampling& problem) {
  problem.value = launch.data(in.value);
  problem.spatial_shape = {launch.data(in.spatial_shape), in.spatial_shape.type()};
  problem.level_start_index = {launch.data(in.level_start_index), in.level_start_index.type()};
  problem.location = launch.data(in.location);
  problem.attention_weight = launch.data(in.attention_weight);
}

void plan_grad(Call& call, const Inputs& in, const aclTensor* gradOutput, const aclTensor* gradValue,
               const aclTensor* gradLocation, const aclTensor* gradAttnWeight) {
  const Argument& grad_output = call.input("gradOutput", gradOutput);
  const Argument& grad_value = call.output("gradValue", gradValue);
  const Argument& grad_location = call.output("gradLocation", gradLocation);
  const Argument& grad_attention_weight = call.output("gradAttnWeight", gradAttnWeight);

  check_types_and_formats(call, in, {&grad_output, &grad_value, &grad_location, &grad_attention_weight});
  check_ranks(call, in, grad_output);
  MultiScaleDeformableAttentionGrad problem;
  set_sizes(in, problem);
  check_grad_limits(call, problem);
  check_sampling_shapes(call, in.location, in.attention_weight, problem);
  call.check_shape(in.level_start_index, {problem.levels});
  check_query_rows(call, grad_output, problem);
  call.check_shape(grad_value, {problem.batches, problem.rows, problem.heads, problem.channels});
  check_sampling_shapes(call, grad_location, grad_attention_weight, problem);

  if (in.any_empty() || grad_output.empty()) {
    return call.plan_zeros({&grad_value, &grad_location, &grad_attention_weight});
  }

  place_inputs(call, in, problem);
  problem.grad_output_strides = place(call, grad_output, problem.heads);
  problem.grad_value_strides = place(call, grad_value, problem.heads);
  problem.grad_location_strides = place(call, grad_location, problem.heads);
  problem.grad_attention_weight_strides = place(call, grad_attention_weight, problem.heads);
  call.plan_problem(problem, [in, &grad_output, &grad_value, &grad_location, &grad_attention_weight](
                                 const Launch& launch, MultiScaleDeformableAttentionGrad& bound) {
    bind_inputs(launch, in, bound);
    bound.grad_output = launch.data(grad_output);
    bound.grad_value = launch.data(grad_value);
    bound.grad_location = launch.data(grad_location);
    bound.grad_attention_weight = launch.data(grad_attention_weight);
  });
}

void plan_forward(Call& call, const Inputs& in, const aclTensor* output_tensor) {
  const Argument& output = call.output("output", output_tensor);

  check_types_and_formats(call, in, {&output});
  check_ranks(call, in, output);
  MultiScaleDeformableAttention problem;
  set_sizes(in, problem);
  check_common_limits(call, problem);
  if (Call::strict()) {
    call.check(problem.queries >= 32, "location", "at least 32 queries (strict)", problem.queries);
  }
  check_sampling_shapes(call, in.location, in.attention_weight, problem);
  call.check(in.level_start_index.size(0) >= problem.levels, "levelStartIndex", "an entry for each level",
             in.level_start_index.size(0));
  check_query_rows(call, output, problem);

  if (in.any_empty()) return call.plan_zeros({&output});

  place_inputs(call, in, problem);
  problem.output_strides = place(call, output, problem.heads);
  call.plan_problem(problem, [in, &output](const Launch& launch, MultiScaleDeformableAttention& bound) {
    bind_inputs(launch, in, bound);
    bound.output = launch.data(output);
  });
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
