// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Nearest grid sampling, forward: each result is an element of the image, or zero. So elements are copied, whatever their
// type is.
#include "ops/grid_sampler/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/forward_nearest.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/nearest-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

// Copies elements as they are: of either type of 16 bits in the same way.
template <class Bits, int kAxes>
class ForwardNearest {
 public:
  using Real = std::conditional_t<sizeof(Bits) == 8, double, float>;
  using Pixels = NearestPixels<Real, kAxes>;
  using D = typename Pixels::D;
  using V = typename Pixels::V;
  using BitsTag = hn::Rebind<Bits, D>;
  static constexpr int64_t kSamples = Pixels::kSamples;
  static constexpr int64_t kChunkSamples = 16 * kSamples;

  ForwardNearest(const Sampling& sampling, int64_t image)
      : input_(sampling.input[image]),
        output_(sampling.output[image]),
        has_plain_output_(output_.has_contiguous_channels()),
        has_channels_last_(input_.channels > 1 && input_.channel_stride == 1 && output_.channel_stride == 1),
        prefetches_(outgrows_cache(sampling)),
        gathers_(input_.channels > 2 && input_.channels <= kFewChannels &&
                 input_.channels * input_.pixels() > kCacheElements),
        grid_(sampling.grid[image]),
        pixels_(input_, sampling.axes, max_lines()) {}

  // Samples [first, end).
  void sample(int64_t first, int64_t end) {
    if (has_channels_last_ || pixels_.is_far()) return copy_pixels(first, end);
    if (input_.channels > kFewChannels) return copy_chunks(first, end);
    for (; first < end; first += kSamples) {
      const int64_t count = std::min(kSamples, end - first);
      Found found;
      find(first, count, found);
      copy_channels(found, input_.channel<Bits>(0), input_.channels, output_.channel<Bits>(0), first, count);
    }
  }

 private:
  using Found = typename Pixels::Found;

  // Beyond the first-level cache it takes less time to gather: fewer instructions stand between the loads of two vectors.
  static constexpr int64_t kCacheElements = 1 << 16;

  HWY_INLINE void find(int64_t first, int64_t count, Found& found) {
    V coordinates[kAxes];
    grid_.load(first, count, coordinates);
    pixels_.find(coordinates, found);
  }

  // That are looked for. Of one channel, two take as long as elements anywhere.
  int max_lines() const {
    if (has_channels_last_) return input_.column_stride == input_.channels ? 1 : 0;
    if (input_.column_stride != 1) return 0;
    return input_.channels == 1 ? 1 : 2;
  }

  // ---- Channel by channel

  // A channel of many samples after the other, so that its pixels stay in the cache.
  HWY_NOINLINE void copy_chunks(int64_t begin, int64_t end) {
    Found chunk[kChunkSamples / kSamples];
    for (; begin < end; begin += kChunkSamples) {
      const int64_t count = std::min(kChunkSamples, end - begin);
      for (int64_t k = 0; k < count; k += kSamples)
        find(begin + k, std::min(kSamples, count - k), chunk[k / kSamples]);
      for (int64_t channel = 0; channel < input_.channels; ++channel) {
        const Bits* from = input_.channel<Bits>(channel);
        Bits* to = output_.channel<Bits>(channel);
        for (int64_t k = 0; k < count; k += kSamples)
          copy_channels(chunk[k / kSamples], from, 1, to, begin + k, std::min(kSamples, count - k));
      }
    }
  }

  HWY_INLINE void copy_channels(const Found& found, const Bits* from, int64_t channels, Bits* to,
                                int64_t first, int64_t count) const {
    if (found.lines == 1) return copy_elements<1>(found, from, channels, to, first, count);
    if (found.lines == 2) return copy_elements<2>(found, from, channels, to, first, count);
    copy_elements<0>(found, from, channels, to, first, count);
  }

  template <int kLines>
  HWY_INLINE void copy_elements(const Found& found, const Bits* from, int64_t channels, Bits* to,
                                int64_t first, int64_t count) const {
    const bool is_plain = has_plain_output_ && count == kSamples;
    for (int64_t c = 0; c < channels; ++c, from += input_.channel_stride, to += output_.channel_stride) {
      const auto elements = elements_of<kLines>(found, from);
      if (kLines != 0 && prefetches_) prefetch_next_row(from, found);
      if (HWY_LIKELY(is_plain)) {
        store(elements, to + first);
        continue;
      }
      alignas(64) Bits staged[kSamples];
      hn::Store(elements, BitsTag(), staged);
      for_each_pixel(output_, first, count, [&](int64_t k, int64_t offset) { to[offset] = staged[k]; });
    }
  }

