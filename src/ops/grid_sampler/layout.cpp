#include "ops/grid_sampler/layout.h"

#include <cmath>

namespace aclgrad::ops::grid_sampler {
namespace {

// The pixel at whose right or below a coordinate falls, without padding.
double pixel_before(double coordinate, int64_t size, bool align_corners) {
  const auto pixels = static_cast<double>(size);
  const double place =
      align_corners ? (coordinate + 1) / 2 * (pixels - 1) : ((coordinate + 1) * pixels - 1) / 2;
  return std::floor(place);
}

// Whether most samples of the grid read the pixels next to those of the sample before. Looks at some of them.
bool is_grid_smooth(const GridSampling& problem) {
  constexpr int64_t kMostProbes = 64;
  constexpr int64_t kNeighbours = 16;  // of a probe
  const int64_t samples = samples_of(problem);
  if (samples < kNeighbours) return false;
  // At most every fourth sample, so that this takes little of the time that a small problem takes.
  const int64_t probes = std::clamp<int64_t>(problem.batch * samples / (4 * kNeighbours), 1, kMostProbes);
  int64_t breaks = 0;
  visit_element_type(problem.type, [&]<class T>(T) {
    for (int64_t probe = 0; probe < probes; ++probe) {
      const auto grid = grid_of(static_cast<const T*>(problem.grid), problem.grid_strides,
                                probe * problem.batch / probes, problem.output_height, problem.output_width);
      double column = 0, row = 0;
      for_each_pixel(grid, (samples - kNeighbours) * probe / std::max<int64_t>(1, probes - 1), kNeighbours,
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
  return breaks <= probes * kNeighbours / 8;
}

}  // namespace

bool vectorises_over_samples(const GridSampling& problem) {
  return !vectorises_over_channels(problem) || (may_have_lines(problem) && is_grid_smooth(problem));
}

}  // namespace aclgrad::ops::grid_sampler
