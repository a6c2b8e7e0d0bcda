// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient's gradient, vectorised over channels.
//
// Each task takes a band of rows of an image. It brings the rows of input and grad_grad_input that its samples read
// into channels-last order, adds what the samples give to a channels-last buffer, and writes the band of grad_input
// out. The band that has a sample's first row also computes its grad_grad_output and its grad_grid. Chunks of
// neighbouring samples that have nothing to do with a band are left out. Where samples are scattered, there are few
// such chunks; then the samples of a band are collected from all of them.
#include "ops/grid_sampler/double_backward.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/double_backward_by_channels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/channels-inl.h"
#include "ops/grid_sampler/double_backward-inl.h"

#ifndef ACLGRAD_OPS_GRID_SAMPLER_DOUBLE_BACKWARD_BY_CHANNELS_
#define ACLGRAD_OPS_GRID_SAMPLER_DOUBLE_BACKWARD_BY_CHANNELS_
namespace aclgrad::ops::grid_sampler {

// The two images that a sample reads.
enum Source { kInput, kGradGradInput, kSources };

// Sizes that follow from types, shapes and strides, and the workspace.
struct DoubleBackwardChannelsLayout {
  static constexpr int64_t kChunk = 64;        // samples, of which the first and last row are known
  static constexpr int64_t kRunSamples = 256;  // whose gradients are packed together
  static constexpr int64_t kResults = 16;      // of a block of samples

  int64_t taps = 0;  // of an axis
  int64_t channels;  // of a pixel in channels-last order
  bool wants_input_grad;
  bool reads;  // the images, for grad_grad_output or grad_grid
  bool has_source[kSources];
  bool packs_source[kSources];  // or else it is read where it lies
  bool packs_gradient;          // grad_output
  bool packs_result;            // grad_grad_output
  int64_t height;
  int64_t chunks;      // of samples, in an image
  int64_t images;      // worked on together
  int64_t row_floats;  // from one row of a buffer to the next
  int64_t buffer_floats;

  float* no_pixel;  // [channels]
  RowSpan* spans;   // [images, chunks]
  float* buffers;   // of the bands that are worked on at the same time
  // Where samples are scattered:
  float* all_gradients;  // [images, samples, channels]
  float* all_results;    // [images, samples, channels]

  DoubleBackwardChannelsLayout(const DoubleBackward& sampling, WorkspaceAllocator& allocator)
      : channels(padded_channels(sampling.channels)),
        wants_input_grad(sampling.wants_input_grad),
        reads(sampling.wants_grad_grad_output || sampling.wants_grid_grad),
        has_source{sampling.has_grad_grad_grid, reads && sampling.has_grad_grad_input},
        height(sampling.y_axis().size),
        chunks(divide_up(sampling.samples, kChunk)) {
    constexpr int64_t kRoundBytes = 8 << 20;

    visit_taps(sampling.interpolation, [&](auto count) { taps = count; });
    packs_source[kInput] = reads && has_source[kInput] && !is_channels_last(sampling.input.first);
    packs_source[kGradGradInput] =
        has_source[kGradGradInput] && !is_channels_last(sampling.grad_grad_input.first);
    packs_gradient = !has_channels_last_samples(sampling.output.first);
    packs_result =
        !sampling.wants_grad_grad_output || !has_channels_last_samples(sampling.grad_grad_output.first);
    images = images_of_round(sampling, kRoundBytes, sampling.samples * channels * 4);
    row_floats = spread_row(sampling.x_axis().size * channels);
    const Bands finest = bands_of(kMostBands, kMostSlots);
    buffer_floats = finest.slots * band_floats(finest);

    no_pixel = allocator.take<float>(channels);
    spans = allocator.take<RowSpan>(images * chunks);
    buffers = allocator.take<float>(buffer_floats);
    const int64_t all = images * sampling.samples * channels;
    all_gradients = allocator.take<float>(packs_gradient ? all : 0);
    all_results = allocator.take<float>(packs_result && sampling.wants_grad_grad_output ? all : 0);
  }

