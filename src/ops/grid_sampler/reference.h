// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The reference of grid sampling and its gradient. Positions are computed in the operator's own arithmetic type, since
// a point that is rounded across a pixel's border belongs to that pixel; everything else is in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/reference_terms.h"

namespace aclgrad::reference {

// Of images (two axes) or volumes (three). An image is a volume of depth 1.
template <int kAxes>
struct GridSamplingOf {
  int64_t batch;
  int64_t channels;
  int64_t depth = 1;
  int64_t height;
  int64_t width;
  int64_t output_depth = 1;
  int64_t output_height;
  int64_t output_width;
  int mode;     // 0 bilinear, 1 nearest, 2 bicubic, of images alone
  int padding;  // 0 zeros, 1 border, 2 reflection
  bool align_corners;
  bool positions_in_double;

  int64_t pixels() const { return depth * height * width; }
  int64_t samples() const { return output_depth * output_height * output_width; }  // of an image
};

using GridSampling = GridSamplingOf<2>;
using GridSampling3D = GridSamplingOf<3>;

struct GridTap {
  int64_t pixel;  // -1: none
  double weight;
  double slope;          // derivative of the weight by the grid coordinate
  double curvature = 0;  // the second one
};

template <class Real>
struct GridPosition {
  Real pixel;
  Real multiplier;  // pixels for each unit of the grid coordinate
};

// The last pixel that the type holds.
template <class Real>
Real last_position(int64_t size) {
  const auto last = static_cast<Real>(size - 1);
  return static_cast<int64_t>(last) < size ? last : std::nextafter(last, Real{0});
}

template <class Real>
GridPosition<Real> clip_position(GridPosition<Real> at, int64_t size) {
  const Real last = last_position<Real>(size);
  if (at.pixel <= 0) return {0, 0};
  if (at.pixel >= last) return {last, 0};
  return at;
}

template <class Real>
GridPosition<Real> reflect_position(GridPosition<Real> at, int64_t size, bool align_corners) {
  const Real low = align_corners ? Real{0} : Real{-0.5};
  const Real span = static_cast<Real>(align_corners ? size - 1 : size);
  if (std::isnan(at.pixel)) return at;
  if (span == 0) return {0, 0};
  const Real distance = at.pixel - low;
  const Real extra = std::fmod(std::fabs(distance), 2 * span);
  const bool odd = extra >= span;
  if (odd != (distance < 0)) at.multiplier = -at.multiplier;
  at.pixel = odd ? 2 * span - extra + low : extra + low;
  return at;
}

template <class Real>
GridPosition<Real> unnormalised_position(Real coordinate, int64_t size, bool align_corners) {
  const Real pixels = static_cast<Real>(size);
  if (align_corners) return {(coordinate + 1) / 2 * (pixels - 1), (pixels - 1) / 2};
  return {((coordinate + 1) * pixels - 1) / 2, pixels / 2};
}

inline int64_t pad_tap(int64_t pixel, int64_t size, int padding, bool align_corners) {
  if (pixel >= 0 && pixel < size) return pixel;
  if (padding == 0) return -1;
  GridPosition<double> at{static_cast<double>(pixel), 1};
  if (padding == 2) at = reflect_position(at, size, align_corners);
  return static_cast<int64_t>(clip_position(at, size).pixel);
}

inline double cubic_weight(double distance) {
  const double a = -0.75;
  const double x = std::fabs(distance);
  return x <= 1 ? term((a + 2) * x * x * x) + term(-(a + 3) * x * x) + 1
                : term(a * x * x * x) + term(-5 * a * x * x) + term(8 * a * x) + term(-4 * a);
}

inline double cubic_slope(double distance) {
  const double a = -0.75;
  const double x = std::fabs(distance);
  const double slope = x <= 1 ? term(3 * (a + 2) * x * x) + term(-2 * (a + 3) * x)
                              : term(3 * a * x * x) + term(-10 * a * x) + term(8 * a);
  return distance < 0 ? -slope : slope;
}

inline double cubic_curvature(double distance) {
  const double a = -0.75;
  const double x = std::fabs(distance);
  return x <= 1 ? term(6 * (a + 2) * x) + term(-2 * (a + 3)) : term(6 * a * x) + term(-10 * a);
}

// Bicubic interpolation pads the taps, not the point. A point that is not finite reads nothing; forward, its weights are
// NaN.
template <class Real>
std::vector<GridTap> cubic_taps(GridPosition<Real> at, int64_t size, int padding, bool align_corners,
                                bool forward) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (!std::isfinite(at.pixel)) return std::vector<GridTap>(forward ? 4 : 0, GridTap{-1, kNan, 0});
  const Real whole = std::floor(at.pixel);
  const double t = static_cast<double>(at.pixel) - static_cast<double>(whole);
  // Where the neighbours of a pixel are the same number, all taps read it: no slope.
  if (std::fabs(whole) >= 2 / std::numeric_limits<Real>::epsilon()) at.multiplier = 0;
  // Mirrored, the neighbours of a pixel are still its neighbours, perhaps in the opposite direction.
  const Real last = last_position<Real>(size);
  GridPosition<Real> centre{std::clamp<Real>(whole, -4, last + 256), 1};  // beyond in float, too
  if (padding == 2) {
    centre = reflect_position<Real>({whole, 1}, size, align_corners);
    centre.pixel = std::clamp<Real>(centre.pixel, 0, last);
  }
  const double multiplier = static_cast<double>(at.multiplier);
  std::vector<GridTap> taps;
  for (int64_t k = -1; k <= 2; ++k) {
    const double distance = t - static_cast<double>(k);
    const int64_t pixel = static_cast<int64_t>(centre.pixel) + k * static_cast<int64_t>(centre.multiplier);
    taps.push_back({pad_tap(pixel, size, padding, align_corners), cubic_weight(distance),
                    cubic_slope(distance) * multiplier, cubic_curvature(distance) * multiplier * multiplier});
  }
  return taps;
}

