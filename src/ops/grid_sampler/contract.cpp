// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What grid sampling and its gradients expect of their problems, and their functions of the C++ interface. Axes: N images
// or volumes with C channels and the sides D, H and W, sampled at d, h and w places.
#include "tensor/contract.h"

#include <fmt/format.h>

#include "ops/grid_sampler/kernel.h"

namespace aclgrad {

struct Axes {
  const char* images;
  const char* grid;
  const char* samples;
};

static Axes axes_of(int sides, bool channels_last) {
  if (sides == 2) return {"NCHW", "Nhw2", "NChw"};
  if (channels_last) return {"NDHWC", "Ndhw3", "NdhwC"};
  return {"NCDHW", "Ndhw3", "NCdhw"};
}

// Of input.
static void check_sides(const Contract& contract, int sides, int64_t min_side) {
  constexpr int64_t kMaxSide = (int64_t{1} << 30) - 1;
  constexpr struct {
    char letter;
    const char* words;
  } kSides[] = {{'D', "a depth other than 0"}, {'H', "a height other than 0"}, {'W', "a width other than 0"}};
  const char* words_of_python = sides == 2 ? "a height and a width from 1 to 2^30 - 1"
                                           : "a depth, a height and a width from 1 to 2^30 - 1";
  for (int axis = 3 - sides; axis < 3; ++axis) {
    const auto [letter, words] = kSides[axis];
    const int64_t side = contract.size(letter);
    if (contract.in_c()) {
      contract.check(side != 0, "input", words, side);
    } else if (contract.in_python()) {
      const bool is_valid = (side > 0 && side <= kMaxSide) || side == Contract::kAnySize;
      contract.check(is_valid, "input", words_of_python, side);
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

template <class Problem>
static void check_forward(const Problem& p, Contract& contract, int sides, bool channels_last) {
  const Axes axes = axes_of(sides, channels_last);
  contract.floats({DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  check_sampling(p, contract, axes, sides);
  bool has_samples = true;
  for (const char letter : std::string_view(axes.samples))
    has_samples = has_samples && contract.size(letter) != 0;
  check_sides(contract, sides, has_samples ? 1 : 0);
  contract.output("output", p.output, axes.samples);
}

template <class Problem>
static Axes check_backward(const Problem& p, Contract& contract, int sides, bool channels_last) {
  const Axes axes = axes_of(sides, channels_last);
  if (sides == 2 && contract.is_strict()) {
    contract.floats({DataType::float32, DataType::float16, DataType::bfloat16});
  } else {
    contract.floats({DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  }
  check_sampling(p, contract, axes, sides);
  check_sides(contract, sides, 0);
  contract.input("grad_output", p.grad_output, axes.samples);
  contract.optional_output("grad_input", p.grad_input, axes.images);
  contract.optional_output("grad_grid", p.grad_grid, axes.grid);
  return axes;
}

void check(const GridSampler2D& p, Contract& contract, bool channels_last) {
  check_forward(p, contract, 2, channels_last);
}
void check(const GridSampler2DBackward& p, Contract& contract, bool channels_last) {
  check_backward(p, contract, 2, channels_last);
}
void check(const GridSampler2DDoubleBackward& p, Contract& contract) {
  const Axes axes = check_backward(p, contract, 2, false);
  contract.optional_input("grad_grad_input", p.grad_grad_input, axes.images);
  contract.optional_input("grad_grad_grid", p.grad_grad_grid, axes.grid);
  contract.optional_output("grad_grad_output", p.grad_grad_output, axes.samples);
}
void check(const GridSampler3D& p, Contract& contract, bool channels_last) {
  check_forward(p, contract, 3, channels_last);
}
void check(const GridSampler3DBackward& p, Contract& contract, bool channels_last) {
  check_backward(p, contract, 3, channels_last);
}

}  // namespace aclgrad

ACLGRAD_DEFINE_FUNCTION_AND_CUDA(GridSampler2D, grid_sampler_2d)
ACLGRAD_DEFINE_FUNCTION_AND_CUDA(GridSampler2DBackward, grid_sampler_2d_backward)
ACLGRAD_DEFINE_FUNCTION(GridSampler2DDoubleBackward, grid_sampler_2d_double_backward)
ACLGRAD_DEFINE_FUNCTION_AND_CUDA(GridSampler3D, grid_sampler_3d)
ACLGRAD_DEFINE_FUNCTION_AND_CUDA(GridSampler3DBackward, grid_sampler_3d_backward)
