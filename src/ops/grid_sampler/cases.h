// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The problems that the tests hold against the reference, on every kind of device.
#pragma once

#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>
#include <vector>

#include "aclgrad/grid_sampler.h"
#include "ops/grid_sampler/reference.h"
#include "support/values.h"

namespace aclgrad::test::grid_sampler_cases {

inline constexpr DataType kTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16,
                                      DataType::float64};

using Sampling = reference::GridSampling;
using Sampling3D = reference::GridSampling3D;

template <class AnySampling>
inline constexpr bool kIs3D = std::is_same_v<AnySampling, Sampling3D>;

// Of a tensor [N, C, H, W] or [N, C, D, H, W].
template <int kAxes>
Shape input_shape(const reference::GridSamplingOf<kAxes>& s) {
  if (kAxes == 3) return {s.batch, s.channels, s.depth, s.height, s.width};
  return {s.batch, s.channels, s.height, s.width};
}
template <int kAxes>
Shape output_shape(const reference::GridSamplingOf<kAxes>& s) {
  if (kAxes == 3) return {s.batch, s.channels, s.output_depth, s.output_height, s.output_width};
  return {s.batch, s.channels, s.output_height, s.output_width};
}
template <int kAxes>
Shape grid_shape(const reference::GridSamplingOf<kAxes>& s) {
  if (kAxes == 3) return {s.batch, s.output_depth, s.output_height, s.output_width, kAxes};
  return {s.batch, s.output_height, s.output_width, kAxes};
}

// The three inputs of the gradient, rounded to a type.
struct Inputs {
  std::vector<double> grad_output;
  std::vector<double> input;
  std::vector<double> grid;

  Inputs() = default;
  template <class AnySampling>
  Inputs(const AnySampling& s, DataType type, double reach)
      : grad_output(rounded(uniform(element_count(output_shape(s)), -5, 5, 1), type)),
        input(rounded(uniform(element_count(input_shape(s)), -5, 5, 2), type)),
        grid(rounded(uniform(element_count(grid_shape(s)), -reach, reach, 3), type)) {}
};

template <class AnySampling>
std::vector<double> sample(const AnySampling& s, const Inputs& inputs) {
  return reference::grid_sampler(s, inputs.input, inputs.grid);
}

template <class AnySampling>
reference::GridSamplerGradients gradients_of(const AnySampling& s, const Inputs& inputs) {
  return reference::grid_sampler_backward(s, inputs.grad_output, inputs.input, inputs.grid);
}

inline Sampling sizes(int64_t batch, int64_t channels, int64_t height, int64_t width, int64_t output_height,
                      int64_t output_width) {
  return {batch, channels, 1, height, width, 1, output_height, output_width, 0, 0, false, false};
}

inline Sampling3D sizes(int64_t batch, int64_t channels, int64_t depth, int64_t height, int64_t width,
                        int64_t output_depth, int64_t output_height, int64_t output_width) {
  return {batch,         channels,     depth, height, width, output_depth,
          output_height, output_width, 0,     0,      false, false};
}

// The first three stand for all where there is little time: few channels and many.
inline const Sampling kSizes[] = {
    sizes(1, 1, 1, 1, 1, 1),    sizes(2, 3, 5, 7, 4, 6),      sizes(3, 20, 7, 3, 9, 5),
    sizes(1, 9, 8, 1, 3, 17),   sizes(1, 16, 16, 16, 15, 17), sizes(1, 5, 1, 9, 3, 3),
    sizes(1, 1, 31, 33, 1, 65), sizes(2, 18, 64, 64, 2, 3),   sizes(1, 48, 32, 31, 33, 32),
    sizes(40, 1, 4, 4, 3, 3),   sizes(1, 17, 64, 60, 37, 66), sizes(1, 3, 127, 128, 64, 129),
};

inline const Sampling3D kSizes3D[] = {
    sizes(2, 20, 3, 7, 5, 4, 9, 5),   sizes(2, 3, 4, 5, 7, 3, 4, 6),     sizes(1, 1, 1, 1, 1, 1, 1, 1),
    sizes(1, 5, 8, 3, 1, 3, 5, 7),    sizes(1, 16, 1, 9, 12, 5, 6, 7),   sizes(3, 2, 9, 1, 5, 2, 3, 8),
    sizes(1, 48, 6, 10, 9, 7, 8, 10), sizes(1, 17, 20, 18, 16, 2, 3, 4), sizes(1, 8, 11, 12, 13, 9, 10, 11),
};

// tolerance() is about means: of a few elements, all may be rounded by half a unit.
inline double allowed_error(DataType type, const std::vector<double>& expected) {
  if (expected.size() >= 100) return tolerance(type, true);
  return type == DataType::float16 ? 0x1p-11 : type == DataType::bfloat16 ? 0x1p-8 : tolerance(type, true);
}