// What a coordinate reads along one axis; nothing if it has no place among the pixels.
template <class Real, class Sampling>
std::vector<GridTap> axis_taps(Real coordinate, int64_t size, const Sampling& s, bool forward) {
  GridPosition<Real> at = unnormalised_position(coordinate, size, s.align_corners);
  if (s.mode == 2) return cubic_taps(at, size, s.padding, s.align_corners, forward);
  if (s.padding == 1) at = clip_position(at, size);
  if (s.padding == 2) at = clip_position(reflect_position(at, size, s.align_corners), size);
  if (!(std::fabs(at.pixel) < (1 << 30) - 64)) {
    if (!forward || s.padding == 0) return {};
    const bool above = s.padding == 1 && at.pixel > 0;
    at.pixel = above ? last_position<Real>(size) : Real{0};
  }
  if (s.mode == 1) {
    const auto pixel = static_cast<int64_t>(std::nearbyint(at.pixel));
    return {{pixel < size ? pixel : -1, 1, 0}};
  }
  const double whole = std::floor(at.pixel);
  const double t = static_cast<double>(at.pixel) - whole;
  const auto base = static_cast<int64_t>(whole);
  const auto inside = [&](int64_t pixel) { return pixel >= 0 && pixel < size ? pixel : -1; };
  return {{inside(base), 1 - t, -static_cast<double>(at.multiplier)},
          {inside(base + 1), t, static_cast<double>(at.multiplier)}};
}

// What a sample reads from each channel.
template <int kAxes>
struct SampleTap {
  int64_t pixel;  // -1: none
  double weight;
  double slope[kAxes];             // derivatives of the weight by the grid's coordinates x, y and z
  double curvature[kAxes][kAxes];  // the second ones
};

