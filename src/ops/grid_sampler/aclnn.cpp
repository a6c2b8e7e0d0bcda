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

constexpr int kNoDenseAxis = 5;  // kernels take any strides
constexpr int kImageRank = 4, kVolumeRank = 5;

template <class Problem>
constexpr int kRank = std::is_base_of_v<aclgrad::GridSampler3D, Problem> ||
                              std::is_base_of_v<aclgrad::GridSampler3DBackward, Problem>
                          ? kVolumeRank
                          : kImageRank;

struct Modes {
  int64_t interpolation;
  int64_t padding;
  bool align_corners;
};

// Where input has its channels, and so every tensor of images or volumes, whatever its own format says.
enum class Layout { channels_first, channels_last };

Layout layout_of(const Argument& input) {
  return input.view.rank == kVolumeRank && input.format == ACL_FORMAT_NDHWC ? Layout::channels_last
                                                                            : Layout::channels_first;
}

// Sizes or strides in the order N, C, H, W or N, C, D, H, W.
Shape channels_first(const Shape& axes, Layout layout) {
  if (layout == Layout::channels_last) return {axes[0], axes[4], axes[1], axes[2], axes[3]};
  return axes;
}

Shape image_sizes(const Argument& argument, Layout layout) {
  return channels_first(Shape(argument.view.shape.data(), argument.view.rank), layout);
}

template <class Void>
void place_images(BasicTensor<Void>& tensor, Call& call, const Argument& argument, Layout layout) {
  call.operand(tensor, argument, kNoDenseAxis);
  tensor.shape = channels_first(tensor.shape, layout);
  tensor.strides = channels_first(tensor.strides, layout);
}

void check_image_shape(const Call& call, const Argument& argument, const Shape& expected, Layout layout) {
  if (layout == Layout::channels_last) {
    call.check_shape(argument, {expected[0], expected[2], expected[3], expected[4], expected[1]});
  } else {
    call.check_shape(argument, expected);
  }
}

void check_padding(const Call& call, int64_t padding) {
  call.check(padding >= 0 && padding <= 2, "paddingMode", "0 (zeros), 1 (border) or 2 (reflection)", padding);
}

void check_modes(const Call& call, int rank, const Modes& modes) {
  if (rank == kVolumeRank) {
    check_padding(call, modes.padding);
    call.check(modes.interpolation >= 0 && modes.interpolation <= 1, "interpolationMode",
               "0 (trilinear) or 1 (nearest)", modes.interpolation);
    return;
  }
  const bool bicubic_allowed = !Call::strict();
  call.check(modes.interpolation >= 0 && modes.interpolation <= (bicubic_allowed ? 2 : 1),
             "interpolationMode",
             bicubic_allowed ? "0 (bilinear), 1 (nearest) or 2 (bicubic)" : "0 (bilinear) or 1 (nearest)",
             modes.interpolation);
  check_padding(call, modes.padding);
}

void check_layout(const Call& call, const Argument& input, Layout layout) {
  call.check(layout == Layout::channels_first || input.type() != DataType::float64, input.name,
             "another format than NDHWC with float64", "NDHWC");
}

// What of a grid's axes does not follow from input. Returns the sizes of a tensor with a value for each sample.
Shape check_input_and_grid(const Call& call, const Argument& input, const Argument& grid) {
  constexpr const char* kSides[] = {"a width other than 0", "a height other than 0", "a depth other than 0"};
  const Shape sizes = image_sizes(input, layout_of(input));
  const int last = sizes.rank() - 1, dimensions = sizes.rank() - 2;
  call.check(grid.size(0) == sizes[0], "grid", "the same first axis as input", grid.size(0));
  for (int axis = 2; axis <= last; ++axis)
    call.check(sizes[axis] != 0, "input", kSides[last - axis], sizes[axis]);
  call.check(grid.size(last) == dimensions, "grid", dimensions == 2 ? "a last axis of 2" : "a last axis of 3",
             grid.size(last));
  Shape samples = sizes;
  for (int axis = 2; axis <= last; ++axis) samples[axis] = grid.size(axis - 1);
  return samples;
}

// What the forward operator and the gradient have in common of their problems.
void describe(aclgrad::GridSampling& sampling, Call& call, const Argument& input, const Argument& grid,
              const Modes& modes) {
  place_images(sampling.input, call, input, layout_of(input));
  call.operand(sampling.grid, grid, kNoDenseAxis);
  sampling.interpolation = static_cast<Interpolation>(modes.interpolation);
  sampling.padding = static_cast<Padding>(modes.padding);
  sampling.align_corners = modes.align_corners;
}

