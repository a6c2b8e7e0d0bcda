// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of grid sampling, and its own gradient, vectorised over channels.
//
// Each task takes a box of slices and rows of an image: it brings what its samples read into channels-last order, adds
// what the samples give to a channels-last buffer, and writes the box out. The box that has a sample's first slice and row
// also computes its own results. The buffers of a box are small, so that the next one finds them in the cache.
#include "ops/grid_sampler/boxes.h"
#include "ops/grid_sampler/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/grad_by_channels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/channels-inl.h"

#ifndef ACLGRAD_OPS_GRID_SAMPLER_GRAD_BY_CHANNELS_
#define ACLGRAD_OPS_GRID_SAMPLER_GRAD_BY_CHANNELS_
namespace aclgrad::ops::grid_sampler {

// Which tensors there are, and which of them are packed: or else they are read and written where they lie.
struct ChannelsTensors {
  bool reads;          // images, for other results than input_grad
  bool has_source[2];  // the input, and grad_grad_input
  bool packs_source[2];
  bool packs_gradient;      // grad_output
  bool has_result = false;  // grad_grad_output
  bool packs_result = false;
  bool wants_input_grad;

  explicit ChannelsTensors(const Sampling& sampling)
      : reads(sampling.wants_grid_grad),
        has_source{reads, false},
        packs_source{reads && !is_channels_last(sampling.input.first), false},
        packs_gradient(!has_channels_last_samples(sampling.output.first)),
        wants_input_grad(sampling.wants_input_grad) {}

  explicit ChannelsTensors(const DoubleBackward& sampling)
      : ChannelsTensors(static_cast<const Sampling&>(sampling)) {
    has_result = sampling.wants_grad_grad_output;
    packs_result = has_result && !has_channels_last_samples(sampling.grad_grad_output.first);
    reads = has_result || sampling.wants_grid_grad;
    has_source[0] = reads && sampling.has_grad_grad_grid;
    has_source[1] = reads && sampling.has_grad_grad_input;
    packs_source[0] = has_source[0] && !is_channels_last(sampling.input.first);
    packs_source[1] = has_source[1] && !is_channels_last(sampling.grad_grad_input.first);
  }

 private:
  static bool has_channels_last_samples(const Image& image) {
    return is_channels_last(image) && image.is_flat();
  }
};

// Sizes that follow from types, shapes and strides, and the workspace.
struct ChannelsLayout {
  ChannelsTensors tensors;
  BoxBuffers buffers;
  int64_t channels;     // of a pixel in a buffer
  int64_t run_samples;  // whose gradients are packed together
  int64_t images;       // worked on together
  BoxCut finest;        // what the workspace holds
  int64_t buffer_floats;
  SampleLists lists;

  float* no_pixel;       // [channels]
  float* buffer;         // of the boxes that are worked on at the same time
  float* all_gradients;  // [images, samples, channels], where samples are scattered
  float* all_results;    // the same

  template <class AnySampling>
  ChannelsLayout(const AnySampling& sampling, WorkspaceAllocator& allocator)
      : tensors(sampling),
        buffers(sampling),
        channels(buffers.channels),
        run_samples(std::clamp<int64_t>(kRunBytes / (channels * 4), 32, 512) / 32 * 32),
        images(images_of_round(sampling, kRoundBytes,
                               sampling.samples * (8 + (tensors.packs_gradient ? channels * 4 : 0)))),
        finest(sampling,
               [&](const BoxCut& cut) {
                 constexpr int64_t kMinTasks = 16;
                 return are_too_large(cut, buffers.has_slices ? kBoxBytes : kBoxBytes / 4, kMinTasks);
               }),
        buffer_floats(std::min(max_slots(box_floats(finest)), images * finest.count()) * box_floats(finest)),
        lists(sampling, tensors.wants_input_grad ? Listing::reached : Listing::owned, images, finest.count(),
              allocator),
        no_pixel(allocator.take<float>(channels)),
        buffer(allocator.take<float>(buffer_floats)) {
    const int64_t all = images * sampling.samples * channels;
    all_gradients = allocator.take<float>(tensors.packs_gradient ? all : 0);
    all_results = allocator.take<float>(tensors.packs_result ? all : 0);
  }

  // What lies at the ends of boxes is packed for both sides, so the fewer threads there are, the fewer boxes; not so few,
  // though, that a busy neighbour could hold up the others. Packing less is worth more than buffers that fit the
  // second-level cache.
  BoxCut cut_for(const Sampling& sampling, int64_t threads) const {
    constexpr int64_t kTasksPerThread = 4;
    return BoxCut(sampling, [&](const BoxCut& cut) {
      const bool has_room = std::min(threads, images * cut.count()) * box_floats(cut) <= buffer_floats;
      return cut.count() < finest.count() &&
             (!has_room || are_too_large(cut, kBoxBytes, threads * kTasksPerThread));
    });
  }

