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

struct GridSampling {
  int64_t batch;
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t output_height;
  int64_t output_width;
  int mode;     // 0 bilinear, 1 nearest, 2 bicubic
  int padding;  // 0 zeros, 1 border, 2 reflection
  bool align_corners;
  bool positions_in_double;
};

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

template <class Real>
GridPosition<Real> clip_position(GridPosition<Real> at, int64_t size) {
  const Real last = static_cast<Real>(size - 1);
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
std::vector<GridTap> cubic_taps(GridPosition<Real> at, int64_t size, const GridSampling& sampling,
                                bool forward) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (!std::isfinite(at.pixel)) return std::vector<GridTap>(forward ? 4 : 0, GridTap{-1, kNan, 0});
  const Real whole = std::floor(at.pixel);
  const double t = static_cast<double>(at.pixel) - static_cast<double>(whole);
  // Where the neighbours of a pixel are the same number, all taps read it: no slope.
  if (std::fabs(whole) >= 2 / std::numeric_limits<Real>::epsilon()) at.multiplier = 0;
  // Mirrored, the neighbours of a pixel are still its neighbours, perhaps in the opposite direction.
  const Real last = static_cast<Real>(size - 1);
  GridPosition<Real> centre{std::clamp<Real>(whole, -4, last + 4), 1};
  if (sampling.padding == 2) {
    centre = reflect_position<Real>({whole, 1}, size, sampling.align_corners);
    centre.pixel = std::clamp<Real>(centre.pixel, 0, last);
  }
  const double multiplier = static_cast<double>(at.multiplier);
  std::vector<GridTap> taps;
  for (int64_t k = -1; k <= 2; ++k) {
    const double distance = t - static_cast<double>(k);
    const int64_t pixel = static_cast<int64_t>(centre.pixel) + k * static_cast<int64_t>(centre.multiplier);
    taps.push_back({pad_tap(pixel, size, sampling.padding, sampling.align_corners), cubic_weight(distance),
                    cubic_slope(distance) * multiplier, cubic_curvature(distance) * multiplier * multiplier});
  }
  return taps;
}