template <int kAxes>
SampleTap<kAxes> sample_tap(const GridSamplingOf<kAxes>& s, const GridTap& x, const GridTap& y,
                            const GridTap& z) {
  const bool is_pixel = x.pixel >= 0 && y.pixel >= 0 && z.pixel >= 0;
  SampleTap<kAxes> tap{is_pixel ? (z.pixel * s.height + y.pixel) * s.width + x.pixel : -1,
                       z.weight * y.weight * x.weight,
                       {},
                       {}};
  // The product of one factor an axis: its weight, or how that changes along `first` and `second`.
  const auto derivative = [&](int first, int second) {
    const auto factor = [&](const GridTap& of_axis, int axis) {
      const int order = (axis == first) + (axis == second);
      return order == 0 ? of_axis.weight : order == 1 ? of_axis.slope : of_axis.curvature;
    };
    return factor(z, 2) * factor(y, 1) * factor(x, 0);
  };
  for (int axis = 0; axis < kAxes; ++axis) {
    tap.slope[axis] = derivative(axis, -1);
    for (int other = 0; other < kAxes; ++other) tap.curvature[axis][other] = derivative(axis, other);
  }
  return tap;
}

// One sample of the batch.
template <int kAxes>
struct Sample {
  int64_t number;
  int64_t image;
  bool moves[kAxes];  // along x, y and z: a coordinate that is clipped moves no tap
  std::vector<SampleTap<kAxes>> taps;
};

// Calls body(Sample) for each.
template <int kAxes, class Body>
void for_each_sample(const GridSamplingOf<kAxes>& s, const std::vector<double>& grid, bool forward,
                     Body&& body) {
  const int64_t sizes[] = {s.width, s.height, s.depth};
  Sample<kAxes> sample;
  for (sample.number = 0; sample.number < s.batch * s.samples(); ++sample.number) {
    sample.image = sample.number / s.samples();
    std::vector<GridTap> along[3];
    along[2] = {{0, 1, 0}};  // of images
    for (int axis = 0; axis < kAxes; ++axis) {
      const double coordinate = grid[static_cast<size_t>(kAxes * sample.number + axis)];
      along[axis] = s.positions_in_double
                        ? axis_taps(coordinate, sizes[axis], s, forward)
                        : axis_taps(static_cast<float>(coordinate), sizes[axis], s, forward);
      sample.moves[axis] = std::any_of(along[axis].begin(), along[axis].end(),
                                       [](const GridTap& tap) { return tap.slope != 0; });
    }
    sample.taps.clear();
    for (const GridTap& z : along[2]) {
      for (const GridTap& y : along[1]) {
        for (const GridTap& x : along[0]) sample.taps.push_back(sample_tap(s, x, y, z));
      }
    }
    body(sample);
  }
}

// input [N, C, (D,) H, W], grid [N, (Do,) Ho, Wo, 2 or 3]; returns [N, C, (Do,) Ho, Wo].
template <int kAxes>
std::vector<double> grid_sampler(const GridSamplingOf<kAxes>& s, const std::vector<double>& input,
                                 const std::vector<double>& grid) {
  std::vector<double> output(static_cast<size_t>(s.batch * s.channels * s.samples()));
  for_each_sample(s, grid, true, [&](const Sample<kAxes>& sample) {
    for (int64_t c = 0; c < s.channels; ++c) {
      const int64_t channel = sample.image * s.channels + c;
      double sum = 0;
      for (const SampleTap<kAxes>& tap : sample.taps) {
        const auto at = static_cast<size_t>(channel * s.pixels() + tap.pixel);
        sum += term(tap.weight * (tap.pixel >= 0 ? input[at] : 0));
      }
      output[static_cast<size_t>(channel * s.samples() + sample.number % s.samples())] = sum;
    }
  });
  return output;
}

// Calls body(sample, tap, its pixel in input, the sample in grad_output) for each tap that reads a pixel, channel by channel.
template <int kAxes, class Body>
void for_each_tap(const GridSamplingOf<kAxes>& s, const Sample<kAxes>& sample, Body&& body) {
  for (int64_t c = 0; c < s.channels; ++c) {
    const int64_t channel = sample.image * s.channels + c;
    const auto output = static_cast<size_t>(channel * s.samples() + sample.number % s.samples());
    for (const SampleTap<kAxes>& tap : sample.taps) {
      if (tap.pixel >= 0) body(tap, static_cast<size_t>(channel * s.pixels() + tap.pixel), output);
    }
  }
}