template <class Problem>
void plan_backward(Call& call, const aclTensor* gradOutput, const aclTensor* input_tensor,
                   const aclTensor* grid_tensor, const Modes& modes, const aclBoolArray* outputMask,
                   const aclTensor* inputGrad, const aclTensor* gridGrad) {
  if (outputMask == nullptr) return call.plan_nothing();
  const Argument& grad_output = call.input("gradOutput", gradOutput);
  const Argument& input = call.input("input", input_tensor);
  const Argument& grid = call.input("grid", grid_tensor);
  const Argument& input_grad = call.output("inputGrad", inputGrad);
  const Argument& grid_grad = call.output("gridGrad", gridGrad);
  call.check_live(outputMask, HandleKind::bool_array, "outputMask");

  if (kRank<Problem> == kImageRank && Call::strict()) {
    call.check_type(input, {DataType::float32, DataType::float16, DataType::bfloat16});
  } else {
    call.check_type(input, {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  }
  call.check_same_type(input, {&grad_output, &grid, &input_grad, &grid_grad});
  check_modes(call, kRank<Problem>, modes);
  for (const Argument* argument : {&grad_output, &input, &grid, &input_grad, &grid_grad}) {
    call.check_rank(*argument, {kRank<Problem>});
  }
  const Layout layout = layout_of(input);
  check_layout(call, input, layout);
  check_image_shape(call, grad_output, check_input_and_grid(call, input, grid), layout);
  check_image_shape(call, input_grad, image_sizes(input, layout), layout);
  call.check_shape(grid_grad, Shape(grid.view.shape.data(), grid.view.rank));
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

  auto& problem = call.problem<Problem>();
  describe(problem, call, input, grid, modes);
  place_images(problem.grad_output, call, grad_output, layout);
  if (wants_input) place_images(problem.grad_input, call, input_grad, layout);
  if (wants_grid) call.operand(problem.grad_grid, grid_grad, kNoDenseAxis);
  call.plan_problem(problem);
}

void check_format(const Call& call, const Argument& argument) {
  const aclFormat format = argument.format;
  call.check(format == ACL_FORMAT_ND || format == ACL_FORMAT_NDHWC || format == ACL_FORMAT_NCDHW,
             argument.name, "the format ND (2), NDHWC (27) or NCDHW (30)", int64_t{format});
}

// The vendor's document of the forward operator, which its library does not keep to.
void check_document_of_forward(const Call& call, const Argument& input, const Modes& modes, Layout layout) {
  const bool is_listed =
      input.type() == DataType::float32 && modes.interpolation == 0 && image_sizes(input, layout)[1] % 4 == 0;
  call.check(layout == Layout::channels_first || is_listed, input.name,
             "another format than NDHWC, which is for float32, mode 0 and a multiple of 4 channels", "NDHWC");
}

template <class Problem>
void plan_forward(Call& call, const aclTensor* input_tensor, const aclTensor* grid_tensor, const Modes& modes,
                  const aclTensor* out_tensor) {
  const Argument& input = call.input("input", input_tensor);
  const Argument& grid = call.input("grid", grid_tensor);
  const Argument& out = call.output("out", out_tensor);

  call.check_type(input, {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  call.check_same_type(input, {&grid, &out});
  check_modes(call, kRank<Problem>, modes);
  call.check(input.type() != DataType::float64 || modes.interpolation != 2, "interpolationMode",
             "0 (bilinear) or 1 (nearest) with float64", modes.interpolation);
  for (const Argument* argument : {&input, &grid, &out}) call.check_rank(*argument, {kRank<Problem>});
  const Layout layout = layout_of(input);
  if (kRank<Problem> == kVolumeRank) {
    for (const Argument* argument : {&input, &out}) check_format(call, *argument);
    if (Call::strict()) check_document_of_forward(call, input, modes, layout);
  }
  check_layout(call, input, layout);
  check_image_shape(call, out, check_input_and_grid(call, input, grid), layout);
  if (out.empty()) return call.plan_nothing();

  auto& problem = call.problem<Problem>();
  describe(problem, call, input, grid, modes);
  place_images(problem.output, call, out, layout);
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
