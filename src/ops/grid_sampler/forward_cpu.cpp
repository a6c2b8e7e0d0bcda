// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Grid sampling, forward, on the CPU: vectorised over channels or over samples, see layout.h.
#include "ops/grid_sampler/kernel.h"
#include "ops/grid_sampler/layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/forward_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/channels-inl.h"
#include "ops/grid_sampler/interleaved-inl.h"
#include "ops/grid_sampler/lines-inl.h"
#include "ops/grid_sampler/samples-inl.h"

#ifndef ACLGRAD_OPS_GRID_SAMPLER_FORWARD_CPU_
#define ACLGRAD_OPS_GRID_SAMPLER_FORWARD_CPU_
namespace aclgrad::ops::grid_sampler {

// Channels-last copies of the images of a round, which fit the cache together.
struct PackedInput {
  int64_t channels;
  int64_t image_floats;
  int64_t images = 0;
  float* data;

  PackedInput(const Sampling& sampling, WorkspaceAllocator& allocator)
      : channels(padded_channels(sampling.channels)), image_floats(sampling.pixels * channels) {
    constexpr int64_t kCacheBytes = 8 << 20;
    if (sampling.vectorises_over_channels && !is_channels_last(sampling.input.first))
      images = images_of_round(sampling, kCacheBytes, image_floats * 4);
    data = allocator.take<float>(images * image_floats);
  }
};

}  // namespace aclgrad::ops::grid_sampler
#endif

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

constexpr int64_t kChunkSamples = kMostSamples;  // of a task

// ---- Vectorised over channels

// An image of the batch: its copy in the round, or where it lies.
Rows<const float> channels_last(const Sampling& sampling, const PackedInput& packed, int64_t image,
                                int64_t image_of_round) {
  const Image input = sampling.input[image];
  if (packed.images == 0) return {input.channel<float>(0), 0, input.row_stride, input.column_stride};
  return {packed.data + image_of_round * packed.image_floats, 0, input.width * packed.channels,
          packed.channels};
}

// At most kMostSamples from the given one on.
template <int kTaps, class D>
HWY_INLINE void sample_blocks(D d, const Sampling& sampling, const Rows<const float>& input,
                              const Image& output, const Block<float>* blocks, int64_t first, int64_t count) {
  constexpr int64_t kPassChannels = 64;
  alignas(64) float tile[kMostSamples * kPassChannels];
  for (int64_t channel = 0; channel < output.channels; channel += kPassChannels) {
    const int64_t channels = std::min(kPassChannels, output.channels - channel);
    for (int64_t k = 0; k < count; ++k) {
      sample_channels<kTaps>(d, input, sampling.x_axis(), sampling.y_axis(), blocks[k / kBlock],
                             static_cast<size_t>(k % kBlock), channel, channels, tile + k * kPassChannels);
    }
    unpack_pixels(tile, kPassChannels, output.some_channels(channel, channels), first, count);
  }
}

template <int kTaps>
void sample_by_channels(const Sampling& sampling, const Rows<const float>& input, int64_t image,
                        int64_t first, int64_t count) {
  Block<float> blocks[kMostBlocks];
  prepare_blocks(sampling, image, first, count, blocks);
  const Image output = sampling.output[image];
  visit_channel_tag(sampling.channels, [&](auto d) HWY_ATTR {
    sample_blocks<kTaps>(d, sampling, input, output, blocks, first, count);
  });
}

// ---- Vectorised over samples

// The hardware prefetches each output, too, but stops at the end of a page.
constexpr int64_t kPrefetchSamples = 2 * kMostSamples;
constexpr int kWillBeWritten = 1;

// Interpolates at the samples from `lane` of a block on.
template <int kTaps, class D, class SomeLines>
HWY_INLINE void sample_lanes(D d, const SomeLines& lines, const Image& input, const Image& output,
                             const Block<hn::TFromD<D>>& block, int64_t first, size_t lane, bool prefetches) {
  using Real = hn::TFromD<D>;
  const auto weights = load_weights<D, kTaps>(d, block, lane);
  const Real* from = input.channel<Real>(0);
  Real* to = output.channel<Real>(0) + first + lane;
  for (int64_t c = 0; c < input.channels; ++c) {
    const auto value = image_value<kTaps>(d, weights, [&](int row, int column) HWY_ATTR {
      return load_tap(d, lines, from, input.row_stride, row, column);
    });
    hn::StoreU(value, d, to);
    if (prefetches) __builtin_prefetch(to + kPrefetchSamples, kWillBeWritten);
    from += input.channel_stride;
    to += output.channel_stride;
  }
}

