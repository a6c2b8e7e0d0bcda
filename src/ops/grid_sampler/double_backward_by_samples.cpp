// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient's gradient, vectorised over samples.
//
// Each task takes a band of rows of an image and goes through the samples that have to do with it, 16 at a time and few
// channels at a time. The band that has a sample's first row also computes its grad_grad_output and its grad_grid.
#include "ops/grid_sampler/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/double_backward_by_samples.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/double_backward-inl.h"
#include "ops/grid_sampler/samples-inl.h"

#ifndef ACLGRAD_OPS_GRID_SAMPLER_DOUBLE_BACKWARD_BY_SAMPLES_
#define ACLGRAD_OPS_GRID_SAMPLER_DOUBLE_BACKWARD_BY_SAMPLES_
namespace aclgrad::ops::grid_sampler {

// Sizes that follow from types and shapes, and the workspace.
struct DoubleBackwardSamplesLayout {
  static constexpr int64_t kChunk = kMostSamples;  // samples, of which the first and last row are known

  int64_t chunks;  // of samples, in an image
  Bands bands;
  int64_t sums_bytes;  // of the buffer of one band
  RowSpan* spans;      // [batch, chunks]
  std::byte* sums;     // [slots, sums_bytes]

  DoubleBackwardSamplesLayout(const DoubleBackward& sampling, WorkspaceAllocator& allocator)
      : chunks(divide_up(sampling.samples, kChunk)) {
    constexpr int64_t kMostBands = 16;
    constexpr int64_t kLeastRows = 8;
    constexpr int64_t kMostSlots = 64;
    const int64_t height = sampling.y_axis().size;
    const int64_t rows = std::max(kLeastRows, divide_up(height, kMostBands));
    bands = {height, rows, std::min(kMostSlots, sampling.batch * divide_up(height, rows))};
    const int64_t bytes = sampling.type == DataType::float64 ? 8 : 4;
    sums_bytes = sampling.wants_input_grad
                     ? divide_up(rows * sampling.x_axis().size * sampling.channels * bytes, 64) * 64
                     : 0;
    spans = allocator.take<RowSpan>(sampling.batch * chunks);
    sums = allocator.take<std::byte>(bands.slots * sums_bytes);
  }
};

}  // namespace aclgrad::ops::grid_sampler
#endif

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

template <class Real, int kTaps>
class DoubleBackwardBySamples {
 public:
  // `sums` is room for those of the band: [channels, rows, width].
  DoubleBackwardBySamples(const DoubleBackward& sampling, int64_t image, RowBand band, Real* sums)
      : sampling_(sampling),
        image_(image),
        band_(band),
        width_(sampling.x_axis().size),
        sums_(sums),
        gradients_(sampling.output[image]),
        results_(sampling.grad_grad_output[image]),
        sources_{{sampling.has_grad_grad_grid, sampling.input[image]},
                 {sampling.has_grad_grad_input, sampling.grad_grad_input[image]}} {}

