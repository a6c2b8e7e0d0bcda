// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of grid sampling, vectorised over channels.
//
// Each task takes a band of rows of an image: it brings the rows that its samples read into channels-last order, adds
// what the samples give to a channels-last buffer, and writes the band out. The band that has a sample's first row also
// computes its grid_grad. The buffers of a band are small, so that the next one finds them in the cache. Which samples
// a band has is found out before: of each chunk of neighbours, from which row to which they lie. Where most chunks have
// to do with many bands, that is too coarse; then the samples of each band are listed.
#include <bit>

#include "ops/grid_sampler/grad.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/grad_by_channels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/channels-inl.h"

#ifndef ACLGRAD_OPS_GRID_SAMPLER_GRAD_BY_CHANNELS_
#define ACLGRAD_OPS_GRID_SAMPLER_GRAD_BY_CHANNELS_
namespace aclgrad::ops::grid_sampler {

// Samples of a chunk, of which the first and last row are known: few, so that few chunks have to do with two bands.
inline constexpr int64_t kBandChunk = 32;

// Sizes that follow from types, shapes and strides, and the workspace.
struct ChannelsLayout {
  int64_t taps = 0;     // of an axis
  int64_t channels;     // of a pixel in channels-last order
  bool packs_input;     // or else it is read where it lies
  bool packs_gradient;  // grad_output
  bool wants_input_grad;
  int64_t height;
  int64_t chunks;      // of samples, in an image
  int64_t run_chunks;  // whose gradients are packed together
  int64_t images;      // worked on together
  int64_t row_floats;  // from one row of a buffer to the next
  Bands finest;        // what the workspace holds
  int64_t run_floats;
  // Samples of an image are listed in segments, each with one list for each band.
  int64_t segments;
  int64_t segment_samples;

  float* no_pixel;       // [channels]
  RowSpan* spans;        // [images, chunks]
  float* input_buffers;  // [slots, input_floats]
  float* sums_buffers;   // [slots, sums_floats + channels]
  float* run_gradients;  // [slots, run_floats]
  // Where samples are scattered:
  float* all_gradients;  // [images, samples, channels]
  uint32_t* lists;       // [images, segments, segment_samples * kLists]
  int64_t* list_ends;    // [images, segments, bands]

  ChannelsLayout(const Sampling& sampling, WorkspaceAllocator& allocator)
      : channels(padded_channels(sampling.channels)),
        wants_input_grad(sampling.wants_input_grad),
        height(sampling.y_axis().size),
        chunks(divide_up(sampling.samples, kBandChunk)) {
    constexpr int64_t kRoundBytes = 8 << 20;
    constexpr int64_t kBandBytes = 256 << 10;
    constexpr int64_t kRunBytes = 32 << 10;
    constexpr int64_t kMostSlots = 64;
    constexpr int64_t kLeastTasks = 16;
    constexpr int64_t kLeastListed = 64;  // samples of a list, on average

    visit_taps(sampling.interpolation, [&](auto count) { taps = count; });
    const Image& gradient = sampling.output.first;
    const bool is_flat = gradient.row_stride == gradient.width * gradient.column_stride;
    packs_input = sampling.wants_grid_grad && !is_channels_last(sampling.input.first);
    packs_gradient = !is_channels_last(gradient) || !is_flat;
    run_chunks = std::clamp<int64_t>(kRunBytes / (kBandChunk * channels * 4), 1, 16);
    const int64_t sample_bytes = kLists * 4 + (packs_gradient ? channels * 4 : 0);
    images = images_of_round(sampling, kRoundBytes, sampling.samples * sample_bytes);

    row_floats = spread_row(sampling.x_axis().size * channels);
    finest = widest_bands(kLeastRows, kBandBytes, divide_up(kLeastTasks, images), kMostSlots);
    run_floats = packs_gradient ? run_chunks * kBandChunk * channels : 0;
    segments = std::clamp<int64_t>(sampling.samples / (finest.count() * kLeastListed), 1, 64);
    segment_samples = divide_up(divide_up(sampling.samples, segments), kBandChunk) * kBandChunk;

    no_pixel = allocator.take<float>(channels);
    spans = allocator.take<RowSpan>(images * chunks);
    input_buffers = allocator.take<float>(finest.slots * input_floats(finest));
    sums_buffers = allocator.take<float>(finest.slots * (sums_floats(finest) + channels));
    run_gradients = allocator.take<float>(finest.slots * run_floats);
    all_gradients = allocator.take<float>(packs_gradient ? images * sampling.samples * channels : 0);
    lists = allocator.take<uint32_t>(images * segments * segment_samples * kLists);
    list_ends = allocator.take<int64_t>(images * segments * finest.count());
  }

