// The C entry points of three-dimensional grid sampling and its gradient.
#include "aclnnop/aclnn_grid_sampler3d.h"
#include "aclnnop/aclnn_grid_sampler3d_backward.h"
#include "executor/call.h"
#include "ops/grid_sampler/kernel.h"

namespace aclgrad::ops::grid_sampler {
namespace {

constexpr int kNoDenseAxis = 5;  // kernels take any strides

using Sizes = std::array<int64_t, 5>;

bool is_ndhwc(const Argument& argument) {
  return argument.format == ACL_FORMAT_NDHWC;
}

// The axes of a tensor of volumes, whatever their order: N, C, D, H, W.
Sizes volume_sizes(const Argument& a) {
  if (is_ndhwc(a)) return {a.size(0), a.size(4), a.size(1), a.size(2), a.size(3)};
  return {a.size(0), a.size(1), a.size(2), a.size(3), a.size(4)};
}

template <class Void>
void place_volume(BasicTensor<Void>& tensor, Call& call, const Argument& argument) {
  call.operand(tensor, argument, kNoDenseAxis);
  if (!is_ndhwc(argument)) return;
  const Shape shape = tensor.shape, strides = tensor.strides;
  tensor.shape = {shape[0], shape[4], shape[1], shape[2], shape[3]};
  tensor.strides = {strides[0], strides[4], strides[1], strides[2], strides[3]};
}

void check_volume_shape(const Call& call, const Argument& argument, const Sizes& expected) {
  const auto [n, c, d, h, w] = expected;
  if (is_ndhwc(argument)) {
    call.check_shape(argument, {n, d, h, w, c});
  } else {
    call.check_shape(argument, {n, c, d, h, w});
  }
}

void check_modes(const Call& call, int64_t interpolationMode, int64_t paddingMode) {
  call.check(paddingMode >= 0 && paddingMode <= 2, "paddingMode", "0 (zeros), 1 (border) or 2 (reflection)",
             paddingMode);
  call.check(interpolationMode >= 0 && interpolationMode <= 1, "interpolationMode",
             "0 (trilinear) or 1 (nearest)", interpolationMode);
}

// What of a grid's axes does not follow from input. Returns the sizes of a tensor with a value for each sample.
Sizes check_input_and_grid(const Call& call, const Argument& input, const Argument& grid) {
  const Sizes sizes = volume_sizes(input);
  call.check(grid.size(0) == sizes[0], "grid", "the same first axis as input", grid.size(0));
  call.check(sizes[2] != 0, "input", "a depth other than 0", sizes[2]);
  call.check(sizes[3] != 0, "input", "a height other than 0", sizes[3]);
  call.check(sizes[4] != 0, "input", "a width other than 0", sizes[4]);
  call.check(grid.size(4) == 3, "grid", "a last axis of 3", grid.size(4));
  return {sizes[0], sizes[1], grid.size(1), grid.size(2), grid.size(3)};
}

// What the forward operator and the gradient have in common of their problems.
void describe(aclgrad::GridSampling& sampling, Call& call, const Argument& input, const Argument& grid,
              int64_t interpolationMode, int64_t paddingMode, bool alignCorners) {
  place_volume(sampling.input, call, input);
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

  call.check_type(input, {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  call.check_same_type(input, {&grad_output, &grid, &input_grad, &grid_grad});
  check_modes(call, interpolationMode, paddingMode);
  for (const Argument* argument : {&grad_output, &input, &grid, &input_grad, &grid_grad}) {
    call.check_rank(*argument, {5});
  }
  for (const Argument* argument : {&grad_output, &input, &input_grad}) {
    call.check(input.type() != DataType::float64 || !is_ndhwc(*argument), argument->name,
               "another format than NDHWC with float64", "NDHWC");
  }
  check_volume_shape(call, grad_output, check_input_and_grid(call, input, grid));
  check_volume_shape(call, input_grad, volume_sizes(input));
  call.check_shape(grid_grad, {grid.size(0), grid.size(1), grid.size(2), grid.size(3), 3});
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

  aclgrad::GridSampler3DBackward problem;
  describe(problem, call, input, grid, interpolationMode, paddingMode, alignCorners);
  place_volume(problem.grad_output, call, grad_output);
  if (wants_input) place_volume(problem.grad_input, call, input_grad);
  if (wants_grid) call.operand(problem.grad_grid, grid_grad, kNoDenseAxis);
  call.plan_problem(problem, [&grad_output, &input, &grid, &input_grad, &grid_grad](
                                 const Launch& launch, aclgrad::GridSampler3DBackward& bound) {
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
  for (const Argument* argument : {&input, &grid, &out}) call.check_rank(*argument, {5});
  for (const Argument* argument : {&input, &out}) {
    const bool is_possible =
        input.type() == DataType::float32 && interpolationMode == 0 && volume_sizes(*argument)[1] % 4 == 0;
    call.check(is_possible || !is_ndhwc(*argument), argument->name,
               "another format than NDHWC, which is for float32, mode 0 and a multiple of 4 channels",
               "NDHWC");
  }
  check_volume_shape(call, out, check_input_and_grid(call, input, grid));
  if (out.empty()) return call.plan_nothing();

  aclgrad::GridSampler3D problem;
  describe(problem, call, input, grid, interpolationMode, paddingMode, alignCorners);
  place_volume(problem.output, call, out);
  call.plan_problem(problem, [&input, &grid, &out](const Launch& launch, aclgrad::GridSampler3D& bound) {
    bound.input.data = launch.data(input);
    bound.grid.data = launch.data(grid);
    bound.output.data = launch.data(out);
  });
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler

using namespace aclgrad;
using namespace aclgrad::ops::grid_sampler;

aclnnStatus aclnnGridSampler3DBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* input,
                                                       const aclTensor* grid, int64_t interpolationMode,
                                                       int64_t paddingMode, bool alignCorners,
                                                       const aclBoolArray* outputMask, aclTensor* inputGrad,
                                                       aclTensor* gridGrad, uint64_t* workspaceSize,
                                                       aclOpExecutor** executor) {
  return plan_call("aclnnGridSampler3DBackward", workspaceSize, executor, [&](Call& call) {
    plan_backward(call, gradOutput, input, grid, interpolationMode, paddingMode, alignCorners, outputMask,
                  inputGrad, gridGrad);
  });
}

aclnnStatus aclnnGridSampler3DBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       aclrtStream stream) {
  return run_call("aclnnGridSampler3DBackward", workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnGridSampler3DGetWorkspaceSize(const aclTensor* input, const aclTensor* grid,
                                               int64_t interpolationMode, int64_t paddingMode,
                                               bool alignCorners, aclTensor* out, uint64_t* workspaceSize,
                                               aclOpExecutor** executor) {
  return plan_call("aclnnGridSampler3D", workspaceSize, executor, [&](Call& call) {
    plan_forward(call, input, grid, interpolationMode, paddingMode, alignCorners, out);
  });
}

aclnnStatus aclnnGridSampler3D(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                               aclrtStream stream) {
  return run_call("aclnnGridSampler3D", workspace, workspaceSize, executor, stream);
}