  void run(const RowSpan* spans, int64_t chunks) {
    if (sampling_.wants_input_grad) std::fill_n(sums_, sampling_.channels * channel_sums(), Real{0});
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t first = chunk * kMostSamples;
      if (spans[chunk].meets(band_)) visit_chunk(first, std::min(kMostSamples, sampling_.samples - first));
    }
    if (sampling_.wants_input_grad)
      store_pixels(sampling_.input_grad[image_], 0, sampling_.channels, band_.begin * width_, channel_sums(),
                   sums_, channel_sums());
  }

 private:
  using Tag = BlockTag<Real>;
  using V = hn::Vec<Tag>;
  using Pixels = BlockPixels<Real, kTaps>;
  static constexpr int64_t kChannels = Pixels::kMostChannels;

  // One of the two images that a sample reads.
  struct Source {
    bool given;
    Image image;
    bool gathers = given && can_gather<Real>(image);
  };

  struct Work {
    const Block<Real>& block;
    int64_t first;  // sample
    int64_t count;
    uint32_t bits;   // of the samples that have to do with the band
    uint32_t owned;  // whose own results are wanted
    Tangents<Real> tangents;
    alignas(64) Real weights[2][kTaps][kTaps][kBlock];   // by which the sources are weighted
    alignas(64) Real products[2][kTaps][kTaps][kBlock];  // of grad_output and the sources' pixels
  };

  int64_t channel_sums() const { return (band_.end - band_.begin) * width_; }

  void visit_chunk(int64_t first, int64_t count) {
    Block<Real> blocks[kMostBlocks];
    prepare_blocks(sampling_, image_, Samples{first, count}, blocks);
    alignas(64) Real along[2][kMostSamples] = {};
    if (sampling_.has_grad_grad_grid)
      load_coordinates(sampling_.grad_grad_grid[image_], Samples{first, count}, along);
    for (int64_t k = 0; k < count; k += kBlock) {
      const Block<Real>& block = blocks[k / kBlock];
      Work work{block, first + k, std::min<int64_t>(kBlock, count - k), 0, 0, {}, {}, {}};
      work.bits = samples_of_band(block, work.count, band_);
      const bool reads = sampling_.wants_grad_grad_output || sampling_.wants_grid_grad;
      work.owned = reads ? work.bits & samples_owned(block, Box{{0, 1}, band_}) : 0;
      if (!sampling_.wants_input_grad) work.bits = 0;
      if ((work.bits | work.owned) == 0) continue;
      find_tangents<kTaps>(block, sampling_.axes, along, k, work.tangents);
      visit_block(work);
    }
  }

  void visit_block(Work& work) {
    const Tag d;
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      const BlockCurves<Tag, kTaps> curves(d, work.block, work.tangents, lane);
      const auto weights = load_weights<Tag, kTaps>(d, work.block, lane);
      for_each_tap([&](int row, int column) HWY_ATTR {
        hn::Store(curves.weight_along(TapIndex<kTaps>(row * kTaps + column)), d,
                  work.weights[0][row][column] + lane);
        hn::Store(weights.of(row, column), d, work.weights[1][row][column] + lane);
      });
    }
    Pixels input(work.block, sources_[0].image, sources_[0].gathers, sampling_.axes);
    Pixels grad_grad_input(work.block, sources_[1].image, sources_[1].gathers, sampling_.axes);
    for (int64_t channel = 0; channel < sampling_.channels; channel += kChannels) {
      const int64_t channels = std::min(kChannels, sampling_.channels - channel);
      alignas(64) Real gradients[kChannels][kBlock];
      load_block(gradients_, channel, channels, work.first, work.count, gradients);
      if (work.owned != 0) {
        alignas(64) Real results[kChannels][kBlock] = {};
        if (sources_[0].given) read(work, 0, input, channel, channels, gradients, results);
        if (sources_[1].given) read(work, 1, grad_grad_input, channel, channels, gradients, results);
        if (sampling_.wants_grad_grad_output) store_results(work, channel, channels, results);
      }
      if (work.bits != 0) add_terms(work, channel, channels, gradients);
    }
    if (sampling_.wants_grid_grad && work.owned != 0) store_gradients(work);
  }

  template <class Body>
  static HWY_INLINE void for_each_tap(Body&& body) {
    for (int row = 0; row < kTaps; ++row) {
      for (int column = 0; column < kTaps; ++column) body(row, column);
    }
  }

  // What a source gives to the results and to the products, by channels [channel, channel + channels).
  static HWY_NOINLINE void read(Work& work, int source, Pixels& pixels, int64_t channel, int64_t channels,
                                const Real (&gradients)[kChannels][kBlock],
                                Real (&results)[kChannels][kBlock]) {
    const Tag d;
    const Real* from[kChannels];
    pixels.find_channels(channel, channels, from);
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      V values[kChannels][kTaps][kTaps];
      pixels.load_channels(from, channels, lane, values);
      for_each_tap([&](int row, int column) HWY_ATTR {
        const V weight = hn::Load(d, work.weights[source][row][column] + lane);
        V product = hn::Zero(d);
        for (int64_t c = 0; c < channels; ++c) {
          const V value = values[c][row][column];
          product = hn::MulAdd(hn::Load(d, gradients[c] + lane), value, product);
          hn::Store(hn::MulAdd(weight, value, hn::Load(d, results[c] + lane)), d, results[c] + lane);
        }
        // Infinity times zero is no zero.
        product = hn::IfThenElseZero(pixels.is_pixel(row, column, lane), product);
        Real* total = work.products[source][row][column] + lane;
        hn::Store(hn::Add(hn::Load(d, total), product), d, total);
      });
    }
  }

  void store_results(const Work& work, int64_t channel, int64_t channels,
                     const Real (&results)[kChannels][kBlock]) const {
    if (work.owned == (1u << work.count) - 1)
      return store_block(results_, channel, channels, work.first, work.count, results);
    for (uint32_t bits = work.owned; bits != 0; bits &= bits - 1) {
      const int i = __builtin_ctz(bits);
      store_pixels(results_, channel, channels, work.first + i, 1, results[0] + i, kBlock);
    }
  }

  // Adds to grad_input what the samples of the band give to channels [channel, channel + channels).
  void add_terms(const Work& work, int64_t channel, int64_t channels,
                 const Real (&gradients)[kChannels][kBlock]) {
    for (uint32_t bits = work.bits; bits != 0; bits &= bits - 1) {
      const auto i = static_cast<size_t>(__builtin_ctz(bits));
      const SampleTaps<kTaps> taps = sample_taps<kTaps>(work.block, i, sampling_.axes);
      for_each_tap([&](int row, int column) HWY_ATTR {
        if (!band_.contains(taps.row[row]) || taps.column[column] < 0) return;
        Real* to = sums_ + (channel * (band_.end - band_.begin) + taps.row[row] - band_.begin) * width_ +
                   taps.column[column];
        for (int64_t c = 0; c < channels; ++c, to += channel_sums())
          *to = std::fma(work.weights[0][row][column][i], gradients[c][i], *to);
      });
    }
  }

  void store_gradients(const Work& work) const {
    const Tag d;
    alignas(64) Real slopes[2][kBlock];
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      const auto of = [&](int source) HWY_ATTR {
        return [&work, source, lane](int k)
                   HWY_ATTR { return hn::Load(Tag(), work.products[source][k / kTaps][k % kTaps] + lane); };
      };
      const auto gradient =
          BlockCurves<Tag, kTaps>(d, work.block, work.tangents, lane).grid_gradient(d, of(0), of(1));
      for (int axis = 0; axis < 2; ++axis) hn::Store(gradient.along[axis], d, slopes[axis] + lane);
    }
    store_grid_grad(sampling_.grid_grad[image_], Samples{work.first, work.count}, work.owned, slopes);
  }

  const DoubleBackward& sampling_;
  const int64_t image_;
  const RowBand band_;
  const int64_t width_;
  Real* const sums_;
  const Image gradients_;
  const Image results_;
  const Source sources_[2];
};

