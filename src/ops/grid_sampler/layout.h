// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A problem as the CPU's kernels see it, and how its work is cut. There are four implementations, which
// implementations.cpp lists:
//
// by_samples: a vector holds one channel of neighbouring samples. Images and volumes are read where they lie, whatever
// their strides, and where a sample reads is found once for all channels. For few channels, float64, few samples in a
// large image, and forward where it takes longer to pack images than to read them: suits_samples() says where.
// by_samples_of_planes: the same, forward, of copies: of few channels whose pixels do not lie side by side in rows.
// by_channels: a vector holds channels of one pixel, so images are first brought into channels-last order, in pieces that
// stay in the cache.
// nearest: each sample's elements are copied, or their gradients added, whatever the type and strides.
//
// For the gradient the rows of an image are cut into bands. The task of a band goes through the samples in order and
// adds what falls into the band, so a pixel's sum does not depend on how many bands or threads there are.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/divide.h"
#include "base/parallel.h"
#include "base/workspace.h"
#include "ops/grid_sampler/axis.h"
#include "ops/grid_sampler/image.h"

namespace aclgrad::ops::grid_sampler {

inline int64_t taps_along_axis(Interpolation interpolation) {
  return interpolation == Interpolation::nearest ? 1 : interpolation == Interpolation::bicubic ? 4 : 2;
}

// Images of at most so many channels are read where they lie, without a copy.
inline constexpr int64_t kFewChannels = 4;

// A problem of either operator, with its tensors as images.
struct Sampling {
  DataType type;
  Interpolation interpolation;
  int axis_count;  // 2 for images, 3 for volumes
  int64_t batch;
  int64_t channels;
  int64_t pixels;   // of an image
  int64_t samples;  // of an image
  Axis axes[3];     // x, y and z; that of images has one pixel
  bool vectorises_over_channels;
  bool has_plain_rows;      // that can be read as they lie, with offsets of 32 bits
  bool in_strips = false;   // samples that need not keep their order are worked on in strips of the grid
  bool goes_up = false;     // the next row of the grid is expected above in the image, where that matters
  bool asks_ahead = false;  // nearest samples of planes ask for pixels some time before they read them
  Images input;
  Images grid;
  Images output;  // or its gradient
  // Of the gradient:
  Images input_grad;
  Images grid_grad;
  bool wants_input_grad;
  bool wants_grid_grad;
  bool wants_grad_grad_output;  // of its own gradient alone