  // Floats of the buffers of a box.
  int64_t source_floats(const BoxCut& cut) const { return buffers.floats(cut, 1); }
  int64_t sums_floats(const BoxCut& cut) const {
    return tensors.wants_input_grad ? buffers.floats(cut, 2) + channels : 0;
  }
  int64_t run_floats() const { return tensors.packs_gradient ? run_samples * channels : 0; }
  // Before the sums, so that those of a pixel lie half a page from its copy: as with rows, see spread_row().
  int64_t gap_floats(const BoxCut& cut) const {
    constexpr int64_t kPage = 1024, kLine = 16;
    const int64_t before = packed_sources() * source_floats(cut);
    const int64_t distance = before + (buffers.taps - 1) * buffers.row_floats;
    const int64_t to_half_page = (kPage * 3 / 2 - distance % kPage) % kPage;
    return divide_up(before + to_half_page, kLine) * kLine - before;
  }
  int64_t box_floats(const BoxCut& cut) const {
    return packed_sources() * source_floats(cut) + gap_floats(cut) + sums_floats(cut) + run_floats() +
           (tensors.packs_result ? kBlock * channels : channels);
  }

 private:
  static constexpr int64_t kRoundBytes = 8 << 20;
  static constexpr int64_t kRunBytes = 32 << 10;
  static constexpr int64_t kBoxBytes = 1 << 20;

  int64_t packed_sources() const { return tensors.packs_source[0] + tensors.packs_source[1]; }

  bool are_too_large(const BoxCut& cut, int64_t bytes, int64_t min_tasks) const {
    const int64_t pixels = cut.slices() * cut.rows() * buffers.width;
    return pixels * channels * 4 > bytes || images * cut.count() < min_tasks;
  }
};

}  // namespace aclgrad::ops::grid_sampler
#endif

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

// AnySampling is that of the gradient, or of its gradient.
template <class AnySampling, int kAxes>
class GradByChannels {
 public:
  GradByChannels(const AnySampling& sampling, const ChannelsLayout& layout)
      : sampling_(sampling),
        layout_(layout),
        cut_(layout.cut_for(sampling, thread_count())),
        box_floats_(layout.box_floats(cut_)) {
    visit_taps_of<kAxes>(sampling.interpolation, [&](auto taps) {
      differentiate_block_ = channel_block(sampling.channels) == 4 ? choose<taps, 4>() : choose<taps, 16>();
    });
  }

  // `all_nanoseconds`: the estimated time on one thread.
  void run(double all_nanoseconds) {
    std::fill_n(layout_.no_pixel, channels(), 0.0f);
    for_each_round(sampling_, layout_.images, [&](int64_t first_image, int64_t images) {
      const double nanoseconds = share_of(all_nanoseconds, images, sampling_);
      first_image_ = first_image;
      list_samples(sampling_, layout_.lists, cut_, first_image, images, 0.1 * nanoseconds);
      are_scattered_ = layout_.lists.are_scattered(cut_, images);
      if (are_scattered_ && tensors().packs_gradient)
        pack_images(sampling_.output, first_image, images, 0.2 * nanoseconds, layout_.all_gradients,
                    channels());
      parallel_for_with_slots(images * cut_.count(), layout_.buffer_floats / box_floats_, nanoseconds,
                              [&](int64_t task, int64_t slot) {
                                differentiate_box(task / cut_.count(), task % cut_.count(),
                                                  layout_.buffer + slot * box_floats_);
                              });
      if constexpr (kIsSecond) {
        if (are_scattered_ && tensors().packs_result) unpack_results(images, 0.1 * nanoseconds);
      }
    });
  }

 private:
  static constexpr bool kIsSecond = std::is_same_v<AnySampling, DoubleBackward>;
  using DifferentiateBlock = void (*)(const BoxTask&, const BlockTask<kAxes>&, float (&)[kAxes][kBlock]);

  template <int kTaps, int kChannels>
  DifferentiateBlock choose() const {
    const bool sums = sampling_.wants_input_grad;
    if constexpr (kIsSecond && kTaps > 1) {
      return sums ? differentiate_gradient<kTaps, kChannels, true, kAxes>
                  : differentiate_gradient<kTaps, kChannels, false, kAxes>;
    } else if constexpr (kTaps > 1) {
      if (sampling_.wants_grid_grad)
        return sums ? differentiate_block<kTaps, kChannels, true, true, kAxes>
                    : differentiate_block<kTaps, kChannels, false, true, kAxes>;
    }
    return differentiate_block<kTaps, kChannels, true, false, kAxes>;
  }