// Interpolates at the samples of a block if they lie in lines, at most kMost in a vector.
template <int kMost, int kTaps, class Real>
HWY_INLINE bool sample_lines(const Image& input, const Image& output, const Block<Real>& block, int64_t first,
                             bool prefetches) {
  const BlockTag<Real> d;
  BlockLines<BlockTag<Real>, kTaps, kMost> lines;
  if (!lines.find(block, input.width)) return false;
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
    lines.visit(lane, [&](const auto& of_lanes) HWY_ATTR {
      sample_lanes<kTaps>(d, of_lanes, input, output, block, first, lane, prefetches);
    });
  }
  return true;
}

template <int kTaps, class Real>
HWY_NOINLINE bool sample_many_lines(const Image& input, const Image& output, const Block<Real>& block,
                                    int64_t first, bool prefetches) {
  return sample_lines<kManyLines, kTaps>(input, output, block, first, prefetches);
}

// The same where the channels of the input are interleaved.
template <int kMost, int kTaps>
HWY_NOINLINE bool sample_interleaved_lines(const Image& input, const Image& output, const Block<float>& block,
                                           int64_t first) {
  const BlockTag<float> d;
  BlockLines<BlockTag<float>, kTaps, kMost> lines;
  if (!lines.find(block, input.width)) return false;
  visit_interleaved(input.channels, [&](auto channels) HWY_ATTR {
    constexpr int kChannels = decltype(channels)::value;
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      const auto weights = load_weights<BlockTag<float>, kTaps>(d, block, lane);
      lines.visit(lane, [&](const auto& of_lanes) HWY_ATTR {
        hn::Vec<BlockTag<float>> pixels[kTaps][kTaps][kChannels];
        for (int row = 0; row < kTaps; ++row) {
          for (int column = 0; column < kTaps; ++column)
            load_interleaved_tap(d, of_lanes, input, row, column, pixels[row][column]);
        }
        hn::Vec<BlockTag<float>> values[kChannels];
        for (int c = 0; c < kChannels; ++c) {
          values[c] = image_value<kTaps>(
              d, weights, [&](int row, int column) HWY_ATTR { return pixels[row][column][c]; });
        }
        store_samples(d, values, output, first + static_cast<int64_t>(lane));
      });
    }
  });
  return true;
}

template <int kTaps, class Real>
HWY_INLINE void sample_gathered(const Sampling& sampling, const Image& input, const Image& output,
                                const Block<Real>& block, bool gathers, int64_t first, int64_t count) {
  constexpr int64_t kChannels = BlockPixels<Real, kTaps>::kMostChannels;
  const BlockTag<Real> d;
  BlockPixels<Real, kTaps> pixels(block, input, gathers, sampling.axes);
  for (int64_t first_channel = 0; first_channel < input.channels; first_channel += kChannels) {
    const int64_t channels = std::min(kChannels, input.channels - first_channel);
    const Real* from[kChannels];
    pixels.find_channels(first_channel, channels, from);
    alignas(64) Real values[kChannels][kBlock];
    for (int64_t c = 0; c < channels; ++c) {
      for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
        const auto weights = load_weights<BlockTag<Real>, kTaps>(d, block, lane);
        const auto value = image_value<kTaps>(d, weights, [&](int row, int column) HWY_ATTR {
          return hn::IfThenElseZero(pixels.is_pixel(row, column, lane),
                                    pixels.gather_tap(from[c], row, column, lane));
        });
        hn::Store(value, d, values[c] + lane);
      }
    }
    store_block(output, first_channel, channels, first, count, values);
  }
}