  // The wider the bands, the fewer samples lie in two, and the fewer rows are packed twice.
  Bands bands_for(int64_t threads) const {
    constexpr int64_t kBandsPerThread = 4;
    constexpr int64_t kLeastBands = 4;  // so that there is room for as many as there are threads
    const int64_t count = std::clamp(divide_up(kBandsPerThread * threads, images), kLeastBands, kMostBands);
    const Bands bands = bands_of(count, kMostSlots);
    return bands_of(count, buffer_floats / band_floats(bands));
  }

  // Floats of the buffers of one band.
  int64_t source_floats(const Bands& bands) const { return (bands.rows + taps - 1) * row_floats; }
  int64_t sums_floats(const Bands& bands) const { return (bands.rows + 2 * (taps - 1)) * row_floats; }
  int64_t band_floats(const Bands& bands) const {
    const int64_t packed = packs_source[kInput] + packs_source[kGradGradInput];
    return packed * source_floats(bands) + (wants_input_grad ? sums_floats(bands) + channels : 0) +
           (packs_gradient ? kRunSamples * channels : 0) + kResults * channels;
  }

 private:
  static constexpr int64_t kMostBands = 16;  // of an image
  static constexpr int64_t kMostSlots = 64;

  Bands bands_of(int64_t count, int64_t most_slots) const {
    constexpr int64_t kLeastRows = 8;
    const int64_t rows = std::max(kLeastRows, divide_up(height, count));
    return {height, rows, std::min(most_slots, images * divide_up(height, rows))};
  }

  static bool has_channels_last_samples(const Image& image) {
    return is_channels_last(image) && image.is_flat();
  }
};

}  // namespace aclgrad::ops::grid_sampler
#endif

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

// What a band of rows works on.
struct DoubleBackwardBand {
  int64_t image;  // in the round
  RowBand band;
  const Axis (&axes)[2];
  int64_t channels;  // in whole blocks
  const bool (&has_source)[kSources];
  Rows<const float> sources[kSources];  // the rows that samples of the band read
  Rows<float> sums;  // of grad_input: the band, and kTaps - 1 rows on either side for what falls out of it
  const float* no_pixel;  // zeros, to read where a tap is no pixel
  float* no_sum;          // to write where a tap is no pixel of the band
  float* run_gradients;   // room for those of kRunSamples samples
  float* results;         // and of a block
};

// 16 samples, in channels-last order.
struct DoubleBackwardBlock {
  Tangents<float> tangents;
  const Block<float>& block;
  const float* gradients[kBlock];
  float* results[kBlock];
  uint32_t bits;   // of those that the band works on
  uint32_t owned;  // whose own results are wanted; those of the others are left without a meaning
};

// Of 16 samples: for each source the weights of its taps, and the products of grad_output with its pixels.
template <int kTaps>
struct DoubleBackwardTaps {
  alignas(64) float weight[kSources][kTaps * kTaps][kBlock];
  alignas(64) float product[kSources][TapSet<kTaps>::kSets][kBlock][4];
};

// Adds to the sums of the taps what one sample gives. Its `result` becomes what it was `before`, plus the weighted
// pixels of the taps; returns the products of its gradient with these.
template <int kChannels, bool kSums, bool kReads, class Taps>
HWY_INLINE FourVector weigh_taps(const Taps& taps, const float* weights, const float* gradients,
                                 const float* before, float* result, int64_t channels) {
  using Channels = ChannelBlock<kChannels>;
  using Tag = typename Channels::Tag;
  const Tag d;
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(Tag()));
  hn::Vec<Tag> weight[Taps::kCount];
  typename Channels::Sum product[Taps::kCount];
  for (int k = 0; k < Taps::kCount; ++k) {
    weight[k] = hn::Set(d, weights[k * kBlock]);
    product[k] = Channels::zero();
  }
  for (int64_t first = 0; first < channels; first += kChannels) {
    for (int64_t part = 0; part < kChannels / lanes; ++part) {
      const int64_t channel = first + part * lanes;
      const auto gradient = hn::LoadU(d, gradients + channel);
      [[maybe_unused]] auto value = hn::Zero(d);
      if constexpr (kReads) value = hn::LoadU(d, before + channel);
      for (int k = 0; k < Taps::kCount; ++k) {
        if constexpr (kReads) {
          const auto pixel = hn::LoadU(d, taps.input[k] + channel);
          auto& sum = product[k].part[part];
          sum = hn::MulAdd(gradient, pixel, sum);
          value = hn::MulAdd(weight[k], pixel, value);
        }
        if constexpr (kSums) {
          float* at = taps.sums[k] + channel;
          hn::StoreU(hn::MulAdd(weight[k], gradient, hn::LoadU(d, at)), d, at);
        }
      }
      if constexpr (kReads) hn::StoreU(value, d, result + channel);
    }
  }
  if constexpr (!kReads) {
    return hn::Zero(FourTag());
  } else {
    return sum4(Channels::to_4(product[0]), Channels::to_4(product[1]), Channels::to_4(product[2]),
                Channels::to_4(product[3]));
  }
}

