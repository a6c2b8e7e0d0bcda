// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Grid sampling, forward, on the CPU: vectorised over channels or over samples, see layout.h.
#include "ops/grid_sampler/boxes.h"
#include "ops/grid_sampler/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/forward_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/channels-inl.h"
#include "ops/grid_sampler/line_taps-inl.h"
#include "ops/grid_sampler/samples-inl.h"
#include "ops/grid_sampler/voxels-inl.h"

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
    if (!is_channels_last(sampling.input.first))
      images = images_of_round(sampling, kCacheBytes, image_floats * 4);
    data = allocator.take<float>(images * image_floats);
  }
};

// Boxes of volumes, each packed before its samples read it.
struct PackedBoxes {
  BoxBuffers buffers;
  bool packs;
  BoxCut cut;
  int64_t box_floats;
  int64_t images;  // whose samples are listed together
  int64_t slots;
  SampleLists lists;
  float* data;  // [slots, box_floats]

  PackedBoxes(const Sampling& sampling, WorkspaceAllocator& allocator)
      : buffers(sampling),
        packs(!is_channels_last(sampling.input.first)),
        cut(sampling, BoxCut::Shape::compact,
            [&](const BoxCut& of) {
              constexpr int64_t kBoxBytes = 512 << 10;
              constexpr int64_t kEnoughBoxes = 16;
              const bool are_large = buffers.floats(of, 0) * 4 > kBoxBytes;
              return packs && (are_large || sampling.batch * of.count() < kEnoughBoxes);
            }),
        box_floats(buffers.floats(cut, 1)),
        images(images_of_round(sampling, kRoundBytes, sampling.samples * 4)),
        slots(packs ? std::min(most_slots(box_floats), images * cut.count()) : 0),
        lists(sampling, Listing::owned, images, packs ? cut.count() : 1, allocator),
        data(allocator.take<float>(slots * box_floats)) {}

 private:
  static constexpr int64_t kRoundBytes = 8 << 20;  // of lists
};

}  // namespace aclgrad::ops::grid_sampler
#endif

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

// Channels [first, first + count) of one sample, filled up to whole vectors.
template <int kTaps, class D, int kAxes>
HWY_INLINE void sample_channels(D d, const Rows<const float>& input, const Axis* axes,
                                const Block<float, kAxes>& block, size_t i, int64_t first, int64_t count,
                                float* to) {
  constexpr int kTapCount = kTapsOfSample<kTaps, kAxes>;
  const auto weights = broadcast_weights<D, kTaps>(d, block, i);
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  if (HWY_LIKELY(block.interior >> i & 1)) {
    const float* from = input.at(block.y().first[i], block.x().first[i]) + first;
    if constexpr (kAxes == 3) from += (block.z().first[i] - input.first_slice) * input.slice_stride;
    for (int64_t c = 0; c < count; c += lanes) {
      const auto value = image_value(d, weights, [&](int k) HWY_ATTR {
        const TapIndex<kTaps> tap(k);
        const float* pixel = from + tap.row * input.row_stride + tap.column * input.column_stride;
        return hn::LoadU(d, pixel + tap.slice * input.slice_stride + c);
      });
      hn::StoreU(value, d, to + c);
    }
    return;
  }
  const SampleTaps<kTaps> sample = sample_taps<kTaps>(block, i, axes);
  const float* pixels[kTapCount];
  for (int k = 0; k < kTapCount; ++k) {
    const TapIndex<kTaps> tap(k);
    const int64_t slice = sample.slice[tap.slice], row = sample.row[tap.row];
    const int64_t column = sample.column[tap.column];
    const bool is_pixel = slice >= 0 && row >= 0 && column >= 0;
    pixels[k] = is_pixel ? input.at(slice, row, column) + first : nullptr;
  }
  for (int64_t c = 0; c < count; c += lanes) {
    const auto value = image_value(d, weights, [&](int k) HWY_ATTR {
      return pixels[k] == nullptr ? hn::Zero(d) : hn::LoadU(d, pixels[k] + c);
    });
    hn::StoreU(value, d, to + c);
  }
}

// ---- Vectorised over channels