struct GridSamplerGradients {
  std::vector<double> input;
  std::vector<double> grid;
};

// grad_output [N, C, (Do,) Ho, Wo].
template <int kAxes>
GridSamplerGradients grid_sampler_backward(const GridSamplingOf<kAxes>& s,
                                           const std::vector<double>& grad_output,
                                           const std::vector<double>& input,
                                           const std::vector<double>& grid) {
  GridSamplerGradients gradients{std::vector<double>(input.size(), 0.0),
                                 std::vector<double>(grid.size(), 0.0)};
  for_each_sample(s, grid, false, [&](const Sample<kAxes>& sample) {
    double* of_grid = gradients.grid.data() + kAxes * sample.number;
    for_each_tap(s, sample, [&](const SampleTap<kAxes>& tap, size_t pixel, size_t output) {
      const double gradient = grad_output[output];
      gradients.input[pixel] += term(tap.weight * gradient);
      if (s.mode == 1) return;  // has no slope, not even next to infinity
      for (int axis = 0; axis < kAxes; ++axis)
        of_grid[axis] += term(tap.slope[axis] * input[pixel] * gradient);
    });
  });
  return gradients;
}

struct GridSamplerSecondGradients {
  std::vector<double> grad_output;
  std::vector<double> input;
  std::vector<double> grid;
};

// The gradients of sum(grad_grad_input * input gradient) + sum(grad_grad_grid * grid gradient). Either may have no values,
// and is zero then.
template <int kAxes>
GridSamplerSecondGradients grid_sampler_double_backward(const GridSamplingOf<kAxes>& s,
                                                        const std::vector<double>& grad_output,
                                                        const std::vector<double>& input,
                                                        const std::vector<double>& grid,
                                                        const std::vector<double>& grad_grad_input,
                                                        const std::vector<double>& grad_grad_grid) {
  const bool moves = !grad_grad_grid.empty() && s.mode != 1;
  GridSamplerSecondGradients gradients{std::vector<double>(grad_output.size(), 0.0),
                                       std::vector<double>(input.size(), 0.0),
                                       std::vector<double>(grid.size(), 0.0)};
  for_each_sample(s, grid, false, [&](const Sample<kAxes>& sample) {
    double* of_grid = gradients.grid.data() + kAxes * sample.number;
    double along[kAxes] = {};
    for (int axis = 0; axis < kAxes; ++axis) {
      if (moves && sample.moves[axis])
        along[axis] = grad_grad_grid[static_cast<size_t>(kAxes * sample.number + axis)];
    }
    for_each_tap(s, sample, [&](const SampleTap<kAxes>& tap, size_t pixel, size_t output) {
      const double gradient = grad_output[output];
      if (!grad_grad_input.empty()) {
        gradients.grad_output[output] += term(tap.weight * grad_grad_input[pixel]);
        if (s.mode == 1) return;  // has no slope, not even next to infinity
        for (int axis = 0; axis < kAxes; ++axis)
          of_grid[axis] += term(tap.slope[axis] * grad_grad_input[pixel] * gradient);
      }
      if (!moves) return;
      double weight = 0;
      for (int axis = 0; axis < kAxes; ++axis) weight += term(tap.slope[axis] * along[axis]);
      gradients.grad_output[output] += term(weight * input[pixel]);
      gradients.input[pixel] += term(weight * gradient);
      for (int axis = 0; axis < kAxes; ++axis) {
        for (int other = 0; other < kAxes; ++other) {
          if (axis == other && s.mode == 0) continue;  // has no curvature, not even next to infinity
          of_grid[axis] += term(tap.curvature[axis][other] * along[other] * (input[pixel] * gradient));
        }
      }
    });
  });
  return gradients;
}

}  // namespace aclgrad::reference