  // Whether there is something to write for each sample.
  bool wants_own() const { return wants_grid_grad || wants_grad_grad_output; }
  const Axis& x_axis() const { return axes[0]; }
  const Axis& y_axis() const { return axes[1]; }
  const Axis& z_axis() const { return axes[2]; }
  // That of rows of images, or of slices of volumes, which bands are cut along.
  const Axis& last_axis() const { return axes[axis_count - 1]; }
  int64_t pixels_of_band(const RowBand& band) const {
    return (band.end - band.begin) * (pixels / last_axis().size);
  }
};

// How the sums of input_grad lie: those of 16-bit types in planes.
Images layout_of_sums(const Sampling& sampling);

// Whether the offsets of the input's pixels serve for these sums, too, or for neither: where each pixel is found on its own.
bool adds_alike(const Sampling& sampling);

// Whether an image can be read with 32-bit offsets (float64: 64-bit), in rows whose pixels lie side by side.
bool has_plain_rows(const Image& image);

inline bool has_few_channels(const Sampling& sampling) {
  return sampling.has_plain_rows && sampling.channels <= kFewChannels;
}

// Whether the gradient of the grid alone has the sums of by channels: those of four lanes, each of at most two channels.
inline bool sums_lanes(const Sampling& sampling) {
  constexpr int64_t kMaxChannels = 8;
  return sampling.vectorises_over_channels && !sampling.wants_input_grad && sampling.axis_count == 2 &&
         sampling.type == DataType::float32 && sampling.interpolation == Interpolation::bilinear &&
         sampling.channels > kFewChannels && sampling.channels <= kMaxChannels && sampling.has_plain_rows &&
         sampling.input.first.column_stride == 1 && sampling.input.first.channel_stride != 1;
}

// Calls function with the number of axes as a std::integral_constant.
template <class Function>
void visit_axes(const Sampling& sampling, Function&& function) {
  sampling.axis_count == 3 ? function(std::integral_constant<int, 3>())
                           : function(std::integral_constant<int, 2>());
}

// Of the gradient's gradient: `output` is grad_output.
struct DoubleBackward : Sampling {
  bool has_grad_grad_input;
  bool has_grad_grad_grid;  // and the weights of the taps depend on the grid
  Images grad_grad_input;
  Images grad_grad_grid;
  Images grad_grad_output;
};

Sampling sampling_of(const GridSampler2D& problem);
Sampling sampling_of(const GridSampler2DBackward& problem);
DoubleBackward sampling_of(const GridSampler2DDoubleBackward& problem);
Sampling sampling_of(const GridSampler3D& problem);
Sampling sampling_of(const GridSampler3DBackward& problem);
DoubleBackward sampling_of(const GridSampler3DDoubleBackward& problem);

inline bool is_empty(const Sampling& sampling) {
  return sampling.batch == 0 || sampling.channels == 0 || sampling.samples == 0 || sampling.pixels == 0;
}

void zero_box(const Image& image, const Box& box);
void zero_images(const Images& images, int64_t batch);

// Estimates of the time on one thread.
double forward_nanoseconds(const Sampling& sampling);
double gradient_nanoseconds(const Sampling& sampling);
double double_backward_nanoseconds(const DoubleBackward& sampling);

// The part of an estimate that falls to some images of the batch.
inline double share_of(double nanoseconds, int64_t images, const Sampling& sampling) {
  return nanoseconds * static_cast<double>(images) / static_cast<double>(sampling.batch);
}

// Channels that are worked on together where vectors are of channels.
inline int64_t channel_block(int64_t channels) {
  return channels <= 8 ? 4 : 16;
}

inline int64_t padded_channels(int64_t channels) {
  return divide_up(channels, channel_block(channels)) * channel_block(channels);
}

// Floats from one row of a buffer to the next. Where rows lie whole pages apart, what is stored to one delays the loads
// from the other: processors compare the addresses of loads and stores by their last 12 bits first.
inline int64_t spread_row(int64_t floats) {
  constexpr int64_t kPage = 1024;
  constexpr int64_t kMinDistance = 192;
  const int64_t beyond = floats % kPage;
  if (floats < kPage - kMinDistance || (beyond >= kMinDistance && beyond <= kPage - kMinDistance))
    return floats;
  return (floats + kMinDistance) / kPage * kPage + kMinDistance;
}

// Whether images lie in memory just as the kernels that are vectorised over channels want them.
inline bool is_channels_last(const Image& image) {
  return image.type == DataType::float32 && image.channel_stride == 1 &&
         image.channels == padded_channels(image.channels);
}

// Whether most samples of the grid read the pixels next to those of the sample before. Looks at some of them.
bool is_grid_smooth(const Sampling& sampling);

// Whether most read pixels apart from those of the sample before.
bool is_grid_scattered(const Sampling& sampling);

// Whether most read pixels near those of the sample before, but in other rows: more to its right or left than above or
// below.
bool is_grid_turned(const Sampling& sampling);

inline int64_t image_bytes(const Sampling& sampling) {
  return sampling.channels * sampling.pixels * static_cast<int64_t>(size_of(sampling.type));
}

// Whether an image is so large that the kernels ask for its pixels some time before they read them: caches do not hold
// it from one call to the next.
inline bool outgrows_cache(const Sampling& sampling) {
  constexpr int64_t kCacheBytes = 4 << 20;
  return image_bytes(sampling) > kCacheBytes;
}

// Whether pixels that are read in no order of memory come from memory. Of smaller images, to ask for them takes longer
// than it saves.
inline bool is_far(const Sampling& sampling) {
  constexpr int64_t kCacheBytes = 14 << 20;
  return image_bytes(sampling) > kCacheBytes;
}

// Whether each row of the grid lies above the row before it, which is looked up in the middle of the first grid: then the
// pixels above are asked for some time before they are read, and not those below.
bool goes_up(const Sampling& sampling);

// How many images are worked on together, so that so many bytes hold what each takes.
inline int64_t images_of_round(const Sampling& sampling, int64_t bytes, int64_t bytes_of_image) {
  return std::clamp<int64_t>(bytes / bytes_of_image, 1, sampling.batch);
}

// Calls body(first image, images) for rounds of so many.
template <class Body>
void for_each_round(const Sampling& sampling, int64_t images, Body&& body) {
  for (int64_t first = 0; first < sampling.batch; first += images)
    body(first, std::min(images, sampling.batch - first));
}

// Whether the samples of a row of the grid read so many rows of the images that caches do not hold them until the next.
bool suits_strips(const Sampling& sampling);

// Whether nearest samples take less time if they ask for the pixels of large images in planes.
bool asks_ahead(const Sampling& sampling);

// Whether a gradient takes less time if what the samples themselves get is found first, and what pixels get then: the caches
// do not hold both an image and its gradient, nor what samples that lie apart read.
bool finds_own_first(const Sampling& sampling);

// So many, so that all threads are done at about the same time.
inline constexpr int64_t kTasksOfThread = 4;

// How the samples of an image are cut: into runs of neighbours in a row, and parts of one run in each of some rows. Of
// about `max_samples`; or, in strips, of short runs, one below the other. Where results are stored past the caches, all runs
// but the first begin with a cache line.
class SampleRuns {
 public:
  SampleRuns(const Sampling& sampling, int64_t max_samples);