// Where the taps of a set lie that are pixels, next to each other.
template <int kTaps, bool kSums, bool kReads>
HWY_INLINE void find_interior(const DoubleBackwardBand& task, Source source, const Block<float>& block,
                              size_t i, int set, TapSet<kTaps>& taps) {
  using Set = TapSet<kTaps>;
  const Rows<const float>& input = task.sources[source];
  const int64_t row = block.y().first[i] + set;
  const int64_t column = block.x().first[i];
  for (int k = 0; k < Set::kCount; ++k) {
    if constexpr (kReads)
      taps.input[k] = input.at(row, column) + k / kTaps * input.row_stride + k % kTaps * input.column_stride;
    if constexpr (kSums)
      taps.sums[k] =
          task.sums.at(row, column) + k / kTaps * task.sums.row_stride + k % kTaps * task.sums.column_stride;
  }
}

// The same of any sample. A bit for each tap that is a pixel.
template <int kTaps, bool kSums, bool kReads>
HWY_NOINLINE uint32_t find_edge(const DoubleBackwardBand& task, Source source, const Block<float>& block,
                                size_t i, int set, TapSet<kTaps>& taps) {
  using Set = TapSet<kTaps>;
  const SampleTaps<kTaps> sample = sample_taps<kTaps>(block, i, task.axes[0], task.axes[1]);
  uint32_t pixels = 0;
  for (int k = 0; k < Set::kCount; ++k) {
    const int64_t row = sample.row[(set * Set::kCount + k) / kTaps];
    const int64_t column = sample.column[k % kTaps];
    const bool is_pixel = row >= 0 && column >= 0;
    pixels |= static_cast<uint32_t>(is_pixel) << k;
    taps.input[k] = kReads && is_pixel ? task.sources[source].at(row, column) : task.no_pixel;
    taps.sums[k] = kSums && is_pixel && task.band.contains(row) ? task.sums.at(row, column) : task.no_sum;
  }
  return pixels;
}

template <int kTaps, int kChannels, bool kSums, bool kReads>
HWY_INLINE void visit_source(const DoubleBackwardBand& task, Source source, const Block<float>& block,
                             size_t i, const float* gradients, const float* before, float* result,
                             DoubleBackwardTaps<kTaps>& block_taps) {
  using Set = TapSet<kTaps>;
  const bool is_interior = (block.interior >> i & 1) != 0;
  for (int set = 0; set < Set::kSets; ++set) {
    Set taps;
    uint32_t pixels = 0;
    if (HWY_LIKELY(is_interior)) {
      find_interior<kTaps, kSums, kReads>(task, source, block, i, set, taps);
    } else {
      pixels = find_edge<kTaps, kSums, kReads>(task, source, block, i, set, taps);
    }
    const FourVector product = weigh_taps<kChannels, kSums, kReads>(
        taps, block_taps.weight[source][set * Set::kCount] + i, gradients, before, result, task.channels);
    before = result;
    if constexpr (kReads) {
      float* to = block_taps.product[source][set][i];
      hn::Store(product, FourTag(), to);
      if (HWY_LIKELY(is_interior)) continue;
      // Infinity times zero is no zero.
      for (int k = 0; k < Set::kCount; ++k) {
        if ((pixels >> k & 1) == 0) to[k] = 0.0f;
      }
    }
  }
}