// What a coordinate reads along one axis; nothing if it has no place among the pixels.
template <class Real>
std::vector<GridTap> axis_taps(Real coordinate, int64_t size, const GridSampling& sampling, bool forward) {
  GridPosition<Real> at = unnormalised_position(coordinate, size, sampling.align_corners);
  if (sampling.mode == 2) return cubic_taps(at, size, sampling, forward);
  if (sampling.padding == 1) at = clip_position(at, size);
  if (sampling.padding == 2) at = clip_position(reflect_position(at, size, sampling.align_corners), size);
  if (!(std::fabs(at.pixel) < (1 << 30) - 64)) {
    if (!forward || sampling.padding == 0) return {};
    const bool above = sampling.padding == 1 && at.pixel > 0;
    at.pixel = above ? static_cast<Real>(size - 1) : Real{0};
  }
  if (sampling.mode == 1) {
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

inline std::vector<GridTap> grid_taps(double coordinate, int64_t size, const GridSampling& sampling,
                                      bool forward) {
  if (sampling.positions_in_double) return axis_taps(coordinate, size, sampling, forward);
  return axis_taps(static_cast<float>(coordinate), size, sampling, forward);
}

// Calls body(index of the point in the batch, image, taps along x, taps along y) for each point.
template <class Body>
void for_each_grid_point(const GridSampling& sampling, const std::vector<double>& grid, bool forward,
                         Body&& body) {
  const int64_t points = sampling.output_height * sampling.output_width;
  for (int64_t point = 0; point < sampling.batch * points; ++point) {
    const auto at = static_cast<size_t>(2 * point);
    body(point, point / points, grid_taps(grid[at], sampling.width, sampling, forward),
         grid_taps(grid[at + 1], sampling.height, sampling, forward));
  }
}

// input [N, C, H, W], grid [N, Ho, Wo, 2]; returns [N, C, Ho, Wo].
inline std::vector<double> grid_sampler_2d(const GridSampling& sampling, const std::vector<double>& input,
                                           const std::vector<double>& grid) {
  const int64_t points = sampling.output_height * sampling.output_width;
  std::vector<double> output(static_cast<size_t>(sampling.batch * sampling.channels * points));
  for_each_grid_point(
      sampling, grid, true, [&](int64_t point, int64_t n, const auto& x_taps, const auto& y_taps) {
        for (int64_t c = 0; c < sampling.channels; ++c) {
          const int64_t plane = n * sampling.channels + c;
          double sum = 0;
          for (const GridTap& y : y_taps) {
            for (const GridTap& x : x_taps) {
              const int64_t at = (plane * sampling.height + y.pixel) * sampling.width + x.pixel;
              const bool is_pixel = x.pixel >= 0 && y.pixel >= 0;
              sum += term(y.weight * x.weight * (is_pixel ? input[static_cast<size_t>(at)] : 0));
            }
          }
          output[static_cast<size_t>(plane * points + point % points)] = sum;
        }
      });
  return output;
}

struct GridSamplerGradients {
  std::vector<double> input;  // [N, C, H, W]
  std::vector<double> grid;   // [N, Ho, Wo, 2]
};

// grad_output [N, C, Ho, Wo].
inline GridSamplerGradients grid_sampler_2d_backward(const GridSampling& sampling,
                                                     const std::vector<double>& grad_output,
                                                     const std::vector<double>& input,
                                                     const std::vector<double>& grid) {
  const int64_t points = sampling.output_height * sampling.output_width;
  GridSamplerGradients gradients{std::vector<double>(input.size(), 0.0),
                                 std::vector<double>(grid.size(), 0.0)};
  for_each_grid_point(
      sampling, grid, false, [&](int64_t point, int64_t n, const auto& x_taps, const auto& y_taps) {
        double x_gradient = 0;
        double y_gradient = 0;
        for (int64_t c = 0; c < sampling.channels; ++c) {
          const int64_t plane = n * sampling.channels + c;
          const double gradient = grad_output[static_cast<size_t>(plane * points + point % points)];
          for (const GridTap& y : y_taps) {
            for (const GridTap& x : x_taps) {
              if (x.pixel < 0 || y.pixel < 0) continue;
              const auto at =
                  static_cast<size_t>((plane * sampling.height + y.pixel) * sampling.width + x.pixel);
              gradients.input[at] += term(y.weight * x.weight * gradient);
              if (sampling.mode == 1) continue;  // has no slope, not even next to infinity
              x_gradient += term(y.weight * x.slope * input[at] * gradient);
              y_gradient += term(y.slope * x.weight * input[at] * gradient);
            }
          }
        }
        gradients.grid[static_cast<size_t>(2 * point)] = x_gradient;
        gradients.grid[static_cast<size_t>(2 * point + 1)] = y_gradient;
      });
  return gradients;
}

struct GridSamplerSecondGradients {
  std::vector<double> grad_output;  // [N, C, Ho, Wo]
  std::vector<double> input;        // [N, C, H, W]
  std::vector<double> grid;         // [N, Ho, Wo, 2]
};

// The gradients of sum(grad_grad_input * input gradient) + sum(grad_grad_grid * grid gradient). Either may have no values,
// and is zero then.
inline GridSamplerSecondGradients grid_sampler_2d_double_backward(const GridSampling& sampling,
                                                                  const std::vector<double>& grad_output,
                                                                  const std::vector<double>& input,
                                                                  const std::vector<double>& grid,
                                                                  const std::vector<double>& grad_grad_input,
                                                                  const std::vector<double>& grad_grad_grid) {
  const int64_t points = sampling.output_height * sampling.output_width;
  const bool moves = !grad_grad_grid.empty() && sampling.mode != 1;
  // A coordinate that moves no tap, as one that is clipped, has no derivative.
  const auto along = [&](const std::vector<GridTap>& taps, int64_t coordinate) {
    const bool has_slope =
        std::any_of(taps.begin(), taps.end(), [](const GridTap& tap) { return tap.slope != 0; });
    return moves && has_slope ? grad_grad_grid[static_cast<size_t>(coordinate)] : 0;
  };
  GridSamplerSecondGradients gradients{std::vector<double>(grad_output.size(), 0.0),
                                       std::vector<double>(input.size(), 0.0),
                                       std::vector<double>(grid.size(), 0.0)};
  for_each_grid_point(
      sampling, grid, false, [&](int64_t point, int64_t n, const auto& x_taps, const auto& y_taps) {
        const double x_along = along(x_taps, 2 * point);
        const double y_along = along(y_taps, 2 * point + 1);
        double x_gradient = 0;
        double y_gradient = 0;
        for (int64_t c = 0; c < sampling.channels; ++c) {
          const int64_t plane = n * sampling.channels + c;
          const auto of_point = static_cast<size_t>(plane * points + point % points);
          const double gradient = grad_output[of_point];
          for (const GridTap& y : y_taps) {
            for (const GridTap& x : x_taps) {
              if (x.pixel < 0 || y.pixel < 0) continue;
              const auto at =
                  static_cast<size_t>((plane * sampling.height + y.pixel) * sampling.width + x.pixel);
              const double x_slope = y.weight * x.slope, y_slope = y.slope * x.weight;
              if (!grad_grad_input.empty()) {
                gradients.grad_output[of_point] += term(y.weight * x.weight * grad_grad_input[at]);
                if (sampling.mode == 1) continue;  // has no slope, not even next to infinity
                x_gradient += term(x_slope * grad_grad_input[at] * gradient);
                y_gradient += term(y_slope * grad_grad_input[at] * gradient);
              }
              if (!moves) continue;
              const double weight = term(x_slope * x_along) + term(y_slope * y_along);
              const double xy = x.slope * y.slope;
              gradients.grad_output[of_point] += term(weight * input[at]);
              gradients.input[at] += term(weight * gradient);
              const double product = input[at] * gradient;
              x_gradient += term(xy * y_along * product);
              y_gradient += term(xy * x_along * product);
              if (sampling.mode == 0) continue;  // has no curvature, not even next to infinity
              x_gradient += term(y.weight * x.curvature * x_along * product);
              y_gradient += term(y.curvature * x.weight * y_along * product);
            }
          }
        }
        gradients.grid[static_cast<size_t>(2 * point)] = x_gradient;
        gradients.grid[static_cast<size_t>(2 * point + 1)] = y_gradient;
      });
  return gradients;
}

}  // namespace aclgrad::reference