// An image of the batch: its copy in the round, or where it lies.
Rows<const float> channels_last(const Sampling& sampling, const PackedInput& packed, int64_t image,
                                int64_t image_of_round) {
  const Image input = sampling.input[image];
  if (packed.images == 0) return rows_in_place(input);
  return {packed.data + image_of_round * packed.image_floats,
          0,
          0,
          0,
          input.width * packed.channels,
          packed.channels};
}

template <int kTaps, int kAxes, class D>
HWY_INLINE void sample_blocks(D d, const Axis* axes, const Rows<const float>& input, const Image& output,
                              const Block<float, kAxes>* blocks, const Samples& samples) {
  constexpr int64_t kPassChannels = 64;
  alignas(64) float tile[kMostSamples * kPassChannels];
  for (int64_t channel = 0; channel < output.channels; channel += kPassChannels) {
    const int64_t channels = std::min(kPassChannels, output.channels - channel);
    for (int64_t k = 0; k < samples.count; ++k) {
      sample_channels<kTaps>(d, input, axes, blocks[k / kBlock], static_cast<size_t>(k % kBlock), channel,
                             channels, tile + k * kPassChannels);
    }
    const Image of_pass = output.some_channels(channel, channels);
    samples.for_each_run([&](int64_t k, int64_t first, int64_t count) {
      unpack_pixels(tile + k * kPassChannels, kPassChannels, of_pass, first, count);
    });
  }
}

// At most kMostSamples.
template <int kTaps, int kAxes>
void sample_task_by_channels(const Sampling& sampling, const Rows<const float>& input, int64_t image,
                             const Samples& samples) {
  Block<float, kAxes> blocks[kMostBlocks];
  prepare_blocks(sampling, image, samples, blocks);
  const Image output = sampling.output[image];
  visit_channel_tag(sampling.channels, [&](auto d) HWY_ATTR {
    sample_blocks<kTaps, kAxes>(d, sampling.axes, input, output, blocks, samples);
  });
}

// ---- Vectorised over samples

constexpr int64_t kTaskSamples = 256;  // whose taps stay in the first-level cache

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
        const auto value = image_value(d, weights, [&](int k) HWY_ATTR {
          const int row = k / kTaps, column = k % kTaps;
          return hn::IfThenElseZero(pixels.is_pixel(row, column, lane),
                                    pixels.gather_tap(from[c], row, column, lane));
        });
        hn::Store(value, d, values[c] + lane);
      }
    }
    store_block(output, first_channel, channels, first, count, values);
  }
}

// Interpolates at vectors of samples in lines: channel by channel, so that each reads rows as they lie in memory.
template <class D, int kTaps>
HWY_NOINLINE void sample_lines(D d, const LineTaps<D, kTaps>* taps, int64_t vectors, const Image& input,
                               const Image& output, bool prefetches) {
  using Real = hn::TFromD<D>;
  for (int64_t c = 0; c < input.channels; ++c) {
    const Real* from = input.channel<Real>(c);
    Real* to = output.channel<Real>(c);
    const bool past_caches = output.outgrows_caches && reinterpret_cast<uintptr_t>(to) % 64 == 0;
    for (int64_t k = 0; k < vectors; ++k) {
      if (prefetches) taps[k].prefetch_next_row(from, input.row_stride);
      const hn::Vec<D> value = taps[k].interpolate(from);
      Real* at = to + taps[k].sample();
      past_caches ? hn::Stream(value, d, at) : hn::StoreU(value, d, at);
    }
  }
}

