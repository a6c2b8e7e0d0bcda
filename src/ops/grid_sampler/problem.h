// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The problems of aclgrad/grid_sampler.h as the kernels read them: sizes, strides and addresses by name. kAxes is 2 for
// images and 3 for volumes.
#pragma once

#include <array>
#include <utility>

#include "aclgrad/grid_sampler.h"

namespace aclgrad::ops::grid_sampler {

template <int kAxes>
struct SamplingOf {
  using Strides = std::array<int64_t, 2 + kAxes>;

  DataType type;
  Interpolation interpolation;
  Padding padding;
  bool align_corners;

  int64_t batch;          // N
  int64_t channels;       // C
  int64_t depth;          // D; 1 for images
  int64_t height;         // H
  int64_t width;          // W
  int64_t output_depth;   // Do; 1 for images
  int64_t output_height;  // Ho
  int64_t output_width;   // Wo

  const void* input;
  Strides input_strides;
  const void* grid;
  Strides grid_strides;

  explicit SamplingOf(const aclgrad::GridSampling& problem)
      : type(problem.input.type),
        interpolation(problem.interpolation),
        padding(problem.padding),
        align_corners(problem.align_corners),
        batch(problem.input.size(0)),
        channels(problem.input.size(1)),
        depth(kAxes == 3 ? problem.input.size(2) : 1),
        height(problem.input.size(kAxes)),
        width(problem.input.size(kAxes + 1)),
        output_depth(kAxes == 3 ? problem.grid.size(1) : 1),
        output_height(problem.grid.size(kAxes - 1)),
        output_width(problem.grid.size(kAxes)),
        input(problem.input.data),
        input_strides(strides_of(problem.input)),
        grid(problem.grid.data),
        grid_strides(strides_of(problem.grid)) {}

  static Strides strides_of(const ConstTensor& tensor) {
    Strides strides;
    for (size_t axis = 0; axis < strides.size(); ++axis)
      strides[axis] = tensor.stride(static_cast<int>(axis));
    return strides;
  }
};

template <int kAxes>
struct ForwardOf : SamplingOf<kAxes> {
  void* output;
  typename SamplingOf<kAxes>::Strides output_strides;

  template <class Problem>
  explicit ForwardOf(const Problem& problem)
      : SamplingOf<kAxes>(problem),
        output(problem.output.data),
        output_strides(this->strides_of(problem.output)) {}
};

template <int kAxes>
struct BackwardOf : SamplingOf<kAxes> {
  using Strides = typename SamplingOf<kAxes>::Strides;

  const void* grad_output;
  Strides grad_output_strides;
  bool wants_input_grad;
  bool wants_grid_grad;
  void* input_grad;
  Strides input_grad_strides;
  void* grid_grad;
  Strides grid_grad_strides;

  template <class Problem>
  explicit BackwardOf(const Problem& problem)
      : SamplingOf<kAxes>(problem),
        grad_output(problem.grad_output.data),
        grad_output_strides(this->strides_of(problem.grad_output)),
        wants_input_grad(problem.grad_input.defined()),
        wants_grid_grad(problem.grad_grid.defined()),
        input_grad(problem.grad_input.data),
        input_grad_strides(this->strides_of(problem.grad_input)),
        grid_grad(problem.grad_grid.data),
        grid_grad_strides(this->strides_of(problem.grad_grid)) {}
};

template <int kAxes>
struct DoubleBackwardOf : BackwardOf<kAxes> {
  using Strides = typename SamplingOf<kAxes>::Strides;

  bool has_grad_grad_input;
  bool has_grad_grad_grid;
  const void* grad_grad_input;
  Strides grad_grad_input_strides;
  const void* grad_grad_grid;
  Strides grad_grad_grid_strides;
  bool wants_grad_grad_output;
  void* grad_grad_output;
  Strides grad_grad_output_strides;

  template <class Problem>
  explicit DoubleBackwardOf(const Problem& problem)
      : BackwardOf<kAxes>(problem),
        has_grad_grad_input(problem.grad_grad_input.defined()),
        has_grad_grad_grid(problem.grad_grad_grid.defined()),
        grad_grad_input(problem.grad_grad_input.data),
        grad_grad_input_strides(this->strides_of(problem.grad_grad_input)),
        grad_grad_grid(problem.grad_grad_grid.data),
        grad_grad_grid_strides(this->strides_of(problem.grad_grad_grid)),
        wants_grad_grad_output(problem.grad_grad_output.defined()),
        grad_grad_output(problem.grad_grad_output.data),
        grad_grad_output_strides(this->strides_of(problem.grad_grad_output)) {}
};

using GridSampling = SamplingOf<2>;
using GridSampler2D = ForwardOf<2>;
using GridSampler2DBackward = BackwardOf<2>;
using GridSampler2DDoubleBackward = DoubleBackwardOf<2>;

using GridSampling3D = SamplingOf<3>;
using GridSampler3D = ForwardOf<3>;
using GridSampler3DBackward = BackwardOf<3>;
using GridSampler3DDoubleBackward = DoubleBackwardOf<3>;

// Which of them stands for a problem of the C++ interface.
GridSampler2D read_as(const aclgrad::GridSampler2D&);
GridSampler2DBackward read_as(const aclgrad::GridSampler2DBackward&);
GridSampler2DDoubleBackward read_as(const aclgrad::GridSampler2DDoubleBackward&);
GridSampler3D read_as(const aclgrad::GridSampler3D&);
GridSampler3DBackward read_as(const aclgrad::GridSampler3DBackward&);
GridSampler3DDoubleBackward read_as(const aclgrad::GridSampler3DDoubleBackward&);
template <class Problem>
using ReadAs = decltype(read_as(std::declval<const Problem&>()));

}  // namespace aclgrad::ops::grid_sampler