  template <int kLines>
  HWY_INLINE hn::Vec<BitsTag> elements_of(const Found& found, const Bits* from) const {
    const BitsTag d;
    if constexpr (kLines == 0) {
      const auto elements = elements_at(from, found.offsets);
      return found.bits == Pixels::kAll ? elements : hn::IfThenElseZero(mask_of(d, found.bits), elements);
    }
    const auto elements = hn::LoadU(d, from + found.line[0]);
    if constexpr (kLines == 1) return elements;
    return hn::IfThenElse(mask_of(d, found.in_first), elements, hn::LoadU(d, from + found.line[1]));
  }

  // What the samples of the next row of a grid will read, above or below.
  HWY_INLINE void prefetch_next_row(const Bits* from, const Found& found) const {
    const int64_t second = found.line[found.lines - 1];
    const Bits* above = from + std::min<int64_t>(found.line[0], second) - input_.row_stride;
    const Bits* below = from + std::max<int64_t>(found.line[0], second) + input_.row_stride;
    for (const Bits* row : {above, below}) {
      prefetch_for_later(row);
      prefetch_for_later(row + kSamples - 1);
    }
  }

  HWY_INLINE hn::Vec<BitsTag> elements_at(const Bits* from, hn::Vec<typename Pixels::Integer> offsets) const {
    if constexpr (sizeof(Bits) == sizeof(Real)) {
      if (gathers_) return hn::GatherIndex(BitsTag(), from, offsets);
    }
    return load_each(BitsTag(), from, offsets);
  }

  HWY_INLINE void store(hn::Vec<BitsTag> elements, Bits* to) const {
    constexpr bool kCanStream = sizeof(Bits) * kSamples >= 16;
    const bool streams =
        kCanStream && output_.outgrows_caches && reinterpret_cast<uintptr_t>(to) % sizeof(elements) == 0;
    streams ? hn::Stream(elements, BitsTag(), to) : hn::StoreU(elements, BitsTag(), to);
  }

  // ---- Pixel by pixel

  HWY_NOINLINE void copy_pixels(int64_t first, int64_t end) {
    for (; first < end; first += kSamples) {
      const int64_t count = std::min(kSamples, end - first);
      Found found;
      find(first, count, found);
      int64_t offsets[kSamples];
      pixels_.store_offsets(found, offsets);
      if (!has_channels_last_) {
        copy_each(found, offsets, first, count);
      } else if (input_.channels > kFewChannels) {
        copy_together(input_.channels, found, offsets, first, count);
      } else {
        visit_interleaved(input_.channels,
                          [&](auto channels) { copy_together(channels, found, offsets, first, count); });
      }
    }
  }

  template <class Count>
  HWY_INLINE void copy_together(Count channels, const Found& found, const int64_t (&offsets)[kSamples],
                                int64_t first, int64_t count) const {
    const size_t bytes = static_cast<size_t>(channels) * sizeof(Bits);
    const Bits* from = input_.channel<Bits>(0);
    Bits* to = output_.channel<Bits>(0);
    if (found.lines == 1 && count == kSamples && output_.is_flat() && output_.flat_stride() == channels) {
      std::memcpy(to + first * channels, from + found.line[0], kSamples * bytes);
      return;
    }
    if (found.bits == Pixels::kAll && count == kSamples && output_.is_flat()) {
      const int64_t stride = output_.flat_stride();
      to += first * stride;
#pragma GCC unroll 16
      for (int64_t k = 0; k < kSamples; ++k) std::memcpy(to + k * stride, from + offsets[k], bytes);
      return;
    }
    for_each_pixel(output_, first, count, [&](int64_t k, int64_t offset) {
      if (HWY_LIKELY(found.bits >> k & 1)) {
        std::memcpy(to + offset, from + offsets[k], bytes);
      } else {
        std::memset(to + offset, 0, bytes);
      }
    });
  }

  void copy_each(const Found& found, const int64_t (&offsets)[kSamples], int64_t first, int64_t count) const {
    for (int64_t channel = 0; channel < input_.channels; ++channel) {
      const Bits* from = input_.channel<Bits>(channel);
      Bits* to = output_.channel<Bits>(channel);
      for_each_pixel(output_, first, count, [&](int64_t k, int64_t offset) {
        to[offset] = (found.bits >> k & 1) != 0 ? from[offsets[k]] : Bits{0};
      });
    }
  }

  const Image input_;
  const Image output_;
  const bool has_plain_output_;
  const bool has_channels_last_;
  const bool prefetches_;
  const bool gathers_;
  GridReader<Real, kAxes> grid_;
  Pixels pixels_;
};

void run_nearest(const Sampling& sampling) {
  visit_axes(sampling, [&](auto axes) {
    const size_t bytes = size_of(sampling.type);
    if (bytes == 8) return sample_parts<ForwardNearest<uint64_t, axes>>(sampling);
    if (bytes == 4) return sample_parts<ForwardNearest<uint32_t, axes>>(sampling);
    sample_parts<ForwardNearest<uint16_t, axes>>(sampling);
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