// Works on the samples of a block: adds to the sums, and finds the results, and x and y of grad_grid.
template <int kTaps, int kChannels, bool kSums>
void visit_block(const DoubleBackwardBand& task, const DoubleBackwardBlock& samples, float* x, float* y) {
  const Block<float>& block = samples.block;
  const FloatTag d;
  DoubleBackwardTaps<kTaps> taps;
  std::memset(taps.product, 0, sizeof taps.product);
  for (size_t lane = 0; lane < kBlock; lane += kLanes) {
    const BlockCurves<FloatTag, kTaps> curves(d, block, samples.tangents, lane);
    const auto weights = load_weights<FloatTag, kTaps>(d, block, lane);
    for (int k = 0; k < kTaps * kTaps; ++k) {
      hn::Store(curves.weight_along(k / kTaps, k % kTaps), d, taps.weight[kInput][k] + lane);
      hn::Store(weights.of(k / kTaps, k % kTaps), d, taps.weight[kGradGradInput][k] + lane);
    }
  }
  for (uint32_t bits = samples.bits; bits != 0; bits &= bits - 1) {
    const auto i = static_cast<size_t>(__builtin_ctz(bits));
    const float* gradient = samples.gradients[i];
    if ((samples.owned >> i & 1) == 0) {
      if constexpr (kSums)
        visit_source<kTaps, kChannels, true, false>(task, kInput, block, i, gradient, nullptr, nullptr, taps);
      continue;
    }
    float* result = samples.results[i];
    const float* before = task.no_pixel;
    if (task.has_source[kInput]) {
      visit_source<kTaps, kChannels, kSums, true>(task, kInput, block, i, gradient, before, result, taps);
      before = result;
    }
    if (task.has_source[kGradGradInput])
      visit_source<kTaps, kChannels, false, true>(task, kGradGradInput, block, i, gradient, before, result,
                                                  taps);
  }
  for (size_t lane = 0; lane < kBlock; lane += kLanes) {
    FloatVector product[kSources][kTaps * kTaps];
    for (int source = 0; source < kSources; ++source) {
      for (int set = 0; set < TapSet<kTaps>::kSets; ++set) {
        FloatVector* of_set = product[source] + set * 4;
        hn::LoadInterleaved4(d, taps.product[source][set][lane], of_set[0], of_set[1], of_set[2], of_set[3]);
      }
    }
    const auto of = [&](Source source) HWY_ATTR {
      return [&product, source](int row, int column)
                 HWY_ATTR { return product[source][row * kTaps + column]; };
    };
    const auto gradient = BlockCurves<FloatTag, kTaps>(d, block, samples.tangents, lane)
                              .grid_gradient(d, of(kInput), of(kGradGradInput));
    hn::Store(gradient.x, d, x + lane);
    hn::Store(gradient.y, d, y + lane);
  }
}

template <int kTaps>
auto choose_visit_block(const DoubleBackward& sampling) {
  if (channel_block(sampling.channels) == 4)
    return sampling.wants_input_grad ? visit_block<kTaps, 4, true> : visit_block<kTaps, 4, false>;
  return sampling.wants_input_grad ? visit_block<kTaps, 16, true> : visit_block<kTaps, 16, false>;
}

class DoubleBackwardByChannels {
 public:
  DoubleBackwardByChannels(const DoubleBackward& sampling, const DoubleBackwardChannelsLayout& layout)
      : sampling_(sampling),
        layout_(layout),
        bands_(layout.bands_for(thread_count())),
        is_bicubic_(sampling.interpolation == Interpolation::bicubic),
        visit_block_(is_bicubic_ ? choose_visit_block<4>(sampling) : choose_visit_block<2>(sampling)) {}

  void run() {
    std::fill_n(layout_.no_pixel, layout_.channels, 0.0f);
    for_each_round(sampling_, layout_.images, [&](int64_t first_image, int64_t images) {
      const double nanoseconds = share_of(double_backward_nanoseconds(sampling_), images, sampling_);
      first_image_ = first_image;
      find_spans(sampling_, first_image, images, kChunk, 0.05 * nanoseconds, layout_.spans);
      scattered_ = are_samples_scattered(images);
      if (scattered_ && layout_.packs_gradient)
        pack_images(sampling_.output, first_image, images, 0.1 * nanoseconds, layout_.all_gradients,
                    layout_.channels);
      for_each_band(bands_, images, nanoseconds, [&](int64_t image, int64_t band, int64_t slot) {
        visit_band(image, bands_.band(band), layout_.buffers + slot * layout_.band_floats(bands_));
      });
      if (scattered_ && layout_.packs_result && sampling_.wants_grad_grad_output)
        unpack_results(images, 0.1 * nanoseconds);
    });
  }