template <class Real>
void run_by_samples(const DoubleBackward& sampling, const DoubleBackwardSamplesLayout& layout) {
  const double nanoseconds = double_backward_nanoseconds(sampling);
  find_spans(sampling, 0, sampling.batch, DoubleBackwardSamplesLayout::kChunk, 0.1 * nanoseconds,
             layout.spans);
  for_each_band(layout.bands, sampling.batch, nanoseconds, [&](int64_t image, int64_t index, int64_t slot) {
    auto* sums = reinterpret_cast<Real*>(layout.sums + slot * layout.sums_bytes);
    const RowSpan* spans = layout.spans + image * layout.chunks;
    const RowBand band = layout.bands.band(index);
    if (sampling.interpolation == Interpolation::bicubic) {
      DoubleBackwardBySamples<Real, 4>(sampling, image, band, sums).run(spans, layout.chunks);
    } else {
      DoubleBackwardBySamples<Real, 2>(sampling, image, band, sums).run(spans, layout.chunks);
    }
  });
}

void run_double_backward_by_samples(const DoubleBackward& sampling,
                                    const DoubleBackwardSamplesLayout& layout) {
  sampling.type == DataType::float64 ? run_by_samples<double>(sampling, layout)
                                     : run_by_samples<float>(sampling, layout);
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_double_backward_by_samples);

}  // namespace

size_t double_backward_by_samples_workspace_size(const DoubleBackward& sampling) {
  if (sampling.axis_count == 3) return grad_volumes_by_samples_workspace_size(sampling);
  return size_of_workspace<DoubleBackwardSamplesLayout>(sampling);
}

void double_backward_by_samples(const DoubleBackward& sampling, void* workspace) {
  if (sampling.axis_count == 3) return double_backward_of_volumes(sampling, workspace);
  WorkspaceAllocator allocator(workspace);
  const DoubleBackwardSamplesLayout layout(sampling, allocator);
  HWY_DYNAMIC_DISPATCH(run_double_backward_by_samples)(sampling, layout);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
