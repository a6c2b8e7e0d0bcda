// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Nearest grid sampling. Each result is an element of the image, or zero: so elements are copied, whatever their type is.
#include <algorithm>
#include <cstring>

#include "ops/grid_sampler/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/forward_nearest.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/coordinates-inl.h"
#include "ops/grid_sampler/interleaved-inl.h"
#include "ops/grid_sampler/nearest_pixels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

// Copies elements as they are: of either type of 16 bits in the same way.
template <class T, int kAxes>
class ForwardNearest {
 public:
  using Real = std::conditional_t<sizeof(T) == 8, double, float>;
  using Pixels = NearestPixels<Real, kAxes>;
  using D = typename Pixels::D;
  using V = typename Pixels::V;
  using ElementsTag = hn::Rebind<T, D>;
  static constexpr int64_t kSamples = Pixels::kSamples;
  static constexpr int64_t kChunkSamples = 16 * kSamples;
  static constexpr int64_t kFewChunkVectors = 8;  // of few channels
  // Two planes are gone through together where the second-level cache holds all planes and the results.
  static constexpr int64_t kMaxBytesOfPlanes = 1 << 19;

  explicit ForwardNearest(const Sampling& sampling)
      : input_(sampling.input.first),
        output_(sampling.output.first),
        has_plain_output_(output_.has_contiguous_channels()),
        reads_pixels_(input_.channels > 1 && input_.channel_stride == 1),
        has_channels_last_(reads_pixels_ && output_.channel_stride == 1),
        has_dense_output_(has_channels_last_ && output_.is_flat() &&
                          output_.flat_stride() == output_.channels),
        has_small_planes_(has_few_channels(sampling) && !reads_pixels_ &&
                          input_.channels * input_.pixels() * int64_t{sizeof(T)} <= kMaxBytesOfPlanes),
        prefetches_(outgrows_cache(sampling)),
        asks_ahead_(input_.channels <= kFewChannels && (reads_pixels_ ? prefetches_ : sampling.asks_ahead)),
        next_row_(sampling.goes_up ? -input_.row_stride : input_.row_stride),
        grid_(sampling.grid.first),
        pixels_(input_, sampling.axes, max_lines()) {}

  // What is sampled from here on.
  void go_to(const Sampling& sampling, int64_t image) {
    input_.data = sampling.input[image].data;
    output_.data = sampling.output[image].data;
    grid_.go_to(sampling.grid[image]);
  }

  // Samples [first, end).
  void sample(int64_t first, int64_t end) {
    if (pixels_.is_far()) return copy_far_pixels(first, end);
    copy_chunks(first, end);
  }

 private:
  using Found = typename Pixels::Found;

  HWY_INLINE void find(Pixels& finder, int64_t first, int64_t count, V (&pixels)[kAxes], Found& found) {
    V coordinates[kAxes];
    grid_.load(first, count, coordinates);
    finder.find(coordinates, pixels, found);
    if (asks_ahead_ && found.lines == 0) prefetch(found);
  }

  // What turned or scattered samples read lies in an order that the processor does not foretell. It is copied once the pixels
  // of the whole chunk are found.
  HWY_INLINE void prefetch(const Found& found) const {
    const int64_t planes = reads_pixels_ ? 1 : input_.channels;
    for (int64_t c = 0; c < planes; ++c) {
#pragma GCC unroll 16
      for (int64_t k = 0; k < kSamples; ++k) prefetch_for_later(input_.channel<T>(c) + found.offsets[k]);
    }
  }

  // That are looked for. Two lines take as long as elements anywhere where there is one channel, and where vectors hold whole
  // pixels. Where the caches do not hold the image, the unread part of the second line would be waited for.
  int max_lines() const {
    if (has_channels_last_ && input_.column_stride != input_.channels) return 0;
    if (has_channels_last_) return kRepeatsForElements && input_.channels < 4 && !prefetches_ ? 2 : 1;
    if (input_.column_stride != 1) return 0;
    return input_.channels == 1 ? 1 : 2;
  }

  // ---- Channel by channel