 private:
  static constexpr int64_t kChunk = DoubleBackwardChannelsLayout::kChunk;
  static constexpr int64_t kRunSamples = DoubleBackwardChannelsLayout::kRunSamples;
  static_assert(kChunk == kMostSamples);

  // Everything below counts images within the current round, up to where it takes one from the problem.

  Image image_of(const Images& images, int64_t image) const { return images[first_image_ + image]; }

  int64_t samples_of(int64_t chunk) const { return std::min(kChunk, sampling_.samples - chunk * kChunk); }

  // Whether most chunks have to do with many bands.
  bool are_samples_scattered(int64_t images) const {
    constexpr int64_t kFewBands = 2;
    int64_t rows = 0;
    for (int64_t chunk = 0; chunk < images * layout_.chunks; ++chunk)
      rows += layout_.spans[chunk].last - layout_.spans[chunk].first;
    return rows > kFewBands * bands_.rows * images * layout_.chunks;
  }

  // ---- grad_output and grad_grad_output in channels-last order

  struct Gradients {
    const float* first;
    int64_t stride;  // from one sample to the next
  };

  // Of samples [first, first + count): where they lie, or packed.
  Gradients gradients_of(const DoubleBackwardBand& task, int64_t first, int64_t count) const {
    const Image gradients = image_of(sampling_.output, task.image);
    if (!layout_.packs_gradient)
      return {gradients.channel<float>(0) + gradients.offset(first), gradients.flat_stride()};
    if (scattered_) return {layout_.all_gradients + number_of(task, first), layout_.channels};
    pack_pixels(gradients, first, count, task.run_gradients, layout_.channels);
    return {task.run_gradients, layout_.channels};
  }

  // Where the result of a sample goes that is number `i` of its block.
  float* result_of(const DoubleBackwardBand& task, int64_t sample, int64_t i) const {
    if (!sampling_.wants_grad_grad_output) return task.results;
    const Image results = image_of(sampling_.grad_grad_output, task.image);
    if (!layout_.packs_result) return results.channel<float>(0) + results.offset(sample);
    if (scattered_) return layout_.all_results + number_of(task, sample);
    return task.results + i * layout_.channels;
  }

  int64_t number_of(const DoubleBackwardBand& task, int64_t sample) const {
    return (task.image * sampling_.samples + sample) * layout_.channels;
  }

  void unpack_results(int64_t images, double nanoseconds) const {
    parallel_for(images * layout_.chunks, nanoseconds, [&](int64_t index) {
      const int64_t image = index / layout_.chunks, chunk = index % layout_.chunks;
      const float* from =
          layout_.all_results + (image * sampling_.samples + chunk * kChunk) * layout_.channels;
      unpack_pixels(from, layout_.channels, image_of(sampling_.grad_grad_output, image), chunk * kChunk,
                    samples_of(chunk));
    });
  }

  // ---- Bands

  void visit_band(int64_t image, RowBand band, float* buffer) const {
    DoubleBackwardBand task{image,  band, sampling_.axes,   layout_.channels, layout_.has_source,
                            {},     {},   layout_.no_pixel, nullptr,          nullptr,
                            nullptr};
    const Images* images[kSources] = {&sampling_.input, &sampling_.grad_grad_input};
    for (int source = 0; source < kSources; ++source) {
      if (!layout_.reads || !layout_.has_source[source]) continue;
      const bool packs = layout_.packs_source[source];
      task.sources[source] = source_rows(image_of(*images[source], image), packs, band, buffer);
      if (packs) buffer += layout_.source_floats(bands_);
    }
    if (sampling_.wants_input_grad) {
      const int64_t floats = layout_.sums_floats(bands_);
      std::memset(buffer, 0, static_cast<size_t>(floats) * sizeof(float));
      task.sums = {buffer, band.begin - (layout_.taps - 1), layout_.row_floats, layout_.channels};
      task.no_sum = buffer + floats;
      std::fill_n(task.no_sum, layout_.channels, 0.0f);
      buffer = task.no_sum + layout_.channels;
    }
    task.run_gradients = buffer;
    task.results = buffer + (layout_.packs_gradient ? kRunSamples * layout_.channels : 0);
    scattered_ ? visit_scattered(task) : visit_runs(task);
    if (!sampling_.wants_input_grad) return;
    const Image input_grad = image_of(sampling_.input_grad, image);
    for (int64_t row = band.begin; row < band.end; ++row)
      unpack_pixels(task.sums.at(row, 0), layout_.channels, input_grad, row * input_grad.width,
                    input_grad.width);
  }

