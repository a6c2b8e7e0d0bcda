// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How the gradient is cut where it is vectorised over samples: bands of rows, and where the sums of each are.
#pragma once

#include <numeric>

#include "ops/grid_sampler/implementations.h"

namespace aclgrad::ops::grid_sampler {

inline constexpr int64_t kChunkSamples = 64;  // of which the first and last row are known

// Sums of input_grad: an image of Reals whose rows start at `first_row` of the image; of volumes it is slices. They become
// zero when the samples come to them: so they are in the cache when they are added to.
struct Sums {
  Image rows;
  int64_t first_row;
  RowBand missing;  // rows yet to come
  bool are_slices = false;

  void zero_to(int64_t last_row) {
    if (rows.row_stride < rows.column_stride)
      last_row = missing.end - 1;  // they lie in memory column by column
    const int64_t end = std::min(last_row + 1, missing.end);
    if (end <= missing.begin) return;
    const RowBand band{missing.begin - first_row, end - first_row};
    zero_box(rows, are_slices ? Box{band, {0, rows.height}} : Box{{0, 1}, band});
    missing.begin = end;
  }
};

// Sizes that follow from the shape, and the workspace.
struct SamplesLayout {
  // Bands of all images. As each image has a whole number, there may be up to twice as many.
  static constexpr int64_t kTargetTasks = 32;
  // Floats between the planes of a buffer. Where planes lie whole pages apart, the pixels of a sample share lines of the
  // first-level cache: four channels that are turned by 30 degrees then take 3.5 times as long.
  static constexpr int64_t kBetweenPlanes = 48;

  int64_t chunks;     // of samples, in an image
  int64_t max_bands;  // of an image
  int64_t channels;
  int64_t row_pixels;     // of volumes those of a slice
  int64_t buffer_floats;  // for one image at least, so that a band of a rough grid may be the whole of it
  bool adds_in_buffer;    // 16-bit types do
  bool may_add_in_buffer;
  RowSpan* spans = nullptr;  // [batch, chunks]
  float* buffers = nullptr;  // [slots, channels, rows of a band and a little more]

  SamplesLayout(const Sampling& sampling, WorkspaceAllocator& allocator)
      : chunks(divide_up(sampling.samples, kChunkSamples)),
        channels(sampling.channels),
        row_pixels(sampling.pixels_of_band({0, 1})),
        adds_in_buffer(size_of(sampling.type) == 2),
        may_add_in_buffer(adds_in_buffer || has_planes_pages_apart(sampling)) {
    // A sample next to a band's end is prepared twice.
    const bool interpolates = sampling.interpolation != Interpolation::nearest;
    const int64_t min_rows = sampling.axis_count == 2 || (adds_in_buffer && interpolates) ? 8 : 1;
    constexpr int64_t kMinElements = 8192;  // of a band
    constexpr int64_t kMaxSlots = 16;

    const int64_t height = sampling.last_axis().size;
    const int64_t elements = sampling.channels * std::max(sampling.samples, sampling.pixels);
    max_bands =
        std::min({divide_up(kTargetTasks, sampling.batch), height / min_rows, elements / kMinElements});
    max_bands = std::max<int64_t>(max_bands, 1);
    const int64_t slots = std::min(sampling.batch * max_bands, kMaxSlots);
    buffer_floats = std::max(slots * band_floats(divide_up(height, max_bands)), band_floats(height));
    if (!sampling.wants_input_grad) return;
    spans = allocator.take<RowSpan>(sampling.batch * chunks);
    buffers = allocator.take<float>(may_add_in_buffer ? buffer_floats : 0);
  }

  // Whether planes of a large gradient lie whole pages apart, and samples are so many that it pays to copy the sums.
  static bool has_planes_pages_apart(const Sampling& sampling) {
    constexpr int64_t kPageFloats = 1024, kMinChannels = 3, kMinBytes = 2 << 20;
    const Image& sums = sampling.input_grad.first;
    return sampling.type == DataType::float32 && sampling.axis_count == 2 &&
           sampling.channels >= kMinChannels && image_bytes(sampling) >= kMinBytes &&
           4 * sampling.samples >= sampling.pixels && sums.column_stride == 1 &&
           sums.row_stride == sums.width && sums.channel_stride % kPageFloats == 0;
  }

  int64_t band_floats(int64_t rows) const { return channels * (rows * row_pixels + kBetweenPlanes); }

