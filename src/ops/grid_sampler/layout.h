// How the work is cut, and what the workspace holds. There are two implementations:
//
// Vectorised over channels: a vector holds channels of one pixel, so images are first brought into channels-last order,
// in pieces that stay in the cache.
// Vectorised over samples: for float64, for few samples in a large image, for many images of one channel, and for few
// channels where the grid is smooth. A vector holds one channel of several samples, and images are read where they lie.
// On a smooth grid neighbouring samples read neighbouring pixels: see lines-inl.h.
//
// For the gradient the rows of an image are cut into bands. The task of a band goes through the samples in order and
// adds what falls into the band, so a pixel's sum does not depend on how many bands or threads there are.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/parallel.h"
#include "base/workspace.h"
#include "ops/grid_sampler/image.h"

namespace aclgrad::ops::grid_sampler {

inline constexpr int64_t kChunkSamples = 64;  // samples of a chunk, of which the first and last row are known

inline int64_t samples_of(const GridSampling& problem) {
  return problem.output_height * problem.output_width;
}
inline int64_t pixels_of(const GridSampling& problem) {
  return problem.height * problem.width;
}

// Channels that are worked on together where vectors are of channels.
inline int64_t channel_block(const GridSampling& problem) {
  return problem.channels <= 8 ? 4 : 16;
}

inline int64_t padded_channels(const GridSampling& problem) {
  return divide_up(problem.channels, channel_block(problem)) * channel_block(problem);
}

// The fewer channels, the less a vector of them gains on one of samples. A large image on its own is no case for vectors
// of samples: where samples are scattered, they are listed for each thread by the other implementation only.
inline bool vectorises_over_channels(const GridSampling& problem) {
  constexpr int64_t kManyImages = 16;
  if (problem.type == DataType::float64) return false;
  if (problem.type == DataType::float32 && problem.channels == 1 && problem.batch >= kManyImages)
    return false;
  return samples_of(problem) >= pixels_of(problem) / (problem.channels <= 2 ? 4 : 8);
}

// Whether vectors of channels are possible, but those of samples faster if these lie in lines, see lines-inl.h.
inline bool may_have_lines(const GridSampling& problem) {
  constexpr int64_t kFewChannels = 4;
  return problem.type == DataType::float32 && problem.interpolation != Interpolation::bicubic &&
         problem.channels <= kFewChannels;
}

// This looks at the grid.
bool vectorises_over_samples(const GridSampling& problem);

inline Axis x_axis_of(const GridSampling& problem, bool forward) {
  return {problem.width, problem.padding, problem.align_corners, forward};
}

inline Axis y_axis_of(const GridSampling& problem, bool forward) {
  return {problem.height, problem.padding, problem.align_corners, forward};
}

// Whether a tensor of images lies in memory just as the kernels that are vectorised over channels want it.
inline bool is_channels_last(const GridSampling& problem, const GridSampling::Strides& strides) {
  return problem.type == DataType::float32 && strides[1] == 1 &&
         problem.channels % channel_block(problem) == 0;
}

}  // namespace aclgrad::ops::grid_sampler