  // The rows that the samples of a band read: packed, or where they lie.
  Rows<const float> source_rows(const Image& image, bool packs, RowBand band, float* buffer) const {
    if (!packs) return {image.channel<float>(0), 0, image.row_stride, image.column_stride};
    const Rows<float> rows{buffer, band.begin, layout_.row_floats, layout_.channels};
    const int64_t end = std::min(band.end + layout_.taps - 1, image.height);
    for (int64_t row = band.begin; row < end; ++row)
      pack_pixels(image, row * image.width, image.width, rows.at(row, 0), layout_.channels);
    return {buffer, rows.first_row, rows.row_stride, rows.column_stride};
  }

  bool meets(const DoubleBackwardBand& task, int64_t chunk) const {
    return layout_.spans[task.image * layout_.chunks + chunk].meets(task.band);
  }

  // Goes through the chunks that have to do with the band, in runs of neighbours.
  void visit_runs(const DoubleBackwardBand& task) const {
    for (int64_t chunk = 0; chunk < layout_.chunks;) {
      int64_t end = chunk;
      const int64_t last_end = std::min(layout_.chunks, chunk + kRunSamples / kChunk);
      while (end < last_end && meets(task, end)) ++end;
      if (end > chunk) visit_run(task, chunk, end);
      chunk = std::max(end, chunk + 1);
    }
  }

  void visit_run(const DoubleBackwardBand& task, int64_t begin, int64_t end) const {
    const int64_t first = begin * kChunk;
    const Gradients gradients = gradients_of(task, first, std::min(end * kChunk, sampling_.samples) - first);
    for (int64_t chunk = begin; chunk < end; ++chunk)
      visit_chunk(task, chunk,
                  {gradients.first + (chunk - begin) * kChunk * gradients.stride, gradients.stride});
  }

  void visit_chunk(const DoubleBackwardBand& task, int64_t chunk, Gradients gradients) const {
    const int64_t begin = chunk * kChunk, count = samples_of(chunk);
    Block<float> blocks[kMostBlocks];
    prepare_blocks(sampling_, first_image_ + task.image, begin, count, blocks);
    alignas(64) float along[2][kMostSamples] = {};
    if (sampling_.has_grad_grad_grid)
      load_coordinates(image_of(sampling_.grad_grad_grid, task.image), begin, count, along);
    for (int64_t k = 0; k < count; k += kBlock) {
      const Block<float>& block = blocks[k / kBlock];
      const uint32_t bits = samples_of_band(block, std::min<int64_t>(kBlock, count - k), task.band);
      if (bits == 0) continue;
      const Tangents<float> tangents = tangents_of(block, along[0] + k, along[1] + k);
      DoubleBackwardBlock samples{tangents, block, {}, {}, bits, owned_of(task, block, bits)};
      for (int64_t i = 0; i < kBlock; ++i) {
        samples.gradients[i] = gradients.first + (k + i) * gradients.stride;
        samples.results[i] = result_of(task, begin + k + i, i);
      }
      alignas(64) float x[kBlock];
      alignas(64) float y[kBlock];
      visit_block_(task, samples, x, y);
      if (sampling_.wants_grid_grad && samples.owned != 0)
        store_grid_grad(image_of(sampling_.grid_grad, task.image), begin + k, samples.owned, x, y);
      if (sampling_.wants_grad_grad_output && layout_.packs_result)
        unpack_owned(task, begin + k, samples.owned);
    }
  }

  void unpack_owned(const DoubleBackwardBand& task, int64_t first, uint32_t owned) const {
    const Image to = image_of(sampling_.grad_grad_output, task.image);
    while (owned != 0) {
      const int begin = __builtin_ctz(owned);
      const int count = __builtin_ctz(~(owned >> begin));
      unpack_pixels(task.results + begin * layout_.channels, layout_.channels, to, first + begin, count);
      owned &= ~(((1u << count) - 1) << begin);
    }
  }

