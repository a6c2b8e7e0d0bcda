// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The C entry points of grid sampling in two and three dimensions, and of its gradients.
#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "aclnnop/aclnn_grid_sampler3d.h"
#include "aclnnop/aclnn_grid_sampler3d_backward.h"
#include "executor/call.h"
#include "ops/grid_sampler/kernel.h"

namespace aclgrad::ops::grid_sampler {
namespace {

constexpr int kVolumeRank = 5;

struct Modes {
  int64_t interpolation;
  int64_t padding;
  bool align_corners;
};

// Where input has its channels, and so every tensor of images or volumes, whatever its own format says.
bool has_channels_last(const Argument& input) {
  return input.view.rank == kVolumeRank && input.format == ACL_FORMAT_NDHWC;
}

// Makes [N, D, H, W, C] to [N, C, D, H, W].
template <class Void>
void bring_channels_first(BasicTensor<Void>& volume) {
  for (Shape* axes : {&volume.shape, &volume.strides})
    *axes = {(*axes)[0], (*axes)[4], (*axes)[1], (*axes)[2], (*axes)[3]};
}

void set_modes(Call& call, const Modes& modes, aclgrad::GridSampling& problem) {
  call.mode("interpolationMode", modes.interpolation, problem.interpolation);
  call.mode("paddingMode", modes.padding, problem.padding);
  problem.align_corners = modes.align_corners;
}

void check_layout(const Call& call, const Argument& input) {
  call.check(!has_channels_last(input) || input.type() != DataType::float64, input.name,
             "another format than NDHWC with float64", "NDHWC");
}

template <class Problem>
void plan_backward(Call& call, const aclTensor* gradOutput, const aclTensor* input_tensor,
                   const aclTensor* grid_tensor, const Modes& modes, const aclBoolArray* outputMask,
                   const aclTensor* inputGrad, const aclTensor* gridGrad) {
  if (outputMask == nullptr) return call.plan_nothing();
  auto& problem = call.problem<Problem>();
  const Argument& grad_output = call.input("gradOutput", gradOutput, problem.grad_output);
  const Argument& input = call.input("input", input_tensor, problem.input);
  const Argument& grid = call.input("grid", grid_tensor, problem.grid);
  const Argument& input_grad = call.output("inputGrad", inputGrad, problem.grad_input);
  const Argument& grid_grad = call.output("gridGrad", gridGrad, problem.grad_grid);
  call.check_live(outputMask, HandleKind::bool_array, "outputMask");
  set_modes(call, modes, problem);
  const bool channels_last = has_channels_last(input);
  check(problem, call, channels_last);
  check_layout(call, input);
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

  if (channels_last) {
    bring_channels_first(problem.input);
    bring_channels_first(problem.grad_output);
    bring_channels_first(problem.grad_input);
  }
  if (!wants_input) problem.grad_input = {};
  if (!wants_grid) problem.grad_grid = {};
  call.plan_problem(problem);
}

void check_format(const Call& call, const Argument& argument) {
  const aclFormat format = argument.format;
  call.check(format == ACL_FORMAT_ND || format == ACL_FORMAT_NDHWC || format == ACL_FORMAT_NCDHW,
             argument.name, "the format ND (2), NDHWC (27) or NCDHW (30)", int64_t{format});
}

// The vendor's document of the forward operator, which its library does not keep to.
void check_document_of_forward(const Call& call, const Argument& input, const Modes& modes) {
  const bool is_listed =
      input.type() == DataType::float32 && modes.interpolation == 0 && call.size('C') % 4 == 0;
  call.check(!has_channels_last(input) || is_listed, input.name,
             "another format than NDHWC, which is for float32, mode 0 and a multiple of 4 channels", "NDHWC");
}

template <class Problem>
void plan_forward(Call& call, const aclTensor* input_tensor, const aclTensor* grid, const Modes& modes,
                  const aclTensor* out_tensor) {
  auto& problem = call.problem<Problem>();
  const Argument& input = call.input("input", input_tensor, problem.input);
  call.input("grid", grid, problem.grid);
  const Argument& out = call.output("out", out_tensor, problem.output);
  set_modes(call, modes, problem);
  const bool channels_last = has_channels_last(input);
  check(problem, call, channels_last);
  call.check(input.type() != DataType::float64 || modes.interpolation != 2, "interpolationMode",
             "0 (bilinear) or 1 (nearest) with float64", modes.interpolation);
  if (input.view.rank == kVolumeRank) {
    for (const Argument* argument : {&input, &out}) check_format(call, *argument);
    if (call.is_strict()) check_document_of_forward(call, input, modes);
  }
  check_layout(call, input);
  if (out.empty()) return call.plan_nothing();

  if (channels_last) {
    bring_channels_first(problem.input);
    bring_channels_first(problem.output);
  }
  call.plan_problem(problem);
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
    plan_backward<aclgrad::GridSampler2DBackward>(call, gradOutput, input, grid,
                                                  {interpolationMode, paddingMode, alignCorners}, outputMask,
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
    plan_forward<aclgrad::GridSampler2D>(call, input, grid, {interpolationMode, paddingMode, alignCorners},
                                         out);
  });
}

aclnnStatus aclnnGridSampler2D(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                               aclrtStream stream) {
  return run_call("aclnnGridSampler2D", workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnGridSampler3DBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* input,
                                                       const aclTensor* grid, int64_t interpolationMode,
                                                       int64_t paddingMode, bool alignCorners,
                                                       const aclBoolArray* outputMask, aclTensor* inputGrad,
                                                       aclTensor* gridGrad, uint64_t* workspaceSize,
                                                       aclOpExecutor** executor) {
  return plan_call("aclnnGridSampler3DBackward", workspaceSize, executor, [&](Call& call) {
    plan_backward<aclgrad::GridSampler3DBackward>(call, gradOutput, input, grid,
                                                  {interpolationMode, paddingMode, alignCorners}, outputMask,
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
    plan_forward<aclgrad::GridSampler3D>(call, input, grid, {interpolationMode, paddingMode, alignCorners},
                                         out);
  });
}

aclnnStatus aclnnGridSampler3D(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                               aclrtStream stream) {
  return run_call("aclnnGridSampler3D", workspace, workspaceSize, executor, stream);
}