// At most kTaskSamples from the given one on.
template <int kTaps, class Real>
void sample_task_by_samples(const Sampling& sampling, int64_t image, int64_t first, int64_t count) {
  using Tag = BlockTag<Real>;
  using Taps = LineTaps<Tag, kTaps>;
  constexpr int64_t kVectors = kBlock / Taps::kSamples;
  const Image input = sampling.input[image];
  const Image output = sampling.output[image];
  const bool gathers = can_gather<Real>(input);
  const bool is_contiguous =
      input.type == data_type_of<Real> && input.column_stride == 1 && output.has_contiguous_channels();
  const bool is_smooth = sampling.vectorises_over_channels;  // else vectors would be of channels
  const int most_lines = is_smooth ? kManyLines : kFewLines;
  Taps taps[kTaskSamples / Taps::kSamples];
  int64_t vectors = 0;
  const auto find_taps = [&](const Block<Real>& block, int64_t sample) HWY_ATTR {
    for (int64_t k = 0; k < kVectors; ++k) {
      const int64_t lane = k * Taps::kSamples;
      if (!taps[vectors + k].find(block, sample + lane, static_cast<size_t>(lane), most_lines, input))
        return false;
    }
    vectors += kVectors;
    return true;
  };
  Block<Real> blocks[kMostBlocks];
  for (int64_t k = 0; k < count; k += kBlock) {
    if (k % kMostSamples == 0)
      prepare_blocks(sampling, image, Samples{first + k, std::min(kMostSamples, count - k)}, blocks);
    const Block<Real>& block = blocks[k % kMostSamples / kBlock];
    const int64_t of_block = std::min<int64_t>(kBlock, count - k);
    if (of_block < kBlock || !is_contiguous || !find_taps(block, first + k))
      sample_gathered<kTaps>(sampling, input, output, block, gathers, first + k, of_block);
  }
  const bool prefetches = outgrows_cache(sampling);
  sample_lines<Tag, kTaps>(Tag(), taps, vectors, input, output, prefetches);
}

// Calls body(image, first sample, samples) for tasks of so many samples of some images.
template <class Body>
void for_each_task(const Sampling& sampling, int64_t first_image, int64_t images, int64_t task_samples,
                   Body&& body) {
  const int64_t tasks = divide_up(sampling.samples, task_samples);
  const double nanoseconds = share_of(forward_nanoseconds(sampling), images, sampling);
  parallel_for(images * tasks, nanoseconds, [&](int64_t index) {
    const int64_t first = index % tasks * task_samples;
    body(first_image + index / tasks, first, std::min(task_samples, sampling.samples - first));
  });
}

void run_by_samples(const Sampling& sampling) {
  visit_taps(sampling.interpolation, [&](auto taps) {
    const auto sample = sampling.type == DataType::float64 ? sample_task_by_samples<taps, double>
                                                           : sample_task_by_samples<taps, float>;
    for_each_task(
        sampling, 0, sampling.batch, kTaskSamples,
        [&](int64_t image, int64_t first, int64_t count) { sample(sampling, image, first, count); });
  });
}

void run_by_channels(const Sampling& sampling, const PackedInput& packed) {
  const double nanoseconds = forward_nanoseconds(sampling);
  const int64_t round = packed.images == 0 ? sampling.batch : packed.images;
  visit_taps(sampling.interpolation, [&](auto taps) {
    for_each_round(sampling, round, [&](int64_t first_image, int64_t images) {
      if (packed.images != 0)
        pack_images(sampling.input, first_image, images, 0.5 * share_of(nanoseconds, images, sampling),
                    packed.data, packed.channels);
      for_each_task(
          sampling, first_image, images, kMostSamples, [&](int64_t image, int64_t first, int64_t count) {
            sample_task_by_channels<taps, 2>(sampling,
                                             channels_last(sampling, packed, image, image - first_image),
                                             image, Samples{first, count});
          });
    });
  });
}

// ---- Volumes, vectorised over samples