  int64_t parts() const { return divide_up(rows_, part_rows_) * runs_; }

  // Calls body(first sample, end) for the runs of a part.
  template <class Body>
  void for_each(int64_t part, Body&& body) const {
    const int64_t run = part % runs_, first_row = part / runs_ * part_rows_;
    for (int64_t row = first_row; row < std::min(first_row + part_rows_, rows_); ++row) {
      const int64_t first = begin_of(row, run), end = begin_of(row, run + 1);
      if (first < end) body(first, end);
    }
  }

 private:
  int64_t begin_of(int64_t row, int64_t run) const {
    const int64_t sample = row * row_samples_ + std::min(run * run_samples_, row_samples_);
    const int64_t to_line = (lead_ - sample) & (line_samples_ - 1);
    return sample == 0 ? 0 : std::min(sample + to_line, samples_);
  }

  int64_t samples_;
  int64_t row_samples_;  // all, where there are no strips
  int64_t rows_;
  int64_t runs_;  // of a row
  int64_t run_samples_;
  int64_t part_rows_;
  int64_t line_samples_;  // of a cache line
  int64_t lead_;          // before the first line
};

// Calls body(sampling, first image, images, first sample, end) for the runs of all images, in the order that suits the grid.
// Images of few samples are several at a time.
template <class Body>
void for_each_run(Sampling sampling, int64_t max_samples, double serial_nanoseconds, Body&& body) {
  sampling.in_strips = suits_strips(sampling);
  sampling.goes_up = goes_up(sampling);
  sampling.asks_ahead = asks_ahead(sampling);
  const SampleRuns runs(sampling, max_samples);
  const int64_t parts = runs.parts();
  const int64_t threads = serial_nanoseconds >= kMinParallelNanoseconds ? thread_count() : 1;
  const int64_t max_images = divide_up(sampling.batch, kTasksOfThread * threads);
  const int64_t images = std::max<int64_t>(std::min(max_samples / sampling.samples, max_images), 1);
  parallel_for(divide_up(sampling.batch, images) * parts, serial_nanoseconds, [&](int64_t index) {
    const int64_t image = index / parts * images;
    const int64_t count = std::min(images, sampling.batch - image);
    runs.for_each(index % parts,
                  [&](int64_t first, int64_t end) { body(sampling, image, count, first, end); });
  });
}

// Rows of the image that have to do with some samples.
struct RowSpan {
  int32_t first;
  int32_t last;

  bool meets(RowBand band) const { return last >= band.begin && first < band.end; }
  bool is_inside(RowBand band) const { return first >= band.begin && last < band.end; }
};

// How the rows of each image are cut.
struct Bands {
  int64_t height;  // of an image
  int64_t rows;    // of a band
  int64_t slots;   // bands that are worked on at the same time, at most

  int64_t count() const { return divide_up(height, rows); }  // of an image
  RowBand band(int64_t index) const { return {index * rows, std::min((index + 1) * rows, height)}; }
};

}  // namespace aclgrad::ops::grid_sampler
