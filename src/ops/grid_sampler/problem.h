// The problems of aclgrad/grid_sampler.h as the kernels read them: sizes, strides and addresses by name.
#pragma once

#include <array>

#include "aclgrad/grid_sampler.h"

namespace aclgrad::ops::grid_sampler {

struct GridSampling {
  using Strides = std::array<int64_t, 4>;

  DataType type;
  Interpolation interpolation;
  Padding padding;
  bool align_corners;

  int64_t batch;          // N
  int64_t channels;       // C
  int64_t height;         // H
  int64_t width;          // W
  int64_t output_height;  // Ho
  int64_t output_width;   // Wo

  const void* input;
  Strides input_strides;
  const void* grid;
  Strides grid_strides;

  explicit GridSampling(const aclgrad::GridSampling& problem)
      : type(problem.input.type),
        interpolation(problem.interpolation),
        padding(problem.padding),
        align_corners(problem.align_corners),
        batch(problem.input.size(0)),
        channels(problem.input.size(1)),
        height(problem.input.size(2)),
        width(problem.input.size(3)),
        output_height(problem.grid.size(1)),
        output_width(problem.grid.size(2)),
        input(problem.input.data),
        input_strides(strides_of(problem.input)),
        grid(problem.grid.data),
        grid_strides(strides_of(problem.grid)) {}

  static Strides strides_of(const ConstTensor& tensor) {
    return {tensor.stride(0), tensor.stride(1), tensor.stride(2), tensor.stride(3)};
  }
};

struct GridSampler2D : GridSampling {
  void* output;
  Strides output_strides;

  explicit GridSampler2D(const aclgrad::GridSampler2D& problem)
      : GridSampling(problem), output(problem.output.data), output_strides(strides_of(problem.output)) {}
};

struct GridSampler2DBackward : GridSampling {
  const void* grad_output;
  Strides grad_output_strides;
  bool wants_input_grad;
  bool wants_grid_grad;
  void* input_grad;
  Strides input_grad_strides;
  void* grid_grad;
  Strides grid_grad_strides;

  explicit GridSampler2DBackward(const aclgrad::GridSampler2DBackward& problem)
      : GridSampling(problem),
        grad_output(problem.grad_output.data),
        grad_output_strides(strides_of(problem.grad_output)),
        wants_input_grad(problem.grad_input.defined()),
        wants_grid_grad(problem.grad_grid.defined()),
        input_grad(problem.grad_input.data),
        input_grad_strides(strides_of(problem.grad_input)),
        grid_grad(problem.grad_grid.data),
        grid_grad_strides(strides_of(problem.grad_grid)) {}
};

// The same of volumes.
struct GridSampling3D {
  using Strides = std::array<int64_t, 5>;

  DataType type;
  Interpolation interpolation;
  Padding padding;
  bool align_corners;

  int64_t batch;          // N
  int64_t channels;       // C
  int64_t depth;          // D
  int64_t height;         // H
  int64_t width;          // W
  int64_t output_depth;   // Do
  int64_t output_height;  // Ho
  int64_t output_width;   // Wo

  const void* input;
  Strides input_strides;
  const void* grid;
  Strides grid_strides;

  explicit GridSampling3D(const aclgrad::GridSampling& problem)
      : type(problem.input.type),
        interpolation(problem.interpolation),
        padding(problem.padding),
        align_corners(problem.align_corners),
        batch(problem.input.size(0)),
        channels(problem.input.size(1)),
        depth(problem.input.size(2)),
        height(problem.input.size(3)),
        width(problem.input.size(4)),
        output_depth(problem.grid.size(1)),
        output_height(problem.grid.size(2)),
        output_width(problem.grid.size(3)),
        input(problem.input.data),
        input_strides(strides_of(problem.input)),
        grid(problem.grid.data),
        grid_strides(strides_of(problem.grid)) {}

  static Strides strides_of(const ConstTensor& tensor) {
    return {tensor.stride(0), tensor.stride(1), tensor.stride(2), tensor.stride(3), tensor.stride(4)};
  }
};

struct GridSampler3D : GridSampling3D {
  void* output;
  Strides output_strides;

  explicit GridSampler3D(const aclgrad::GridSampler3D& problem)
      : GridSampling3D(problem), output(problem.output.data), output_strides(strides_of(problem.output)) {}
};

struct GridSampler3DBackward : GridSampling3D {
  const void* grad_output;
  Strides grad_output_strides;
  bool wants_input_grad;
  bool wants_grid_grad;
  void* input_grad;
  Strides input_grad_strides;
  void* grid_grad;
  Strides grid_grad_strides;

  explicit GridSampler3DBackward(const aclgrad::GridSampler3DBackward& problem)
      : GridSampling3D(problem),
        grad_output(problem.grad_output.data),
        grad_output_strides(strides_of(problem.grad_output)),
        wants_input_grad(problem.grad_input.defined()),
        wants_grid_grad(problem.grad_grid.defined()),
        input_grad(problem.grad_input.data),
        input_grad_strides(strides_of(problem.grad_input)),
        grid_grad(problem.grad_grid.data),
        grid_grad_strides(strides_of(problem.grad_grid)) {}
};

}  // namespace aclgrad::ops::grid_sampler
