// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What grid sampling and its gradients expect of their problems, and their functions of the C++ and the C interface.
// Axes: N images or volumes with C channels and the sides D, H and W, sampled at d, h and w places.
#include "tensor/contract.h"

#include <fmt/format.h>

#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "aclnnop/aclnn_grid_sampler3d.h"
#include "aclnnop/aclnn_grid_sampler3d_backward.h"
#include "executor/call.h"
#include "ops/grid_sampler/kernel.h"

namespace aclgrad {

struct Axes {
  const char* images;
  const char* grid;
  const char* samples;
};

// `sides`, here and below: 2 for images, 3 for volumes.
static Axes axes_of(int sides, bool channels_last) {
  if (sides == 2) return {"NCHW", "Nhw2", "NChw"};
  if (channels_last) return {"NDHWC", "Ndhw3", "NdhwC"};
  return {"NCDHW", "Ndhw3", "NCdhw"};
}

// Of input.
static void check_sides(const Contract& contract, int sides, int64_t min_side) {
  constexpr int64_t kMaxSide = (int64_t{1} << 30) - 128;  // pixels far outside still have numbers of 32 bits
  constexpr struct {
    char letter;
    const char* in_c;
    const char* in_python;
  } kSides[] = {{'D', "a depth other than 0", "a depth from 1 to 2^30 - 128"},
                {'H', "a height other than 0", "a height from 1 to 2^30 - 128"},
                {'W', "a width other than 0", "a width from 1 to 2^30 - 128"}};
  for (int axis = 3 - sides; axis < 3; ++axis) {
    const auto [letter, in_c, in_python] = kSides[axis];
    const int64_t side = contract.size(letter);
    if (contract.in_c()) {
      contract.check(side != 0, "input", in_c, side);
      contract.check(side <= kMaxSide, "input", "sides of at most 2^30 - 128", side);
    } else if (contract.in_python()) {
      const bool is_valid = (side > 0 && side <= kMaxSide) || side == Contract::kAnySize;
      contract.check(is_valid, "input", in_python, side);
    } else {
      contract.number(fmt::format("input.shape[{}]", axis + sides - 1), side, min_side, kMaxSide);
    }
  }
}

static void check_sampling(const GridSampling& p, Contract& contract, const Axes& axes, int sides) {
  if (sides == 2 && !contract.is_strict()) {
    contract.mode("interpolation", p.interpolation, {"bilinear", "nearest", "bicubic"});
  } else {
    const char* linear = sides == 2 || contract.in_python() ? "bilinear" : "trilinear";
    contract.mode("interpolation", p.interpolation, {linear, "nearest"});
  }
  contract.mode("padding", p.padding, {"zeros", "border", "reflection"});
  contract.input("input", p.input, axes.images);
  contract.input("grid", p.grid, axes.grid);
}

// Images of `channels_last` have the axes [N, D, H, W, C].
template <int kSides, class Problem>
static void check_forward(const Problem& p, Contract& contract, bool channels_last) {
  const Axes axes = axes_of(kSides, channels_last);
  contract.floats({DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  check_sampling(p, contract, axes, kSides);
  bool has_samples = true;
  for (const char letter : std::string_view(axes.samples))
    has_samples = has_samples && contract.size(letter) != 0;
  check_sides(contract, kSides, has_samples ? 1 : 0);
  contract.output("output", p.output, axes.samples);
}

template <int kSides, class Problem>
static Axes check_backward(const Problem& p, Contract& contract, bool channels_last) {
  const Axes axes = axes_of(kSides, channels_last);
  if (kSides == 2 && contract.is_strict()) {
    contract.floats({DataType::float32, DataType::float16, DataType::bfloat16});
  } else {
    contract.floats({DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  }
  check_sampling(p, contract, axes, kSides);
  check_sides(contract, kSides, 0);
  contract.input("grad_output", p.grad_output, axes.samples);
  contract.optional_output("grad_input", p.grad_input, axes.images);
  contract.optional_output("grad_grid", p.grad_grid, axes.grid);
  return axes;
}

template <int kSides, class Problem>
static void check_double_backward(const Problem& p, Contract& contract) {
  const Axes axes = check_backward<kSides>(p, contract, false);
  contract.optional_input("grad_grad_input", p.grad_grad_input, axes.images);
  contract.optional_input("grad_grad_grid", p.grad_grad_grid, axes.grid);
  contract.optional_output("grad_grad_output", p.grad_grad_output, axes.samples);
}

void check(const GridSampler2D& p, Contract& contract) {
  check_forward<2>(p, contract, false);
}
void check(const GridSampler2DBackward& p, Contract& contract) {
  check_backward<2>(p, contract, false);
}
void check(const GridSampler2DDoubleBackward& p, Contract& contract) {
  check_double_backward<2>(p, contract);
}
void check(const GridSampler3D& p, Contract& contract) {
  check_forward<3>(p, contract, false);
}
void check(const GridSampler3DBackward& p, Contract& contract) {
  check_backward<3>(p, contract, false);
}
void check(const GridSampler3DDoubleBackward& p, Contract& contract) {
  check_double_backward<3>(p, contract);
}

}  // namespace aclgrad

ACLGRAD_DEFINE_FUNCTION_AND_CUDA(GridSampler2D, grid_sampler_2d)
ACLGRAD_DEFINE_FUNCTION_AND_CUDA(GridSampler2DBackward, grid_sampler_2d_backward)
ACLGRAD_DEFINE_FUNCTION(GridSampler2DDoubleBackward, grid_sampler_2d_double_backward)
ACLGRAD_DEFINE_FUNCTION_AND_CUDA(GridSampler3D, grid_sampler_3d)
ACLGRAD_DEFINE_FUNCTION_AND_CUDA(GridSampler3DBackward, grid_sampler_3d_backward)
ACLGRAD_DEFINE_FUNCTION(GridSampler3DDoubleBackward, grid_sampler_3d_double_backward)

// ---- The C interface

namespace aclgrad::ops::grid_sampler {
namespace {

struct Modes {
  int64_t interpolation;
  int64_t padding;
  bool align_corners;
};

// Where input has its channels, and so every tensor of images or volumes, whatever its own format says.
bool has_channels_last(const Argument& input) {
  return input.view.rank == 5 && input.format == ACL_FORMAT_NDHWC;
}

// Makes [N, D, H, W, C] to [N, C, D, H, W].
template <class Void>
void bring_channels_first(BasicTensor<Void>& volume) {
  for (Shape* axes : {&volume.shape, &volume.strides})
    *axes = {(*axes)[0], (*axes)[4], (*axes)[1], (*axes)[2], (*axes)[3]};
}

void set_modes(Call& call, const Modes& modes, GridSampling& problem) {
  call.mode("interpolationMode", modes.interpolation, problem.interpolation);
  call.mode("paddingMode", modes.padding, problem.padding);
  problem.align_corners = modes.align_corners;
}

void check_layout(const Call& call, const Argument& input) {
  call.check(!has_channels_last(input) || input.type() != DataType::float64, input.name,
             "another format than NDHWC with float64", "NDHWC");
}

template <int kSides, class Problem>
void plan_backward(Call& call, const aclTensor* gradOutput, const aclTensor* input_tensor,
                   const aclTensor* grid_tensor, const Modes& modes, const aclBoolArray* outputMask,
                   const aclTensor* inputGrad, const aclTensor* gridGrad) {
  if (outputMask == nullptr) return call.plan_nothing();
  auto& problem = call.problem<Problem>();
  const Argument& grad_output = call.input("gradOutput", gradOutput, problem.grad_output);
  const Argument& input = call.input("input", input_tensor, problem.input);
  call.use_partly(input);  // without pixels that no sample reads
  const Argument& grid = call.input("grid", grid_tensor, problem.grid);
  const Argument& input_grad = call.output("inputGrad", inputGrad, problem.grad_input);
  const Argument& grid_grad = call.output("gridGrad", gridGrad, problem.grad_grid);
  call.check_live(outputMask, HandleKind::bool_array, "outputMask");
  set_modes(call, modes, problem);
  const bool channels_last = has_channels_last(input);
  check_backward<kSides>(problem, call, channels_last);
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

// The vendor's document of the forward operator, which its library does not keep to.
void check_document_of_forward(const Call& call, const Argument& input, const Modes& modes) {
  const bool is_listed =
      input.type() == DataType::float32 && modes.interpolation == 0 && call.size('C') % 4 == 0;
  call.check(!has_channels_last(input) || is_listed, input.name,
             "another format than NDHWC, which is for float32, mode 0 and a multiple of 4 channels", "NDHWC");
}

template <int kSides, class Problem>
void plan_forward(Call& call, const aclTensor* input_tensor, const aclTensor* grid, const Modes& modes,
                  const aclTensor* out_tensor) {
  auto& problem = call.problem<Problem>();
  const Argument& input = call.input("input", input_tensor, problem.input);
  call.use_partly(input);  // without pixels that no sample reads
  call.input("grid", grid, problem.grid);
  const Argument& out = call.output("out", out_tensor, problem.output);
  set_modes(call, modes, problem);
  const bool channels_last = has_channels_last(input);
  check_forward<kSides>(problem, call, channels_last);
  call.check(input.type() != DataType::float64 || modes.interpolation != 2, "interpolationMode",
             "0 (bilinear) or 1 (nearest) with float64", modes.interpolation);
  if (kSides == 3) {
    for (const Argument* argument : {&input, &out}) {
      const aclFormat format = argument->format;
      call.check(format == ACL_FORMAT_ND || format == ACL_FORMAT_NDHWC || format == ACL_FORMAT_NCDHW,
                 argument->name, "the format ND (2), NDHWC (27) or NCDHW (30)", int64_t{format});
    }
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
    plan_backward<2, GridSampler2DBackward>(call, gradOutput, input, grid,
                                            {interpolationMode, paddingMode, alignCorners}, outputMask,
                                            inputGrad, gridGrad);
  });
}

ACLGRAD_DEFINE_PHASE2(aclnnGridSampler2DBackward)

aclnnStatus aclnnGridSampler2DGetWorkspaceSize(const aclTensor* input, const aclTensor* grid,
                                               int64_t interpolationMode, int64_t paddingMode,
                                               bool alignCorners, aclTensor* out, uint64_t* workspaceSize,
                                               aclOpExecutor** executor) {
  return plan_call("aclnnGridSampler2D", workspaceSize, executor, [&](Call& call) {
    plan_forward<2, GridSampler2D>(call, input, grid, {interpolationMode, paddingMode, alignCorners}, out);
  });
}

ACLGRAD_DEFINE_PHASE2(aclnnGridSampler2D)

aclnnStatus aclnnGridSampler3DBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* input,
                                                       const aclTensor* grid, int64_t interpolationMode,
                                                       int64_t paddingMode, bool alignCorners,
                                                       const aclBoolArray* outputMask, aclTensor* inputGrad,
                                                       aclTensor* gridGrad, uint64_t* workspaceSize,
                                                       aclOpExecutor** executor) {
  return plan_call("aclnnGridSampler3DBackward", workspaceSize, executor, [&](Call& call) {
    plan_backward<3, GridSampler3DBackward>(call, gradOutput, input, grid,
                                            {interpolationMode, paddingMode, alignCorners}, outputMask,
                                            inputGrad, gridGrad);
  });
}

ACLGRAD_DEFINE_PHASE2(aclnnGridSampler3DBackward)

aclnnStatus aclnnGridSampler3DGetWorkspaceSize(const aclTensor* input, const aclTensor* grid,
                                               int64_t interpolationMode, int64_t paddingMode,
                                               bool alignCorners, aclTensor* out, uint64_t* workspaceSize,
                                               aclOpExecutor** executor) {
  return plan_call("aclnnGridSampler3D", workspaceSize, executor, [&](Call& call) {
    plan_forward<3, GridSampler3D>(call, input, grid, {interpolationMode, paddingMode, alignCorners}, out);
  });
}

ACLGRAD_DEFINE_PHASE2(aclnnGridSampler3D)