template <int kTaps, class T>
void sample_voxels(const Sampling& sampling, int64_t image, const Samples& samples) {
  using Tag = BlockTag<RealOf<T>>;
  const Tag d;
  const Image input = sampling.input[image], output = sampling.output[image];
  const TapRows<kTaps> rows(sampling.axes, Box{{0, input.depth}, {0, input.height}});
  const bool may_have_lines = input.has_contiguous_channels() && VoxelLines<Tag, kTaps>::suit(sampling.axes);
  Block<RealOf<T>, 3> blocks[kMostBlocks];
  prepare_blocks(sampling, image, samples, blocks);
  for (int64_t k = 0; k < samples.count; k += kBlock) {
    const Block<RealOf<T>, 3>& block = blocks[k / kBlock];
    const Samples of_block = samples.part(k, kBlock);
    const SampleOffsets offsets(output, of_block);
    for (size_t lane = 0; lane < static_cast<size_t>(of_block.count); lane += hn::Lanes(d)) {
      VoxelLines<Tag, kTaps> lines;
      if (may_have_lines) lines.find(block, lane, of_block.count, sampling.axes, rows, true);
      lines.prefetch(rows, input.channel<T>(0));
      const auto weights = load_weights<Tag, kTaps>(d, block, lane);
      for (int64_t c = 0; c < input.channels; ++c) {
        hn::Vec<Tag> values[kTapsOfSample<kTaps, 3>];
        lines.is_found()
            ? lines.load(d, rows, input.channel<T>(c), values)
            : load_voxels<Tag, kTaps>(d, block, lane, of_block.count, input, input.channel<T>(c), values);
        store_samples(d, image_value(d, weights, [&](auto tap) HWY_ATTR { return values[tap]; }), offsets,
                      lane, of_block.count, output.channel<T>(c));
      }
    }
  }
}

void run_volumes_by_samples(const Sampling& sampling) {
  visit_element_type(sampling.type, [&]<class T>(T) {
    visit_taps_of<3>(sampling.interpolation, [&](auto taps) {
      for_each_task(sampling, 0, sampling.batch, kMostSamples,
                    [&](int64_t image, int64_t first, int64_t count) {
                      sample_voxels<taps, T>(sampling, image, Samples{first, count});
                    });
    });
  });
}

// ---- Volumes, vectorised over channels

template <int kTaps>
void run_boxes(const Sampling& sampling, const PackedBoxes& packed) {
  const BoxCut& cut = packed.cut;
  for_each_round(sampling, packed.images, [&](int64_t first_image, int64_t images) {
    const double nanoseconds = share_of(forward_nanoseconds(sampling), images, sampling);
    list_samples(sampling, packed.lists, cut, first_image, images, 0.2 * nanoseconds);
    parallel_for_with_slots(images * cut.count(), packed.slots, nanoseconds, [&](int64_t task, int64_t slot) {
      const int64_t image = task / cut.count(), index = task % cut.count();
      const Rows<const float> input = pack_box(sampling.input[first_image + image], packed.buffers, cut,
                                               cut.box(index), packed.data + slot * packed.box_floats);
      packed.lists.for_each_run(cut, image, index, kMostSamples, [&](const Samples& run) {
        sample_task_by_channels<kTaps, 3>(sampling, input, first_image + image, run);
      });
    });
  });
}

void run_volumes_by_channels(const Sampling& sampling, const PackedBoxes& packed) {
  visit_taps_of<3>(sampling.interpolation, [&](auto taps) {
    if (packed.packs) return run_boxes<taps>(sampling, packed);
    for_each_task(sampling, 0, sampling.batch, kMostSamples,
                  [&](int64_t image, int64_t first, int64_t count) {
                    sample_task_by_channels<taps, 3>(sampling, rows_in_place(sampling.input[image]), image,
                                                     Samples{first, count});
                  });
  });
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_by_samples);
HWY_EXPORT(run_by_channels);
HWY_EXPORT(run_volumes_by_samples);
HWY_EXPORT(run_volumes_by_channels);

}  // namespace

void sample_by_samples(const Sampling& sampling, void*) {
  sampling.axis_count == 3 ? HWY_DYNAMIC_DISPATCH(run_volumes_by_samples)(sampling)
                           : HWY_DYNAMIC_DISPATCH(run_by_samples)(sampling);
}

size_t sample_by_channels_workspace_size(const Sampling& sampling) {
  return sampling.axis_count == 3 ? size_of_workspace<PackedBoxes>(sampling)
                                  : size_of_workspace<PackedInput>(sampling);
}

void sample_by_channels(const Sampling& sampling, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  if (sampling.axis_count == 3)
    return HWY_DYNAMIC_DISPATCH(run_volumes_by_channels)(sampling, PackedBoxes(sampling, allocator));
  HWY_DYNAMIC_DISPATCH(run_by_channels)(sampling, PackedInput(sampling, allocator));
}

}  // namespace aclgrad::ops::grid_sampler

#endif