  // Finds the pixels of some vectors of samples, then copies their elements.
  HWY_NOINLINE void copy_chunks(int64_t begin, int64_t end) {
    const bool has_few = input_.channels <= kFewChannels;
    const int64_t chunk_samples = has_few ? kFewChunkVectors * kSamples : kChunkSamples;
    Found chunk[kChunkSamples / kSamples];
    Pixels finder = pixels_;  // a copy, of which the compiler keeps much in registers
    for_each_chunk<kSamples>(begin, end, chunk_samples, [&](int64_t first, int64_t count) HWY_ATTR {
      bool has_lines = false;
      for (int64_t k = 0; k < count; k += kSamples) {
        V pixels[kAxes];
        Found& found = chunk[k / kSamples];
        find(finder, first + k, std::min(kSamples, count - k), pixels, found);
        has_lines |= found.lines != 0;
      }
      if (has_channels_last_) {
        copy_by_pixels(chunk, first, count);
      } else if (has_lines && has_few) {
        copy_by_vectors(chunk, first, count);
      } else {
        copy_by_channels(chunk, first, count);
      }
    });
  }

  // A vector of samples after the other, in all channels: what depends on its lines is decided once.
  HWY_INLINE void copy_by_vectors(const Found* chunk, int64_t first, int64_t count) const {
    for (int64_t k = 0; k < count; k += kSamples) {
      const Found& found = chunk[k / kSamples];
      const Samples samples{first + k, std::min(kSamples, count - k)};
      if (found.lines == 0) copy_vector<0>(found, samples);
      if (found.lines == 1) copy_vector<1>(found, samples);
      if (found.lines == 2) copy_vector<2>(found, samples);
    }
  }

  template <int kLines>
  HWY_INLINE void copy_vector(const Found& found, Samples samples) const {
    const T* from = input_.channel<T>(0);
    T* to = output_.channel<T>(0);
    for (int64_t c = 0; c < input_.channels; ++c) {
      copy_elements(elements_of<kLines>(found, from), to, samples);
      from += input_.channel_stride, to += output_.channel_stride;
    }
  }

  // A channel after the other, or some that lie side by side, of all samples: so pixels stay in the cache.
  HWY_INLINE void copy_by_channels(const Found* chunk, int64_t first, int64_t count) const {
    const int64_t group = reads_pixels_ ? 4 : has_small_planes_ ? 2 : 1;
    for (int64_t channel = 0; channel < input_.channels; channel += group) {
      const int64_t channels = std::min(group, input_.channels - channel);
      if (channels == 2 && has_small_planes_) {
        copy_two_planes(chunk, channel, first, count);
      } else if (channels == 1) {
        copy_some<1>(chunk, channel, first, count);
      } else {
        visit_interleaved(channels,
                          [&](auto constant) { copy_some<constant>(chunk, channel, first, count); });
      }
    }
  }

  template <int kChannels>
  HWY_NOINLINE void copy_some(const Found* chunk, int64_t channel, int64_t first, int64_t count) const {
    const ElementsTag d;
    const T* const from = input_.channel<T>(channel);
    T* const to = output_.channel<T>(channel);
    for (int64_t k = 0; k < count; k += kSamples) {
      const Found& found = chunk[k / kSamples];
      const Samples samples{first + k, std::min(kSamples, count - k)};
      hn::Vec<ElementsTag> elements[kChannels];
      if constexpr (kChannels == 1) {
        elements[0] = found.lines == 0   ? elements_of<0>(found, from)
                      : found.lines == 1 ? elements_of<1>(found, from)
                                         : elements_of<2>(found, from);
      } else {
        load_elements(d, from, found.offsets, elements);
        for (auto& of_channel : elements) of_channel = hn::IfThenElseZero(mask_of(d, found.bits), of_channel);
      }
      for (int c = 0; c < kChannels; ++c)
        copy_elements(elements[c], to + c * output_.channel_stride, samples);
    }
  }

  HWY_NOINLINE void copy_two_planes(const Found* chunk, int64_t channel, int64_t first, int64_t count) const {
    const ElementsTag d;
    const T* const from = input_.channel<T>(channel);
    for (int64_t k = 0; k < count; k += kSamples) {
      const Found& found = chunk[k / kSamples];
      const Samples samples{first + k, std::min(kSamples, count - k)};
      hn::Vec<ElementsTag> elements[2];
      load_planes(d, from, input_.channel_stride, found.offsets, elements);
      for (int c = 0; c < 2; ++c)
        copy_elements(hn::IfThenElseZero(mask_of(d, found.bits), elements[c]),
                      output_.channel<T>(channel + c), samples);
    }
  }