  // Collects the samples of the band, 16 at a time.
  void visit_scattered(const DoubleBackwardBand& task) const {
    const Gradients gradients = gradients_of(task, 0, sampling_.samples);
    int64_t samples[kBlock];
    int64_t count = 0;
    for (int64_t chunk = 0; chunk < layout_.chunks; ++chunk) {
      if (!meets(task, chunk)) continue;
      Block<float> blocks[kMostBlocks];
      prepare_rows(sampling_, first_image_ + task.image, chunk * kChunk, samples_of(chunk), blocks);
      for (int64_t k = 0; k < samples_of(chunk); k += kBlock) {
        uint32_t bits =
            samples_of_band(blocks[k / kBlock], std::min<int64_t>(kBlock, samples_of(chunk) - k), task.band);
        for (; bits != 0; bits &= bits - 1) {
          samples[count++] = chunk * kChunk + k + __builtin_ctz(bits);
          if (count < kBlock) continue;
          visit_collected(task, samples, count, gradients);
          count = 0;
        }
      }
    }
    if (count == 0) return;
    std::fill(samples + count, samples + kBlock, samples[count - 1]);
    visit_collected(task, samples, count, gradients);
  }

  void visit_collected(const DoubleBackwardBand& task, const int64_t* numbers, int64_t count,
                       Gradients gradients) const {
    Block<float> block;
    prepare_samples(sampling_, first_image_ + task.image, numbers, block);
    float pairs[kBlock][2] = {};
    if (sampling_.has_grad_grad_grid)
      load_coordinates(image_of(sampling_.grad_grad_grid, task.image), numbers, pairs);
    float along[2][kBlock];
    const uint32_t bits = (1u << count) - 1;
    const uint32_t owned = owned_of(task, block, bits);
    DoubleBackwardBlock samples{{}, block, {}, {}, bits, owned};
    for (int64_t i = 0; i < kBlock; ++i) {
      along[0][i] = pairs[i][0];
      along[1][i] = pairs[i][1];
      samples.gradients[i] = gradients.first + numbers[i] * gradients.stride;
      samples.results[i] = result_of(task, numbers[i], i);
    }
    samples.tangents = tangents_of(block, along[0], along[1]);
    alignas(64) float x[kBlock];
    alignas(64) float y[kBlock];
    visit_block_(task, samples, x, y);
    if (sampling_.wants_grid_grad && owned != 0)
      store_grid_grad(image_of(sampling_.grid_grad, task.image), numbers, owned, x, y);
  }

  uint32_t owned_of(const DoubleBackwardBand& task, const Block<float>& block, uint32_t bits) const {
    return layout_.reads ? bits & samples_owned(block, task.band) : 0;
  }

  Tangents<float> tangents_of(const Block<float>& block, const float* x, const float* y) const {
    Tangents<float> tangents;
    const auto find = is_bicubic_ ? find_tangents<4, float> : find_tangents<2, float>;
    find(block, sampling_.axes, x, y, tangents);
    return tangents;
  }

  const DoubleBackward& sampling_;
  const DoubleBackwardChannelsLayout& layout_;
  const Bands bands_;
  const bool is_bicubic_;
  void (*const visit_block_)(const DoubleBackwardBand&, const DoubleBackwardBlock&, float*, float*);
  int64_t first_image_ = 0;  // of the current round
  bool scattered_ = false;
};

void run_double_backward_by_channels(const DoubleBackward& sampling,
                                     const DoubleBackwardChannelsLayout& layout) {
  DoubleBackwardByChannels(sampling, layout).run();
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_double_backward_by_channels);

}  // namespace

size_t double_backward_by_channels_workspace_size(const DoubleBackward& sampling) {
  return size_of_workspace<DoubleBackwardChannelsLayout>(sampling);
}

void double_backward_by_channels(const DoubleBackward& sampling, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  const DoubleBackwardChannelsLayout layout(sampling, allocator);
  HWY_DYNAMIC_DISPATCH(run_double_backward_by_channels)(sampling, layout);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