  // Those to cut by. What lies at the ends of bands is packed for both sides, so the fewer threads there are, the fewer
  // bands; not so few, though, that a busy neighbour could hold up the others. Packing less is worth more than buffers
  // that fit the second-level cache.
  Bands bands_for(int64_t threads) const {
    constexpr int64_t kBandBytes = 1 << 20;
    constexpr int64_t kTasksPerThread = 4;
    Bands bands =
        widest_bands(finest.rows, kBandBytes, divide_up(threads * kTasksPerThread, images), threads);
    while (bands.rows > finest.rows && !have_room(bands)) bands = bands_of(bands.rows / 2, threads);
    return bands.rows == finest.rows ? finest : bands;
  }

  // Floats of the buffers of one band.
  int64_t input_floats(const Bands& bands) const {
    return packs_input ? (bands.rows + taps - 1) * row_floats : 0;
  }
  int64_t sums_floats(const Bands& bands) const {
    return wants_input_grad ? (bands.rows + 2 * (taps - 1)) * row_floats : 0;
  }

  static constexpr int64_t kLists = 2;

 private:
  // A band has at least as many rows as a sample has taps, so that a sample is in two lists at most; and a power of two.
  static constexpr int64_t kLeastRows = 4;

  Bands bands_of(int64_t rows, int64_t most_slots) const {
    return {height, rows, std::min(most_slots, images * divide_up(height, rows))};
  }

  // Bands of about so many bytes and at least so many rows; if that leaves room, at least so many.
  Bands widest_bands(int64_t rows, int64_t bytes, int64_t least, int64_t most_slots) const {
    while (row_floats * 4 * rows < bytes && least * rows < height) rows *= 2;
    return bands_of(rows, most_slots);
  }

  // Whether the workspace holds their buffers.
  bool have_room(const Bands& bands) const {
    return bands.slots <= finest.slots &&
           bands.slots * input_floats(bands) <= finest.slots * input_floats(finest) &&
           bands.slots * sums_floats(bands) <= finest.slots * sums_floats(finest);
  }
};

}  // namespace aclgrad::ops::grid_sampler
#endif

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

class GradByChannels {
 public:
  GradByChannels(const Sampling& sampling, const ChannelsLayout& layout)
      : sampling_(sampling),
        layout_(layout),
        bands_(layout.bands_for(thread_count())),
        band_count_(bands_.count()),
        band_shift_(std::countr_zero(static_cast<uint64_t>(bands_.rows))) {}

  void run() {
    visit_taps(sampling_.interpolation, [&](auto taps) {
      const auto choose = channel_block(sampling_.channels) == 4 ? choose_differentiate_block<taps, 4>
                                                                 : choose_differentiate_block<taps, 16>;
      differentiate_block_ = choose(sampling_.wants_input_grad, sampling_.wants_grid_grad);
    });
    std::fill_n(layout_.no_pixel, layout_.channels, 0.0f);
    for_each_round(sampling_, layout_.images, [&](int64_t first_image, int64_t images) {
      first_image_ = first_image;
      images_ = images;
      constexpr double kSampleNanoseconds = 1.5;
      find_spans(sampling_, first_image, images, kBandChunk,
                 kSampleNanoseconds * static_cast<double>(images * sampling_.samples), layout_.spans);
      scattered_ = are_samples_scattered();
      if (scattered_) {
        if (layout_.packs_gradient)
          pack_images(sampling_.output, first_image, images, 0.2 * round_nanoseconds(), layout_.all_gradients,
                      layout_.channels);
        list_samples();
      }
      for_each_band(bands_, images, round_nanoseconds(), [&](int64_t image, int64_t band, int64_t slot) {
        differentiate_band(image, band, slot);
      });
    });
  }