  // What a vector of samples reads in one channel.
  template <int kLines>
  HWY_INLINE hn::Vec<ElementsTag> elements_of(const Found& found, const T* from) const {
    const ElementsTag d;
    if constexpr (kLines == 0) {
      return hn::IfThenElseZero(mask_of(d, found.bits), load_each<1>(d, from, found.offsets));
    } else {
      if (prefetches_)
        prefetch_lines<1>(D(), from + next_row_, found.line[0], found.line[found.lines - 1], next_row_ < 0);
      const auto elements = hn::LoadU(d, from + found.line[0]);
      if constexpr (kLines == 1) return elements;
      return hn::IfThenElse(mask_of(d, found.in_first), elements, hn::LoadU(d, from + found.line[1]));
    }
  }

  HWY_INLINE void copy_elements(hn::Vec<ElementsTag> elements, T* to, Samples samples) const {
    if (HWY_LIKELY(has_plain_output_ && samples.count == kSamples))
      return store(elements, to + samples.first);
    alignas(64) T staged[kSamples];
    hn::Store(elements, ElementsTag(), staged);
    for_each_pixel(output_, samples.first, samples.count,
                   [&](int64_t k, int64_t offset) { to[offset] = staged[k]; });
  }

  HWY_INLINE void store(hn::Vec<ElementsTag> elements, T* to) const {
    constexpr bool kCanStream = sizeof(T) * kSamples >= 16;
    const bool streams =
        kCanStream && output_.outgrows_caches && reinterpret_cast<uintptr_t>(to) % sizeof(elements) == 0;
    streams ? hn::Stream(elements, ElementsTag(), to) : hn::StoreU(elements, ElementsTag(), to);
  }

  // ---- Pixel by pixel, where their channels come last

  HWY_INLINE void copy_by_pixels(const Found* chunk, int64_t first, int64_t count) const {
    if (input_.channels > kFewChannels) return copy_pixels(input_.channels, chunk, first, count);
    visit_interleaved(input_.channels, [&](auto channels) { copy_pixels(channels, chunk, first, count); });
  }

  template <class Count>
  HWY_NOINLINE void copy_pixels(Count channels, const Found* chunk, int64_t first, int64_t count) const {
    for (int64_t k = 0; k < count; k += kSamples)
      copy_together(channels, chunk[k / kSamples], first + k, std::min(kSamples, count - k));
  }

  template <class Count>
  HWY_INLINE void copy_together(Count channels, const Found& found, int64_t first, int64_t count) const {
    const size_t bytes = static_cast<size_t>(channels) * sizeof(T);
    const T* from = input_.channel<T>(0);
    T* to = output_.channel<T>(0);
    if (count == kSamples && has_dense_output_) {
      T* const dense = to + first * channels;
      if (found.lines == 1) {
        std::memcpy(dense, from + found.line[0], kSamples * bytes);
        return;
      }
      if constexpr (kRepeatsForElements && !std::is_same_v<Count, int64_t>) {
        if (found.lines == 2) return copy_two_lines<Count::value>(found, dense);
        if constexpr (kSamples >= 4) {
          if (Count::value != 3 || !pixels_.reads_last(found))
            return copy_vectors<Count::value>(found, dense);
        }
      }
      if (found.bits == Pixels::kAll) {
#pragma GCC unroll 16
        for (int64_t k = 0; k < kSamples; ++k)
          std::memcpy(dense + k * channels, from + found.offsets[k], bytes);
        return;
      }
    }
    for_each_pixel(output_, first, count, [&](int64_t k, int64_t offset) {
      if (HWY_LIKELY(found.bits >> k & 1)) {
        std::memcpy(to + offset, from + found.offsets[k], bytes);
      } else {
        std::memset(to + offset, 0, bytes);
      }
    });
  }

  static constexpr bool kRepeatsForElements = sizeof(T) >= 4;  // for_elements() takes no narrower ones

  template <int kTogether>
  HWY_INLINE void copy_two_lines(const Found& found, T* to) const {
    const ElementsTag d;
    const T* first = input_.channel<T>(0) + found.line[0];
    const T* second = input_.channel<T>(0) + found.line[1];
    const auto are_in_first = hn::VecFromMask(d, mask_of(d, found.in_first));
    for (int k = 0; k < kTogether; ++k, first += kSamples, second += kSamples, to += kSamples) {
      const auto is_in_first = hn::MaskFromVec(for_elements<kTogether>(d, are_in_first, k));
      hn::StoreU(hn::IfThenElse(is_in_first, hn::LoadU(d, first), hn::LoadU(d, second)), d, to);
    }
  }