  // The fewer bands, the fewer samples lie in two. Images are not cut if each thread gets as many of them.
  Bands bands_for(int64_t threads, const Sampling& sampling) const {
    // To find the one pixel of a nearest sample takes as long as to add to it; and between two slices lie many samples.
    const bool is_nearest = sampling.interpolation == Interpolation::nearest;
    const int64_t bands_per_thread = is_nearest ? 1 : sampling.axis_count == 3 ? 2 : 4;
    int64_t count = divide_up(threads * bands_per_thread, sampling.batch);
    if (!adds_in_buffer && sampling.batch % threads == 0) count = 1;
    // Buffers of 16-bit types are as small as may be. Those of floats are for large images, where few bands take less time.
    constexpr int64_t kFewBands = 8;
    if (adds_in_buffer) count = size_of(sampling.type) == 2 ? max_bands : std::max(count, kFewBands);
    const int64_t height = sampling.last_axis().size, rows = divide_up(height, std::min(count, max_bands));
    return {height, rows, adds_in_buffer ? buffer_floats / band_floats(rows) : sampling.batch * max_bands};
  }

  // Whether every band goes through most of the samples.
  bool are_scattered(const Bands& bands, const Sampling& sampling) const {
    constexpr int64_t kFewVisits = 3;                    // of a chunk, or half of few bands
    const auto rows = static_cast<int32_t>(bands.rows);  // 64 bits take longer to divide by
    int64_t visits = 0;
    for (int64_t chunk = 0; chunk < sampling.batch * chunks; ++chunk)
      visits += spans[chunk].last / rows - spans[chunk].first / rows + 1;
    return 2 * visits > std::min(2 * kFewVisits, bands.count() + 1) * sampling.batch * chunks;
  }

  // Whether no band has many more samples than others. Looks at some of them.
  bool are_even(const Bands& bands, const Sampling& sampling) const {
    constexpr int64_t kProbe = 7;  // not the same part of each row
    int64_t of_bands[2 * kTargetTasks] = {};
    const std::span<int64_t> samples(of_bands, static_cast<size_t>(sampling.batch * bands.count()));
    for (int64_t chunk = 0; chunk < sampling.batch * chunks; chunk += kProbe) {
      const int64_t first = chunk / chunks * bands.count();
      for (int64_t band = spans[chunk].first / bands.rows; band <= spans[chunk].last / bands.rows; ++band)
        ++samples[static_cast<size_t>(first + band)];
    }
    const int64_t mean = std::reduce(samples.begin(), samples.end()) / std::ssize(samples);
    return *std::max_element(samples.begin(), samples.end()) <= mean + mean / 8;
  }

  // No more than threads need.
  Bands fewer_bands(const Bands& bands, int64_t threads, const Sampling& sampling) const {
    int64_t count = divide_up(threads, sampling.batch);
    if (adds_in_buffer)
      count = std::max(count, divide_up(threads * band_floats(bands.height), buffer_floats));
    const int64_t rows = divide_up(bands.height, std::min(count, bands.count()));
    return {bands.height, rows, adds_in_buffer ? buffer_floats / band_floats(rows) : bands.slots};
  }

  float* buffer(const Bands& bands, int64_t slot) const { return buffers + slot * band_floats(bands.rows); }

  // Those of a band.
  Sums sums_of(const Sampling& sampling, int64_t image, RowBand band, float* buffer) const {
    const bool are_slices = sampling.axis_count == 3;
    Image rows = sampling.input_grad[image];
    if (!adds_in_buffer) return {rows, 0, band, are_slices};
    (are_slices ? rows.depth : rows.height) = band.end - band.begin;
    Image planes = as_planes(rows, DataType::float32, rows.width, buffer);
    planes.channel_stride += kBetweenPlanes;
    return {planes, band.begin, band, are_slices};
  }
};

// Calls run(sampling) for a gradient whose sums lie as its input does. Else once for what the samples get, and once for
// what the pixels get, with an input that lies as the sums do: it is not read.
template <class Problem, class Run>
void run_alike(const Problem& sampling, Run&& run) {
  if (!sampling.wants_input_grad || adds_alike(sampling)) return run(sampling);
  Problem own = sampling, sums = sampling;
  own.wants_input_grad = sums.wants_grid_grad = sums.wants_grad_grad_output = false;
  if (own.wants_own()) run(own);
  sums.input = layout_of_sums(sampling);
  sums.has_plain_rows = has_plain_rows(sums.input.first);
  run(sums);
}

}  // namespace aclgrad::ops::grid_sampler
