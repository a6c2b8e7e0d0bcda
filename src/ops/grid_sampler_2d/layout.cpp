#include "ops/grid_sampler_2d/layout.h"

#include <cmath>

namespace aclgrad::ops::grid_sampler_2d {
namespace {

// The pixel at whose right or below a coordinate falls, without padding.
double pixel_before(double coordinate, int64_t size, bool align_corners) {
  const auto pixels = static_cast<double>(size);
  const double place =
      align_corners ? (coordinate + 1) / 2 * (pixels - 1) : ((coordinate + 1) * pixels - 1) / 2;
  return std::floor(place);
}

// Whether most points of the grid read the pixels next to those of the point before. Looks at some of them.
bool is_grid_smooth(const GridSampling& problem) {
  constexpr int64_t kMostSamples = 64;
  constexpr int64_t kNeighbours = 16;  // of a sample
  const int64_t points = points_of(problem);
  if (points < kNeighbours) return false;
  // At most every fourth point, so that this takes little of the time that a small problem takes.
  const int64_t samples = std::clamp<int64_t>(problem.batch * points / (4 * kNeighbours), 1, kMostSamples);
  int64_t breaks = 0;
  visit_element_type(problem.type, [&]<class T>(T) {
    for (int64_t sample = 0; sample < samples; ++sample) {
      const auto grid =
          grid_of(static_cast<const T*>(problem.grid), problem.grid_strides, sample * problem.batch / samples,
                  problem.output_height, problem.output_width);
      double column = 0, row = 0;
      for_each_pixel(grid, (points - kNeighbours) * sample / std::max<int64_t>(1, samples - 1), kNeighbours,
                     [&](int64_t k, int64_t offset) {
                       const double x =
                           pixel_before(to_real(grid.data[offset]), problem.width, problem.align_corners);
                       const double y = pixel_before(to_real(grid.data[offset + grid.channel_stride]),
                                                     problem.height, problem.align_corners);
                       if (k > 0 && !(x == column + 1 && y == row)) ++breaks;
                       column = x;
                       row = y;
                     });
    }
  });
  return breaks <= samples * kNeighbours / 8;
}

}  // namespace

bool goes_by_points(const GridSampling& problem) {
  return !has_channels_in_lanes(problem) || (may_have_lines(problem) && is_grid_smooth(problem));
}

}  // namespace aclgrad::ops::grid_sampler_2d