  // For samples that read nothing the pixel at offset 0 is loaded, but zero is stored.
  template <int kTogether>
  HWY_INLINE void copy_vectors(const Found& found, T* to) const {
    const ElementsTag d;
    hn::Vec<ElementsTag> elements[kTogether];
    load_pixels_in_order(found, elements);
    const auto reads = hn::VecFromMask(d, mask_of(d, found.bits));
    for (int k = 0; k < kTogether; ++k) {
      if (HWY_UNLIKELY(found.bits != Pixels::kAll))
        elements[k] = hn::And(elements[k], for_elements<kTogether>(d, reads, k));
      hn::StoreU(elements[k], d, to + k * kSamples);
    }
  }

  // Vectors of the elements of the samples' pixels, in the order of memory.
  template <int kTogether>
  HWY_INLINE void load_pixels_in_order(const Found& found,
                                       hn::Vec<ElementsTag> (&elements)[kTogether]) const {
    const ElementsTag d;
    const T* from = input_.channel<T>(0);
    if constexpr (kTogether != 3) {
      for (int k = 0; k < kTogether; ++k)
        elements[k] = load_each<kTogether>(d, from, found.offsets + k * kSamples / kTogether);
    } else {
      hn::Vec<ElementsTag> fours[4];  // of each pixel, and what follows it
      for (int k = 0; k < 4; ++k) fours[k] = load_each<4>(d, from, found.offsets + k * kSamples / 4);
      for (int k = 0; k < 3; ++k) {
        alignas(64) typename Pixels::Offset lanes[kSamples];
        for (int64_t i = 0; i < kSamples; ++i) {
          const int64_t element = (k * kSamples + i) % (kSamples * 3 / 4);
          lanes[i] = static_cast<typename Pixels::Offset>(element / 3 * 4 + element % 3);
        }
        const auto table = hn::SetTableIndices(d, lanes);
        elements[k] =
            hn::IfThenElse(hn::FirstN(d, kSamples * (3 - k) / 4), hn::TableLookupLanes(fours[k], table),
                           hn::TableLookupLanes(fours[k + 1], table));
      }
    }
  }

  HWY_NOINLINE void copy_far_pixels(int64_t first, int64_t end) {
    for (; first < end; first += kSamples) {
      const int64_t count = std::min(kSamples, end - first);
      V coordinates[kAxes], pixels[kAxes];
      grid_.load(first, count, coordinates);
      Found found;
      pixels_.find(coordinates, pixels, found);
      int64_t offsets[kSamples];
      pixels_.store_offsets(pixels, found, offsets);
      for (int64_t channel = 0; channel < input_.channels; ++channel) {
        const T* from = input_.channel<T>(channel);
        T* to = output_.channel<T>(channel);
        for_each_pixel(output_, first, count, [&](int64_t k, int64_t offset) {
          to[offset] = (found.bits >> k & 1) != 0 ? from[offsets[k]] : T{0};
        });
      }
    }
  }

  Image input_;
  Image output_;
  const bool has_plain_output_;
  const bool reads_pixels_;  // whole: their channels lie side by side
  const bool has_channels_last_;
  const bool has_dense_output_;  // with channels last
  const bool has_small_planes_;
  const bool prefetches_;
  const bool asks_ahead_;
  const int64_t next_row_;
  GridReader<Real, kAxes, 2 * kFewChunkVectors> grid_;
  Pixels pixels_;
};

void run_nearest(const Sampling& sampling) {
  visit_axes(sampling, [&](auto axes) {
    const size_t bytes = size_of(sampling.type);
    if (bytes == 8) return sample_runs<ForwardNearest<double, axes>>(sampling);
    if (bytes == 4) return sample_runs<ForwardNearest<float, axes>>(sampling);
    sample_runs<ForwardNearest<uint16_t, axes>>(sampling);
  });
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_nearest);

}  // namespace

void sample_nearest(const Sampling& sampling, void*) {
  HWY_DYNAMIC_DISPATCH(run_nearest)(sampling);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
