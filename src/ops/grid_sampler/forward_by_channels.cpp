// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Grid sampling, forward, vectorised over channels: images and volumes are brought into channels-last order before, unless
// they lie so already.
#include "ops/grid_sampler/boxes.h"
#include "ops/grid_sampler/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/forward_by_channels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/channels-inl.h"

#ifndef ACLGRAD_OPS_GRID_SAMPLER_FORWARD_BY_CHANNELS_
#define ACLGRAD_OPS_GRID_SAMPLER_FORWARD_BY_CHANNELS_
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
        cut(sampling,
            [&](const BoxCut& of) {
              constexpr int64_t kBoxBytes = 512 << 10;
              constexpr int64_t kTargetBoxes = 16;
              const bool are_large = buffers.floats(of, 0) * 4 > kBoxBytes;
              return packs && (are_large || sampling.batch * of.count() < kTargetBoxes);
            }),
        box_floats(buffers.floats(cut, 1)),
        images(images_of_round(sampling, kRoundBytes, sampling.samples * 4)),
        slots(packs ? std::min(max_slots(box_floats), images * cut.count()) : 0),
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
  TapWeights<D, kTaps, kAxes> weights;  // of the sample in all lanes
  for (int k = 0; k < kTaps; ++k) {
    for (int axis = 0; axis < kAxes; ++axis)
      weights.along[axis][k] = hn::Set(d, block.taps[axis].weight[k][i]);
  }
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

// ---- Images

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
  alignas(64) float tile[kMaxSamples * kPassChannels];
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

// At most kMaxSamples.
template <int kTaps, int kAxes>
void sample_task_by_channels(const Sampling& sampling, const Rows<const float>& input, int64_t image,
                             const Samples& samples) {
  Block<float, kAxes> blocks[kMaxBlocks];
  prepare_blocks(sampling, image, samples, blocks);
  const Image output = sampling.output[image];
  visit_channel_tag(sampling.channels, [&](auto d) HWY_ATTR {
    sample_blocks<kTaps, kAxes>(d, sampling.axes, input, output, blocks, samples);
  });
}

// Calls body(image, samples) for tasks of the samples of some images.
template <class Body>
void for_each_task(const Sampling& sampling, int64_t first_image, int64_t images, Body&& body) {
  const int64_t tasks = divide_up(sampling.samples, kMaxSamples);
  const double nanoseconds = share_of(forward_nanoseconds(sampling), images, sampling);
  parallel_for(images * tasks, nanoseconds, [&](int64_t index) {
    const int64_t first = index % tasks * kMaxSamples;
    body(first_image + index / tasks, Samples{first, std::min(kMaxSamples, sampling.samples - first)});
  });
}

void run_by_channels(const Sampling& sampling, const PackedInput& packed) {
  const double nanoseconds = forward_nanoseconds(sampling);
  const int64_t round = packed.images == 0 ? sampling.batch : packed.images;
  visit_taps_of<2>(sampling.interpolation, [&](auto taps) {
    for_each_round(sampling, round, [&](int64_t first_image, int64_t images) {
      if (packed.images != 0)
        pack_images(sampling.input, first_image, images, 0.5 * share_of(nanoseconds, images, sampling),
                    packed.data, packed.channels);
      for_each_task(sampling, first_image, images, [&](int64_t image, const Samples& samples) {
        sample_task_by_channels<taps, 2>(
            sampling, channels_last(sampling, packed, image, image - first_image), image, samples);
      });
    });
  });
}

// ---- Volumes

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
      packed.lists.for_each_run(cut, image, index, kMaxSamples, [&](const Samples& run) {
        sample_task_by_channels<kTaps, 3>(sampling, input, first_image + image, run);
      });
    });
  });
}

void run_volumes_by_channels(const Sampling& sampling, const PackedBoxes& packed) {
  visit_taps_of<3>(sampling.interpolation, [&](auto taps) {
    if (packed.packs) return run_boxes<taps>(sampling, packed);
    for_each_task(sampling, 0, sampling.batch, [&](int64_t image, const Samples& samples) {
      sample_task_by_channels<taps, 3>(sampling, rows_in_place(sampling.input[image]), image, samples);
    });
  });
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_by_channels);
HWY_EXPORT(run_volumes_by_channels);

}  // namespace

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
