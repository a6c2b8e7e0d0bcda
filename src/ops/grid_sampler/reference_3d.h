// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The reference of three-dimensional grid sampling and its gradient: as reference.h, with one more axis.
#pragma once

#include "ops/grid_sampler/reference.h"

namespace aclgrad::reference {

// Modes, paddings and what does not change with the third axis are those of images. No bicubic.
struct GridSampling3D : GridSampling {
  int64_t depth;
  int64_t output_depth;
};

// Calls body(point, volume, weight by which a tap counts, its derivatives by x, y and z, voxel or -1) for each tap of
// each point.
template <class Body>
void for_each_voxel_tap(const GridSampling3D& s, const std::vector<double>& grid, bool forward, Body&& body) {
  const int64_t points = s.output_depth * s.output_height * s.output_width;
  for (int64_t point = 0; point < s.batch * points; ++point) {
    const double* at = &grid[static_cast<size_t>(3 * point)];
    const auto x_taps = grid_taps(at[0], s.width, s, forward);
    const auto y_taps = grid_taps(at[1], s.height, s, forward);
    const auto z_taps = grid_taps(at[2], s.depth, s, forward);
    for (const GridTap& z : z_taps) {
      for (const GridTap& y : y_taps) {
        for (const GridTap& x : x_taps) {
          if (x.pixel < 0 || y.pixel < 0 || z.pixel < 0) continue;
          const double slopes[] = {z.weight * y.weight * x.slope, z.weight * y.slope * x.weight,
                                   z.slope * y.weight * x.weight};
          body(point, point / points, z.weight * y.weight * x.weight, slopes,
               (z.pixel * s.height + y.pixel) * s.width + x.pixel);
        }
      }
    }
  }
}

// input [N, C, D, H, W], grid [N, Do, Ho, Wo, 3]; returns [N, C, Do, Ho, Wo].
inline std::vector<double> grid_sampler_3d(const GridSampling3D& s, const std::vector<double>& input,
                                           const std::vector<double>& grid) {
  const int64_t points = s.output_depth * s.output_height * s.output_width;
  const int64_t voxels = s.depth * s.height * s.width;
  std::vector<double> output(static_cast<size_t>(s.batch * s.channels * points));
  for_each_voxel_tap(s, grid, true,
                     [&](int64_t point, int64_t n, double weight, const double*, int64_t voxel) {
                       for (int64_t c = 0; c < s.channels; ++c) {
                         const int64_t plane = n * s.channels + c;
                         output[static_cast<size_t>(plane * points + point % points)] +=
                             term(weight * input[static_cast<size_t>(plane * voxels + voxel)]);
                       }
                     });
  return output;
}

// grad_output [N, C, Do, Ho, Wo].
inline GridSamplerGradients grid_sampler_3d_backward(const GridSampling3D& s,
                                                     const std::vector<double>& grad_output,
                                                     const std::vector<double>& input,
                                                     const std::vector<double>& grid) {
  const int64_t points = s.output_depth * s.output_height * s.output_width;
  const int64_t voxels = s.depth * s.height * s.width;
  GridSamplerGradients gradients{std::vector<double>(input.size(), 0.0),
                                 std::vector<double>(grid.size(), 0.0)};
  for_each_voxel_tap(
      s, grid, false, [&](int64_t point, int64_t n, double weight, const double* slopes, int64_t voxel) {
        for (int64_t c = 0; c < s.channels; ++c) {
          const int64_t plane = n * s.channels + c;
          const double gradient = grad_output[static_cast<size_t>(plane * points + point % points)];
          const auto at = static_cast<size_t>(plane * voxels + voxel);
          gradients.input[at] += term(weight * gradient);
          if (s.mode == 1) continue;  // has no slope, not even next to infinity
          for (int64_t k = 0; k < 3; ++k)
            gradients.grid[static_cast<size_t>(3 * point + k)] += term(slopes[k] * input[at] * gradient);
        }
      });
  return gradients;
}

}  // namespace aclgrad::reference
