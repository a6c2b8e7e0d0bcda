// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The problems of aclgrad/grid_sampler.h as the kernels on a GPU take them: sizes, strides and addresses by name. kAxes is 2
// for images and 3 for volumes.
#pragma once

#include <array>

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

  explicit SamplingOf(const GridSampling& problem)
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
    for (size_t k = 0; k < strides.size(); ++k) {
      const int axis = static_cast<int>(k);
      strides[k] = tensor.size(axis) == 1 ? 0 : tensor.stride(axis);  // of one element it may be any number
    }
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

// Of an image, or the voxels of a volume.
template <int kAxes>
int64_t samples_of(const SamplingOf<kAxes>& problem) {
  return problem.output_depth * problem.output_height * problem.output_width;
}
template <int kAxes>
int64_t pixels_of(const SamplingOf<kAxes>& problem) {
  return problem.depth * problem.height * problem.width;
}

}  // namespace aclgrad::ops::grid_sampler