  const ChannelsTensors& tensors() const { return layout_.tensors; }
  int64_t channels() const { return layout_.channels; }

  // Everything below counts images within the current round, up to where it takes one from the problem.

  Image image_of(const Images& images, int64_t image) const { return images[first_image_ + image]; }

  void differentiate_box(int64_t image, int64_t index, float* buffer) const {
    const BoxBuffers& buffers = layout_.buffers;
    BoxTask task{};
    task.image = image;
    task.box = cut_.box(index);
    task.axes = sampling_.axes;
    task.channels = channels();
    task.no_pixel = layout_.no_pixel;
    for (int source = 0; source < kSources; ++source) {
      task.has_source[source] = tensors().has_source[source];
      if (!task.has_source[source]) continue;
      const Image of_source = image_of(source_images(source), image);
      if (!tensors().packs_source[source]) {
        task.sources[source] = rows_in_place(of_source);
        continue;
      }
      task.sources[source] = pack_box(of_source, buffers, cut_, task.box, buffer);
      buffer += layout_.source_floats(cut_);
    }
    buffer += layout_.gap_floats(cut_);
    if (sampling_.wants_input_grad) {
      const int64_t floats = layout_.sums_floats(cut_);
      std::memset(buffer, 0, static_cast<size_t>(floats) * sizeof(float));
      task.sums = buffer_rows(buffers, cut_, task.box, 2, buffer);
      buffer += floats;
      task.no_sum = buffer - channels();
    }
    task.run_gradients = buffer;
    task.results = buffer + layout_.run_floats();
    layout_.lists.for_each_run(cut_, image, index, layout_.run_samples,
                               [&](const Samples& run) { differentiate_run(task, run); });
    if (sampling_.wants_input_grad)
      unpack_box(task.sums, buffers, task.box, image_of(sampling_.input_grad, image));
  }

  const Images& source_images([[maybe_unused]] int source) const {
    if constexpr (kIsSecond) {
      if (source == kGradGradInput) return sampling_.grad_grad_input;
    }
    return sampling_.input;
  }

  // ---- grad_output and grad_grad_output in channels-last order

  // From sample `first` on.
  struct Gradients {
    const float* data;
    int64_t first;
    int64_t stride;  // from one sample to the next
  };

  // Where they lie, or packed.
  Gradients gradients_of(const BoxTask& task, const Samples& run) const {
    const Image gradients = image_of(sampling_.output, task.image);
    if (!tensors().packs_gradient) return {gradients.channel<float>(0), 0, gradients.flat_stride()};
    if (are_scattered_) return {layout_.all_gradients + number_of(task, 0), 0, channels()};
    if (run.are_neighbours()) pack_pixels(gradients, run.first, run.count, task.run_gradients, channels());
    return {task.run_gradients, run.first, channels()};
  }

  int64_t number_of(const BoxTask& task, int64_t sample) const {
    return (task.image * sampling_.samples + sample) * channels();
  }

  void pack_each(const BoxTask& task, const Samples& samples, BlockTask<kAxes>& of_block) const {
    const Image gradients = image_of(sampling_.output, task.image);
    samples.for_each_run([&](int64_t k, int64_t first, int64_t count) {
      pack_pixels(gradients, first, count, task.run_gradients + k * channels(), channels());
    });
    for (int64_t k = 0; k < samples.count; ++k) of_block.gradients[k] = task.run_gradients + k * channels();
  }

  // Of the gradient's gradient: where the result of a sample goes that is number `i` of its block.
  float* result_of(const BoxTask& task, int64_t sample, int64_t i) const {
    if (!tensors().has_result) return task.results;
    if (tensors().packs_result)
      return are_scattered_ ? layout_.all_results + number_of(task, sample) : task.results + i * channels();
    const Image results = image_of(sampling_.grad_grad_output, task.image);
    return results.channel<float>(0) + results.offset(sample);
  }

  void unpack_owned(const BoxTask& task, const Samples& samples, uint32_t owned) const {
    if (!tensors().packs_result || are_scattered_) return;
    const Image to = image_of(sampling_.grad_grad_output, task.image);
    while (owned != 0) {
      const int begin = __builtin_ctz(owned);
      const int count = samples.are_neighbours() ? __builtin_ctz(~(owned >> begin)) : 1;
      unpack_pixels(task.results + begin * channels(), channels(), to, samples[begin], count);
      owned &= ~(((1u << count) - 1) << begin);
    }
  }