// Relative to the size of the gradient's terms where these cancel: the image of one pixel has no slope.
inline double gradient_error(const std::vector<double>& actual, const std::vector<double>& expected) {
  double norm = 0;
  for (double value : expected) norm += value * value;
  if (norm >= 1e-12 * static_cast<double>(expected.size())) return relative_error(actual, expected);
  double difference = 0;
  for (size_t i = 0; i < actual.size(); ++i) difference += std::fabs(actual[i] - expected[i]);
  return 0.01 * difference / static_cast<double>(expected.size());
}

// Points far outside, on the centres and edges of pixels, and numbers that are no place at all.
template <class AnySampling>
std::vector<double> hostile_grid(const AnySampling& s, DataType type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double values[] = {-1e30, 1e30,  -3e9,   3e9,   kInfinity, -kInfinity, std::nan(""), 0,
                           -1,    1,     -1.5,   1.5,   -1e6,      1e6,        12345.678,    -98765.43,
                           -3,    3,     0.5,    -0.5,  1e-30,     7.999,      -7.99,        1e38,
                           1e-3,  65504, -65504, 1.125, -1.0001,   0.999,      3.4e38,       -1e20,
                           3.1e6, -7e6,  2.3e7,  5e8,   -8.7e8,    1e12,       -1e15,        1e300};
  std::vector<double> grid = uniform(element_count(grid_shape(s)), 0, std::size(values) - 0.001, 5);
  for (double& value : grid) value = values[static_cast<size_t>(value)];
  return rounded(grid, type);
}

// A gentle warp: most points read the pixels next to those of the point before, if there are as many points as pixels.
template <int kAxes>
std::vector<double> smooth_grid(const reference::GridSamplingOf<kAxes>& s, DataType type) {
  const auto at = [](int64_t i, int64_t size) {
    return (2.0 * static_cast<double>(i) + 1) / static_cast<double>(size) - 1;
  };
  std::vector<double> grid;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t sample = 0; sample < s.samples(); ++sample) {
      const double x = at(sample % s.output_width, s.output_width);
      const double y = at(sample / s.output_width % s.output_height, s.output_height);
      const double z = at(sample / s.output_width / s.output_height, s.output_depth);
      grid.push_back(1.02 * x + 0.02 * std::sin(5 * y + static_cast<double>(n)));
      grid.push_back(y + 0.02 * std::cos(4 * (kAxes == 3 ? z : x)));
      if (kAxes == 3) grid.push_back(z + 0.02 * std::sin(4 * x));
    }
  }
  return rounded(grid, type);
}

// Bicubic interpolation, the last mode, is of images alone.
template <class AnySampling>
inline constexpr int kLastMode = kIs3D<AnySampling> ? 1 : 2;

// Calls body with all modes up to the last one, paddings and alignments of the sizes.
template <class AnySampling, class Body>
void for_each_mode_to(int last_mode, AnySampling s, DataType type, Body&& body) {
  s.positions_in_double = type == DataType::float64;
  for (s.mode = 0; s.mode <= last_mode; ++s.mode) {
    for (s.padding = 0; s.padding < 3; ++s.padding) {
      for (bool align_corners : {false, true}) {
        s.align_corners = align_corners;
        body(s);
      }
    }
  }
}

inline aclgrad::Shape extents(const Shape& shape) {
  return {shape.data(), static_cast<int>(shape.size())};
}

// The problem of a sampling, but for its gradients and its output.
template <class Problem, class AnySampling>
Problem problem_of(const AnySampling& s, const ConstTensor& input, const ConstTensor& grid) {
  Problem problem;
  static_cast<GridSampling&>(problem) = {input, grid, Interpolation(s.mode), Padding(s.padding),
                                         s.align_corners};
  return problem;
}

// What the gradient's gradient reads beside the inputs of the gradient. Small, so that no result of 16 bits overflows.
struct MoreInputs : Inputs {
  std::vector<double> grad_grad_input;
  std::vector<double> grad_grad_grid;

  MoreInputs() = default;
  template <class AnySampling>
  MoreInputs(const AnySampling& s, DataType type, double reach)
      : Inputs(s, type, reach),
        grad_grad_input(rounded(uniform(element_count(input_shape(s)), -5, 5, 6), type)),
        grad_grad_grid(rounded(uniform(element_count(grid_shape(s)), -0.01, 0.01, 7), type)) {}
};

template <class AnySampling>
reference::GridSamplerSecondGradients expected_of(const AnySampling& s, const MoreInputs& inputs) {
  return reference::grid_sampler_double_backward(s, inputs.grad_output, inputs.input, inputs.grid,
                                                 inputs.grad_grad_input, inputs.grad_grad_grid);
}

}  // namespace aclgrad::test::grid_sampler_cases