 private:
  // Everything below counts images within the current round, up to where it takes one from the problem.

  double round_nanoseconds() const { return share_of(gradient_nanoseconds(sampling_), images_, sampling_); }

  Image image_of(const Images& images, int64_t image) const { return images[first_image_ + image]; }

  // ---- Which samples a band has

  bool are_samples_scattered() const {
    constexpr int64_t kFewVisits = 3;  // of a chunk
    int64_t visits = 0;
    for (int64_t chunk = 0; chunk < images_ * layout_.chunks; ++chunk) {
      visits += band_of(layout_.spans[chunk].last) - band_of(layout_.spans[chunk].first) + 1;
    }
    return visits > kFewVisits * images_ * layout_.chunks;
  }

  int64_t band_of(int32_t row) const { return row >> band_shift_; }

  void list_samples() {
    parallel_for(images_ * layout_.segments, 0.2 * round_nanoseconds(), [&](int64_t task) {
      list_segment(first_image_ + task / layout_.segments, task % layout_.segments * layout_.segment_samples,
                   layout_.lists + task * layout_.segment_samples * ChannelsLayout::kLists,
                   layout_.list_ends + task * band_count_);
    });
  }

  // Lists the samples of a segment, counted from its first, band after band. ends[b] is where list b ends.
  void list_segment(int64_t image, int64_t first, uint32_t* lists, int64_t* ends) const {
    std::fill_n(ends, band_count_, 0);
    for_each_band_of_samples(image, first, [&](int64_t band, int64_t) { ++ends[band]; });
    int64_t start = 0;
    for (int64_t band = 0; band < band_count_; ++band) {
      const int64_t count = ends[band];
      ends[band] = start;  // moves to the end as the list is filled
      start += count;
    }
    for_each_band_of_samples(image, first, [&](int64_t band, int64_t sample) {
      lists[ends[band]++] = static_cast<uint32_t>(sample);
    });
  }

  // Calls body(band, number in the segment) for the samples of a segment, for each band that they have to do with.
  template <class Body>
  void for_each_band_of_samples(int64_t image, int64_t begin, Body&& body) const {
    const int64_t end = std::min(begin + layout_.segment_samples, sampling_.samples);
    for (int64_t first = begin; first < end; first += kMostSamples) {
      const int64_t count = std::min(kMostSamples, end - first);
      Block<float> blocks[kMostBlocks];
      prepare_rows(sampling_, image, first, count, blocks);
      for (int64_t k = 0; k < count; ++k) {
        const int64_t first_band = band_of(blocks[k / kBlock].first_row[k % kBlock]);
        const int64_t last_band = band_of(blocks[k / kBlock].last_row[k % kBlock]);
        body(first_band, first - begin + k);
        if (last_band != first_band) body(last_band, first - begin + k);
      }
    }
  }

  // ---- grad_output in channels-last order

  struct Gradients {
    const float* first;
    int64_t stride;  // from one sample to the next
  };

  // Those of samples [first, first + count): where they lie, or packed.
  Gradients pack_gradients(int64_t image, int64_t first, int64_t count, float* to) const {
    const Image gradients = image_of(sampling_.output, image);
    if (!layout_.packs_gradient)
      return {gradients.channel<float>(0) + gradients.offset(first), gradients.flat_stride()};
    pack_pixels(gradients, first, count, to, layout_.channels);
    return {to, layout_.channels};
  }

  Gradients all_gradients(int64_t image) const {
    if (layout_.packs_gradient)
      return {layout_.all_gradients + image * sampling_.samples * layout_.channels, layout_.channels};
    return pack_gradients(image, 0, sampling_.samples, nullptr);
  }