template <int kTaps, class Real>
void sample_by_samples(const Sampling& sampling, int64_t image, int64_t first, int64_t count) {
  const Image input = sampling.input[image];
  const Image output = sampling.output[image];
  const bool gathers = can_gather<Real>(input);
  const bool is_contiguous =
      input.type == data_type_of<Real> && input.column_stride == 1 && output.has_contiguous_channels();
  const bool is_interleaved = kTaps == 2 && has_interleaved_rows(input) && has_plain_samples(output);
  const bool prefetches = outgrows_cache(sampling);
  const bool is_smooth = sampling.vectorises_over_channels;  // else vectors would be of channels
  Block<Real> blocks[kMostBlocks];
  prepare_blocks(sampling, image, first, count, blocks);
  for (int64_t k = 0; k < count; k += kBlock) {
    const Block<Real>& block = blocks[k / kBlock];
    bool has_lines = false;
    if (block.interior == kAllSamples && is_contiguous)
      has_lines = sample_lines<kFewLines, kTaps>(input, output, block, first + k, prefetches) ||
                  (is_smooth && sample_many_lines<kTaps>(input, output, block, first + k, prefetches));
    if constexpr (kTaps == 2 && std::is_same_v<Real, float>) {
      if (block.interior == kAllSamples && is_interleaved)
        has_lines =
            sample_interleaved_lines<kFewLines, kTaps>(input, output, block, first + k) ||
            (is_smooth && sample_interleaved_lines<kManyLines, kTaps>(input, output, block, first + k));
    }
    if (!has_lines)
      sample_gathered<kTaps>(sampling, input, output, block, gathers, first + k,
                             std::min<int64_t>(kBlock, count - k));
    if (prefetches && (has_lines || is_smooth) && block.interior == kAllSamples)
      prefetch_next_row<kTaps>(input, 0, 0, input.channels, block);
  }
}

void run_forward(const Sampling& sampling, const PackedInput& packed) {
  const double nanoseconds = forward_nanoseconds(sampling);
  const int64_t chunks = divide_up(sampling.samples, kChunkSamples);
  const auto for_each_chunk = [&](int64_t first_image, int64_t images, auto&& body) {
    parallel_for(images * chunks, share_of(nanoseconds, images, sampling), [&](int64_t task) {
      const int64_t first = task % chunks * kChunkSamples;
      body(first_image + task / chunks, first, std::min(kChunkSamples, sampling.samples - first));
    });
  };
  visit_taps(sampling.interpolation, [&](auto taps) {
    if (vectorises_over_samples(sampling)) {
      const auto sample = sampling.type == DataType::float64 ? sample_by_samples<taps, double>
                                                             : sample_by_samples<taps, float>;
      return for_each_chunk(0, sampling.batch, [&](int64_t image, int64_t first, int64_t count) {
        sample(sampling, image, first, count);
      });
    }
    const int64_t round = packed.images == 0 ? sampling.batch : packed.images;
    for_each_round(sampling, round, [&](int64_t first_image, int64_t images) {
      if (packed.images != 0)
        pack_images(sampling.input, first_image, images, 0.5 * share_of(nanoseconds, images, sampling),
                    packed.data, packed.channels);
      for_each_chunk(first_image, images, [&](int64_t image, int64_t first, int64_t count) {
        sample_by_channels<taps>(sampling, channels_last(sampling, packed, image, image - first_image), image,
                                 first, count);
      });
    });
  });
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_forward);

// Whether there is nothing to write.
bool is_empty(const GridSampler2D& problem) {
  return problem.batch == 0 || problem.channels == 0 || samples_of(problem) == 0;
}

}  // namespace

size_t sample_workspace_size(const Sampling& sampling) {
  return size_of_workspace<PackedInput>(sampling);
}

void sample(const Sampling& sampling, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  const PackedInput packed(sampling, allocator);
  HWY_DYNAMIC_DISPATCH(run_forward)(sampling, packed);
}

size_t kernel_workspace_size(const GridSampler2D& problem) {
  return is_empty(problem) ? 0 : sample_workspace_size(sampling_of(problem));
}

double kernel_nanoseconds(const GridSampler2D& problem) {
  return forward_nanoseconds(sampling_of(problem));
}

void run_kernel(const GridSampler2D& problem, void* workspace) {
  if (!is_empty(problem)) sample(sampling_of(problem), workspace);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