  void unpack_results(int64_t images, double nanoseconds) const {
    const int64_t chunks = divide_up(sampling_.samples, kMaxSamples);
    parallel_for(images * chunks, nanoseconds, [&](int64_t index) {
      const int64_t image = index / chunks, first = index % chunks * kMaxSamples;
      unpack_pixels(layout_.all_results + (image * sampling_.samples + first) * channels(), channels(),
                    image_of(sampling_.grad_grad_output, image), first,
                    std::min(kMaxSamples, sampling_.samples - first));
    });
  }

  // ---- Samples

  void differentiate_run(const BoxTask& task, const Samples& run) const {
    const Gradients gradients = gradients_of(task, run);
    const bool packs_each = gradients.data == task.run_gradients && !run.are_neighbours();
    for (int64_t k = 0; k < run.count; k += kMaxSamples) {
      const Samples samples = run.part(k, kMaxSamples);
      Block<float, kAxes> blocks[kMaxBlocks];
      prepare_blocks(sampling_, first_image_ + task.image, samples, blocks);
      alignas(64) float along[kAxes][kMaxSamples];
      if constexpr (kIsSecond) {
        if (sampling_.has_grad_grad_grid) {
          load_coordinates(image_of(sampling_.grad_grad_grid, task.image), samples, along);
        } else {
          std::memset(along, 0, sizeof along);
        }
      }
      for (int64_t i = 0; i < samples.count; i += kBlock) {
        const Samples of_block = samples.part(i, kBlock);
        BlockTask<kAxes> block_task(blocks[i / kBlock]);
        for (int64_t j = 0; j < kBlock; ++j) {
          const int64_t sample = of_block[std::min(j, of_block.count - 1)];
          block_task.gradients[j] = gradients.data + (sample - gradients.first) * gradients.stride;
          if constexpr (kIsSecond) block_task.results[j] = result_of(task, sample, j);
        }
        if (packs_each) pack_each(task, of_block, block_task);
        if constexpr (kIsSecond) {
          const auto find = sampling_.interpolation == Interpolation::bicubic
                                ? find_tangents<4, float, kAxes>
                                : find_tangents<2, float, kAxes>;
          find(block_task.block, sampling_.axes, along, i, block_task.tangents);
        }
        differentiate_samples(task, of_block, block_task);
      }
    }
  }

  void differentiate_samples(const BoxTask& task, const Samples& samples, BlockTask<kAxes>& of_block) const {
    const uint32_t all = (1u << samples.count) - 1;
    of_block.owned = tensors().reads ? all & samples_owned(of_block.block, task.box) : 0;
    of_block.bits = sampling_.wants_input_grad ? all : of_block.owned;
    alignas(64) float slopes[kAxes][kBlock];
    differentiate_block_(task, of_block, slopes);
    if (sampling_.wants_grid_grad && of_block.owned != 0)
      store_grid_grad(image_of(sampling_.grid_grad, task.image), samples, of_block.owned, slopes);
    if constexpr (kIsSecond) unpack_owned(task, samples, of_block.owned);
  }

  const AnySampling& sampling_;
  const ChannelsLayout& layout_;
  const BoxCut cut_;
  const int64_t box_floats_;
  DifferentiateBlock differentiate_block_ = nullptr;
  int64_t first_image_ = 0;  // of the current round
  bool are_scattered_ = false;
};

void run_by_channels(const Sampling& sampling, const ChannelsLayout& layout) {
  visit_axes(sampling, [&](auto axes) {
    GradByChannels<Sampling, axes>(sampling, layout).run(gradient_nanoseconds(sampling));
  });
}

void run_second_by_channels(const DoubleBackward& sampling, const ChannelsLayout& layout) {
  visit_axes(sampling, [&](auto axes) {
    GradByChannels<DoubleBackward, axes>(sampling, layout).run(double_backward_nanoseconds(sampling));
  });
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_by_channels);
HWY_EXPORT(run_second_by_channels);

}  // namespace

size_t grad_by_channels_workspace_size(const Sampling& sampling) {
  return size_of_workspace<ChannelsLayout>(sampling);
}

void grad_by_channels(const Sampling& sampling, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  HWY_DYNAMIC_DISPATCH(run_by_channels)(sampling, ChannelsLayout(sampling, allocator));
}

size_t double_backward_by_channels_workspace_size(const DoubleBackward& sampling) {
  return size_of_workspace<ChannelsLayout>(sampling);
}

void double_backward_by_channels(const DoubleBackward& sampling, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  HWY_DYNAMIC_DISPATCH(run_second_by_channels)(sampling, ChannelsLayout(sampling, allocator));
}

}  // namespace aclgrad::ops::grid_sampler

#endif