  // ---- Bands

  void differentiate_band(int64_t image, int64_t band_index, int64_t slot) const {
    const RowBand band = bands_.band(band_index);
    BandTask task{band,   sampling_.x_axis(), sampling_.y_axis(), layout_.channels, {}, {}, layout_.no_pixel,
                  nullptr};
    if (sampling_.wants_grid_grad)
      task.input = input_rows(image, band, layout_.input_buffers + slot * layout_.input_floats(bands_));
    if (sampling_.wants_input_grad) {
      const int64_t sums_floats = layout_.sums_floats(bands_);
      const int64_t floats = sums_floats + layout_.channels;
      float* buffer = layout_.sums_buffers + slot * floats;
      std::memset(buffer, 0, static_cast<size_t>(floats) * sizeof(float));
      task.sums = {buffer, band.begin - (layout_.taps - 1), layout_.row_floats, layout_.channels};
      task.no_sum = buffer + sums_floats;
    }
    if (scattered_) {
      differentiate_lists(task, image, band_index);
    } else {
      differentiate_chunks(task, image, layout_.run_gradients + slot * layout_.run_floats);
    }
    if (sampling_.wants_input_grad) {
      const Image input_grad = image_of(sampling_.input_grad, image);
      for_each_span(band, [&](int64_t row, int64_t pixels) {
        unpack_pixels(task.sums.at(row, 0), layout_.channels, input_grad, row * input_grad.width, pixels);
      });
    }
  }

  // Calls body(first row, pixels) for rows of a buffer, together where they follow each other without a gap.
  template <class Body>
  void for_each_span(RowBand rows, Body&& body) const {
    const int64_t width = sampling_.x_axis().size;
    const bool has_gaps = layout_.row_floats != width * layout_.channels;
    const int64_t step = has_gaps ? 1 : rows.end - rows.begin;
    for (int64_t row = rows.begin; row < rows.end; row += step) body(row, step * width);
  }

  // The rows that the samples of a band read: packed, or where they lie.
  Rows<const float> input_rows(int64_t image, RowBand band, float* buffer) const {
    const Image input = image_of(sampling_.input, image);
    if (!layout_.packs_input) return {input.channel<float>(0), 0, input.row_stride, input.column_stride};
    const Rows<float> rows{buffer, band.begin, layout_.row_floats, layout_.channels};
    band.end = std::min(band.end + layout_.taps - 1, input.height);
    for_each_span(band, [&](int64_t row, int64_t pixels) {
      pack_pixels(input, row * input.width, pixels, rows.at(row, 0), layout_.channels);
    });
    return {buffer, rows.first_row, rows.row_stride, rows.column_stride};
  }

  // Goes through the chunks that have to do with the band, in runs of neighbours.
  void differentiate_chunks(const BandTask& task, int64_t image, float* buffer) const {
    const RowSpan* spans = layout_.spans + image * layout_.chunks;
    for (int64_t chunk = 0; chunk < layout_.chunks;) {
      if (!spans[chunk].meets(task.band)) {
        ++chunk;
        continue;
      }
      const int64_t begin = chunk;
      const int64_t last_end = std::min(layout_.chunks, begin + layout_.run_chunks);
      while (chunk < last_end && spans[chunk].meets(task.band)) ++chunk;
      differentiate_run(task, image, begin * kBandChunk, std::min(chunk * kBandChunk, sampling_.samples),
                        buffer);
    }
  }

  void differentiate_run(const BandTask& task, int64_t image, int64_t begin, int64_t end,
                         float* buffer) const {
    const Gradients gradients = pack_gradients(image, begin, end - begin, buffer);
    const Image grid_grad = image_of(sampling_.grid_grad, image);
    for (int64_t first = begin; first < end; first += kMostSamples) {
      const int64_t count = std::min(kMostSamples, end - first);
      Block<float> blocks[kMostBlocks];
      prepare_blocks(sampling_, first_image_ + image, first, count, blocks);
      for (int64_t k = 0; k < count; k += kBlock) {
        const float* of_block = gradients.first + (first - begin + k) * gradients.stride;
        differentiate_neighbours(task, blocks[k / kBlock], first + k, std::min<int64_t>(kBlock, count - k),
                                 {of_block, gradients.stride}, grid_grad);
      }
    }
  }

