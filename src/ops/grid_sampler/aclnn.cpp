// The C entry points of two-dimensional grid sampling and its gradient.
#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "executor/call.h"
#include "ops/grid_sampler/kernel.h"

namespace aclgrad::ops::grid_sampler {
namespace {

constexpr int kNoDenseAxis = 4;  // kernels take any strides

void check_modes(const Call& call, int64_t interpolationMode, int64_t paddingMode) {
  const bool bicubic_allowed = !Call::strict();
  call.check(interpolationMode >= 0 && interpolationMode <= (bicubic_allowed ? 2 : 1), "interpolationMode",
             bicubic_allowed ? "0 (bilinear), 1 (nearest) or 2 (bicubic)" : "0 (bilinear) or 1 (nearest)",
             interpolationMode);
  call.check(paddingMode >= 0 && paddingMode <= 2, "paddingMode", "0 (zeros), 1 (border) or 2 (reflection)",
             paddingMode);
}

void check_input_and_grid(const Call& call, const Argument& input, const Argument& grid) {
  call.check(grid.size(0) == input.size(0), "grid", "the same first axis as input", grid.size(0));
  call.check(input.size(2) != 0, "input", "a height other than 0", input.size(2));
  call.check(input.size(3) != 0, "input", "a width other than 0", input.size(3));
  call.check(grid.size(3) == 2, "grid", "a last axis of 2", grid.size(3));
}

// What the forward operator and the gradient have in common of their problems.
void describe(aclgrad::GridSampling& sampling, Call& call, const Argument& input, const Argument& grid,
              int64_t interpolationMode, int64_t paddingMode, bool alignCorners) {
  call.operand(sampling.input, input, kNoDenseAxis);
  call.operand(sampling.grid, grid, kNoDenseAxis);
  sampling.interpolation = static_cast<Interpolation>(interpolationMode);
  sampling.padding = static_cast<Padding>(paddingMode);
  sampling.align_corners = alignCorners;
}

void plan_backward(Call& call, const aclTensor* gradOutput, const aclTensor* input_tensor,
                   const aclTensor* grid_tensor, int64_t interpolationMode, int64_t paddingMode,
                   bool alignCorners, const aclBoolArray* outputMask, const aclTensor* inputGrad,
                   const aclTensor* gridGrad) {
  if (outputMask == nullptr) return call.plan_nothing();
  const Argument& grad_output = call.input("gradOutput", gradOutput);
  const Argument& input = call.input("input", input_tensor);
  const Argument& grid = call.input("grid", grid_tensor);
  const Argument& input_grad = call.output("inputGrad", inputGrad);
  const Argument& grid_grad = call.output("gridGrad", gridGrad);
  call.check_live(outputMask, HandleKind::bool_array, "outputMask");

  if (Call::strict()) {
    call.check_type(input, {DataType::float32, DataType::float16, DataType::bfloat16});
  } else {
    call.check_type(input, {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  }
  call.check_same_type(input, {&grad_output, &grid, &input_grad, &grid_grad});
  check_modes(call, interpolationMode, paddingMode);
  for (const Argument* argument : {&grad_output, &input, &grid, &input_grad, &grid_grad}) {
    call.check_rank(*argument, {4});
  }
  check_input_and_grid(call, input, grid);
  call.check_shape(grad_output, {input.size(0), input.size(1), grid.size(1), grid.size(2)});
  call.check_shape(input_grad, {input.size(0), input.size(1), input.size(2), input.size(3)});
  call.check_shape(grid_grad, {grid.size(0), grid.size(1), grid.size(2), 2});
  call.check(outputMask->size == 2, "outputMask", "2 entries", static_cast<int64_t>(outputMask->size));

  const bool wants_input = outputMask->values[0], wants_grid = outputMask->values[1];
  if (!wants_input && !wants_grid) return call.plan_nothing();
  if (!wants_input) call.leave_out(input_grad);
  if (!wants_grid) call.leave_out(grid_grad);
  if (grad_output.empty() || input.empty() || grid.empty()) {
    if (!wants_grid) return call.plan_zeros({&input_grad});
    if (!wants_input) return call.plan_zeros({&grid_grad});
    return call.plan_zeros({&input_grad, &grid_grad});
  }

  aclgrad::GridSampler2DBackward problem;
  describe(problem, call, input, grid, interpolationMode, paddingMode, alignCorners);
  call.operand(problem.grad_output, grad_output, kNoDenseAxis);
  if (wants_input) call.operand(problem.grad_input, input_grad, kNoDenseAxis);
  if (wants_grid) call.operand(problem.grad_grid, grid_grad, kNoDenseAxis);
  call.plan_problem(problem, [&grad_output, &input, &grid, &input_grad, &grid_grad](
                                 const Launch& launch, aclgrad::GridSampler2DBackward& bound) {
    bound.grad_output.data = launch.data(grad_output);
    bound.input.data = launch.data(input);
    bound.grid.data = launch.data(grid);
    bound.grad_input.data = launch.data(input_grad);
    bound.grad_grid.data = launch.data(grid_grad);
  });
}

void plan_forward(Call& call, const aclTensor* input_tensor, const aclTensor* grid_tensor,
                  int64_t interpolationMode, int64_t paddingMode, bool alignCorners,
                  const aclTensor* out_tensor) {
  const Argument& input = call.input("input", input_tensor);
  const Argument& grid = call.input("grid", grid_tensor);
  const Argument& out = call.output("out", out_tensor);

  call.check_type(input, {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  call.check_same_type(input, {&grid, &out});
  check_modes(call, interpolationMode, paddingMode);
  call.check(input.type() != DataType::float64 || interpolationMode != 2, "interpolationMode",
             "0 (bilinear) or 1 (nearest) with float64", interpolationMode);
  for (const Argument* argument : {&input, &grid, &out}) call.check_rank(*argument, {4});
  check_input_and_grid(call, input, grid);
  call.check_shape(out, {input.size(0), input.size(1), grid.size(1), grid.size(2)});
  if (out.empty()) return call.plan_nothing();

  aclgrad::GridSampler2D problem;
  describe(problem, call, input, grid, interpolationMode, paddingMode, alignCorners);
  call.operand(problem.output, out, kNoDenseAxis);
  call.plan_problem(problem, [&input, &grid, &out](const Launch& launch, aclgrad::GridSampler2D& bound) {
    bound.input.data = launch.data(input);
    bound.grid.data = launch.data(grid);
    bound.output.data = launch.data(out);
  });
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler

using namespace aclgrad;
using namespace aclgrad::ops::grid_sampler;

aclnnStatus aclnnGridSampler2DBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* input,
                                                       const aclTensor* grid, int64_t interpolationMode,
                                                       int64_t paddingMode, bool alignCorners,
                                                       const aclBoolArray* outputMask, aclTensor* inputGrad,
                                                       aclTensor* gridGrad, uint64_t* workspaceSize,
                                                       aclOpExecutor** executor) {
  return plan_call("aclnnGridSampler2DBackward", workspaceSize, executor, [&](Call& call) {
    plan_backward(call, gradOutput, input, grid, interpolationMode, paddingMode, alignCorners, outputMask,
                  inputGrad, gridGrad);
  });
}

aclnnStatus aclnnGridSampler2DBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       aclrtStream stream) {
  return run_call("aclnnGridSampler2DBackward", workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnGridSampler2DGetWorkspaceSize(const aclTensor* input, const aclTensor* grid,
                                               int64_t interpolationMode, int64_t paddingMode,
                                               bool alignCorners, aclTensor* out, uint64_t* workspaceSize,
                                               aclOpExecutor** executor) {
  return plan_call("aclnnGridSampler2D", workspaceSize, executor, [&](Call& call) {
    plan_forward(call, input, grid, interpolationMode, paddingMode, alignCorners, out);
  });
}

aclnnStatus aclnnGridSampler2D(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                               aclrtStream stream) {
  return run_call("aclnnGridSampler2D", workspace, workspaceSize, executor, stream);
}