  void differentiate_neighbours(const BandTask& task, const Block<float>& block, int64_t first, int64_t count,
                                Gradients gradients, const Image& grid_grad) const {
    const uint32_t bits = samples_of_band(block, count, task.band);
    if (bits == 0) return;
    const float* of_samples[kBlock];
    for (int64_t i = 0; i < kBlock; ++i) of_samples[i] = gradients.first + i * gradients.stride;
    alignas(64) float x[kBlock];
    alignas(64) float y[kBlock];
    const uint32_t owned = differentiate_samples(task, block, bits, of_samples, x, y);
    if (owned != 0) store_grid_grad(grid_grad, first, owned, x, y);
  }

  // Goes through the lists of the band.
  void differentiate_lists(const BandTask& task, int64_t image, int64_t band_index) const {
    const Gradients gradients = all_gradients(image);
    for (int64_t segment = 0; segment < layout_.segments; ++segment) {
      const int64_t number = image * layout_.segments + segment;
      const int64_t* ends = layout_.list_ends + number * band_count_;
      const uint32_t* list = layout_.lists + number * layout_.segment_samples * ChannelsLayout::kLists;
      const int64_t first = segment * layout_.segment_samples;
      const int64_t end = ends[band_index];
      for (int64_t k = band_index == 0 ? 0 : ends[band_index - 1]; k < end; k += kBlock) {
        differentiate_listed(task, image, first, list + k, std::min<int64_t>(kBlock, end - k), gradients);
      }
    }
  }

  // Samples first + list[0], first + list[1], ...
  void differentiate_listed(const BandTask& task, int64_t image, int64_t first, const uint32_t* list,
                            int64_t count, const Gradients& gradients) const {
    int64_t samples[kBlock];
    const float* of_samples[kBlock];
    for (int64_t i = 0; i < kBlock; ++i) {
      samples[i] = first + list[std::min(i, count - 1)];
      of_samples[i] = gradients.first + samples[i] * gradients.stride;
    }
    Block<float> block;
    prepare_samples(sampling_, first_image_ + image, samples, block);
    alignas(64) float x[kBlock];
    alignas(64) float y[kBlock];
    const uint32_t owned = differentiate_samples(task, block, (1u << count) - 1, of_samples, x, y);
    if (owned != 0) store_grid_grad(image_of(sampling_.grid_grad, image), samples, owned, x, y);
  }

  // Returns which of the samples x and y are for.
  uint32_t differentiate_samples(const BandTask& task, const Block<float>& block, uint32_t bits,
                                 const float* const* gradients, float* x, float* y) const {
    const uint32_t owned = sampling_.wants_grid_grad ? bits & samples_owned(block, task.band) : 0;
    differentiate_block_(task, block, sampling_.wants_input_grad ? bits : owned, owned, gradients, x, y);
    return owned;
  }

  const Sampling& sampling_;
  const ChannelsLayout& layout_;
  const Bands bands_;
  const int64_t band_count_;
  const int band_shift_;
  DifferentiateBlock differentiate_block_ = nullptr;
  int64_t first_image_ = 0;  // of the current round
  int64_t images_ = 0;       // in the current round
  bool scattered_ = false;
};

void run_by_channels(const Sampling& sampling, const ChannelsLayout& layout) {
  GradByChannels(sampling, layout).run();
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_by_channels);

}  // namespace

size_t grad_by_channels_workspace_size(const Sampling& sampling) {
  return size_of_workspace<ChannelsLayout>(sampling);
}

void grad_by_channels(const Sampling& sampling, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  const ChannelsLayout layout(sampling, allocator);
  HWY_DYNAMIC_DISPATCH(run_by_channels)(sampling, layout);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
