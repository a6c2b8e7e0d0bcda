// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Nearest grid sampling and its gradient. Each result is an element of the image, or zero: so elements are copied, whatever
// their type is. Each gradient of the output is added to the one pixel that its sample reads.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "ops/grid_sampler/grad_bands.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/nearest.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/axis-inl.h"
#include "ops/grid_sampler/coordinates-inl.h"
#include "ops/grid_sampler/elements-inl.h"
#include "ops/grid_sampler/images-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

// The pixels that vectors of samples read, one for each sample: of images, or volumes.
template <class Real, int kAxes>
class NearestPixels {
 public:
  using D = BlockTag<Real>;
  using V = hn::Vec<D>;
  using Offset = OffsetOf<Real>;
  using Integer = hn::RebindToSigned<D>;
  static constexpr int64_t kSamples = hn::MaxLanes(D());
  static constexpr uint32_t kAll = (uint32_t{1} << kSamples) - 1;

  struct Found {
    alignas(
        64) Offset offsets[kSamples];  // of elements, unless the image is too large; 0 where nothing is read
    uint32_t bits;                     // of the samples that read something
    // All do, in so many lines, one or two, of pixels side by side; 0 if that is not so, or not known. In a line the
    // sample in lane i reads, or would read, the pixel that is i behind the one at offset `line`.
    int lines;
    Offset line[2] = {};
    uint32_t in_first = 0;  // a bit for each sample
  };

  // Lines are looked for up to so many.
  HWY_INLINE NearestPixels(const Image& image, const Axis* axes, int max_lines)
      : NearestPixels(image, axes, max_lines, std::make_index_sequence<kAxes>()) {}

  // Of samples at these coordinates.
  HWY_INLINE void find(const V (&coordinates)[kAxes], V (&pixels)[kAxes], Found& found) {
    const auto offsets = find_offsets(coordinates, pixels, found.bits);
    hn::Store(offsets, Integer(), found.offsets);
    found.lines = 0;
    if (max_lines_ == 0 || (patience_ == 0 && ++skipped_ < kMaxSkipped)) return;
    if (found.bits == kAll) found.lines = find_lines(offsets, found);
    patience_ = found.lines != 0 ? kMaxPatience : std::max(patience_ - 1, 0);
    skipped_ = 0;
  }

  // Returns the offsets alone.
  HWY_INLINE hn::Vec<Integer> find_offsets(const V (&coordinates)[kAxes], V (&pixels)[kAxes],
                                           uint32_t& bits_of_reads) const {
    const D d;
    const Integer integer;
    hn::Mask<D> reads;
    auto offsets = minus_units_;
    for (int k = 0; k < kAxes; ++k) {
      V scale;
      const V pixel = hn::Round(find_position<1>(d, axes_[k], coordinates[k], scale));
      const auto is_inside = hn::And(hn::Ge(pixel, hn::Zero(d)), hn::Le(pixel, axes_[k].last));
      reads = k == 0 ? is_inside : hn::And(reads, is_inside);
      pixels[k] = pixel;
      const auto bits = hn::BitCast(integer, hn::Add(pixel, hn::Set(d, kUnits)));
      const auto stride = hn::Set(integer, static_cast<Offset>(strides_[k]));
      offsets = hn::Add(offsets, strides_[k] == 1 ? bits : hn::Mul(bits, stride));
    }
    bits_of_reads = bits_of(d, reads);
    return hn::IfThenElseZero(hn::RebindMask(integer, reads), offsets);
  }

  // Whether a sample reads the last pixel of the image, behind which nothing may be read.
  HWY_INLINE bool reads_last(const Found& found) const {
    const Integer integer;
    return !hn::AllFalse(integer, hn::Eq(hn::Load(integer, found.offsets), hn::Set(integer, last_)));
  }

  // Whether offsets are too large for vectors. Then those of the pixels are computed one by one.
  bool is_far() const { return is_far_; }

  HWY_INLINE void store_offsets(const V (&pixels)[kAxes], const Found& found,
                                int64_t (&offsets)[kSamples]) const {
    if (HWY_UNLIKELY(is_far_)) return find_far_offsets(pixels, found.bits, offsets);
    std::copy_n(found.offsets, kSamples, offsets);
  }

 private:
  using Bits = hwy::MakeUnsigned<Real>;
  static constexpr int kMaxPatience = 8;  // vectors without lines
  static constexpr int kMaxSkipped = 16;

  HWY_INLINE int find_lines(hn::Vec<Integer> offsets, Found& found) const {
    const Integer integer;
    const auto lines = hn::Sub(offsets, steps_);
    const auto is_in = [&](Offset line) HWY_ATTR { return hn::Eq(lines, hn::Set(integer, line)); };
    found.line[0] = hn::GetLane(lines);
    const auto is_in_first = is_in(found.line[0]);
    if (hn::AllTrue(integer, is_in_first)) return 1;
    if (max_lines_ == 1) return 0;
    found.in_first = bits_of(integer, is_in_first);
    found.line[1] = hn::ExtractLane(lines, kSamples - 1);
    const bool has_lines = std::max(found.line[0], found.line[1]) <= last_line_ && found.line[1] >= 0;
    return has_lines && hn::AllTrue(integer, hn::Or(is_in_first, is_in(found.line[1]))) ? 2 : 0;
  }

  // Added to a whole number below it, its unit in the last place is one: that number is its last bits.
  static constexpr Real kUnits = std::is_same_v<Real, float> ? Real{1 << 23} : Real{int64_t{1} << 52};

  template <size_t... kAxis>
  HWY_INLINE NearestPixels(const Image& image, const Axis* axes, int max_lines, std::index_sequence<kAxis...>)
      : axes_{VectorAxis<D>(axes[kAxis])...},
        strides_{image.column_stride, image.row_stride, image.slice_stride} {
    const int64_t last = image.offset(image.depth - 1, image.height - 1, image.width - 1);
    last_ = static_cast<Offset>(last);
    last_line_ = static_cast<Offset>(last - (kSamples - 1) * image.column_stride);
    steps_ = hn::Mul(hn::Iota(Integer(), 0), hn::Set(Integer(), static_cast<Offset>(image.column_stride)));
    is_far_ = std::is_same_v<Real, float> &&
              (last > std::numeric_limits<int32_t>::max() ||
               std::max({image.depth, image.height, image.width}) >= int64_t{1} << 23);
    max_lines_ = is_far_ ? 0 : max_lines;
    Bits units = 0;
    for (int k = 0; k < kAxes; ++k) units += std::bit_cast<Bits>(kUnits) * static_cast<Bits>(strides_[k]);
    minus_units_ = hn::Set(Integer(), static_cast<Offset>(Bits{0} - units));
  }

  HWY_NOINLINE void find_far_offsets(const V (&pixels)[kAxes], uint32_t bits,
                                     int64_t (&offsets)[kSamples]) const {
    std::fill(offsets, offsets + kSamples, 0);
    for (int k = 0; k < kAxes; ++k) {
      alignas(64) Real along[kSamples];
      hn::Store(hn::IfThenElseZero(mask_of(D(), bits), pixels[k]), D(), along);
      for (int64_t i = 0; i < kSamples; ++i) offsets[i] += static_cast<int64_t>(along[i]) * strides_[k];
    }
  }

  const VectorAxis<D> axes_[kAxes];
  const int64_t strides_[3];
  // Where grids are not smooth, lines are looked for in few vectors.
  int patience_ = kMaxPatience;
  int skipped_ = 0;
  bool is_far_;
  int max_lines_;
  Offset last_;                   // pixel
  Offset last_line_;              // that is one for all lanes
  hn::Vec<Integer> steps_;        // in a line
  hn::Vec<Integer> minus_units_;  // by which the offsets are too large at first
};

// ---- Forward

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

  ForwardNearest(const Sampling& sampling, int64_t image)
      : input_(sampling.input[image]),
        output_(sampling.output[image]),
        has_plain_output_(output_.has_contiguous_channels()),
        reads_pixels_(input_.channels > 1 && input_.channel_stride == 1),
        has_channels_last_(reads_pixels_ && output_.channel_stride == 1),
        has_dense_output_(has_channels_last_ && output_.is_flat() &&
                          output_.flat_stride() == output_.channels),
        has_small_planes_(has_few_channels(sampling) && !reads_pixels_ &&
                          input_.channels * input_.pixels() * int64_t{sizeof(T)} <= kMaxBytesOfPlanes),
        prefetches_(outgrows_cache(sampling)),
        asks_ahead_(input_.channels <= kFewChannels && (reads_pixels_ ? prefetches_ : sampling.has_far_rows)),
        next_row_(sampling.goes_up ? -input_.row_stride : input_.row_stride),
        grid_(sampling.grid[image]),
        pixels_(input_, sampling.axes, max_lines()) {}

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
    for (; begin < end; begin += chunk_samples) {
      const int64_t count = std::min(chunk_samples, end - begin);
      bool has_lines = false;
      for (int64_t k = 0; k < count; k += kSamples) {
        V pixels[kAxes];
        Found& found = chunk[k / kSamples];
        find(finder, begin + k, std::min(kSamples, count - k), pixels, found);
        has_lines |= found.lines != 0;
      }
      if (has_channels_last_) {
        copy_by_pixels(chunk, begin, count);
      } else if (has_lines && has_few) {
        copy_by_vectors(chunk, begin, count);
      } else {
        copy_by_channels(chunk, begin, count);
      }
    }
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

  const Image input_;
  const Image output_;
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

// ---- Gradient

// The samples of an image, as far as they add to a band of its rows.
template <class Real, int kAxes>
class GradNearest {
 public:
  GradNearest(const Sampling& sampling, int64_t image, RowBand band, const Sums& sums)
      : band_(band),
        grad_output_(sampling.output[image]),
        target_(image_around(sums, sampling.last_axis().size)),
        sums_(sums),
        reads_gradient_(grad_output_.type == data_type_of<Real> && grad_output_.is_flat()),
        has_channels_last_(target_.channels > 1 && target_.channel_stride == 1 && reads_gradient_ &&
                           grad_output_.channel_stride == 1),
        grid_(sampling.grid[image]),
        pixels_(target_, sampling.axes, max_lines()) {}

  // Samples [first, end), all of them inside of the band or not: a few channels of a chunk of them at a time.
  void differentiate(int64_t first, int64_t end, bool is_inside) {
    Vector chunk[kChunkSamples / kSamples];
    const int64_t most = has_channels_last_ ? 1 : kChunkSamples / kSamples;
    while (first < end) {
      int64_t vectors = 0;
      for (; vectors < most && first < end; first += kSamples) {
        if (find(first, std::min(kSamples, end - first), is_inside, chunk[vectors])) ++vectors;
      }
      if (vectors == 0) continue;
      if (has_channels_last_) {
        add_pixels(chunk[0]);
        continue;
      }
      for (int64_t channel = 0; channel < target_.channels; channel += kGroup) {
        const int64_t channels = std::min(kGroup, target_.channels - channel);
        for (int64_t k = 0; k < vectors; ++k) add_channels(chunk[k], channel, channels);
      }
    }
  }

  void finish() { sums_.zero_to(band_.end - 1); }

 private:
  using Pixels = NearestPixels<Real, kAxes>;
  using D = typename Pixels::D;
  using V = typename Pixels::V;
  static constexpr int64_t kSamples = Pixels::kSamples;
  static constexpr int64_t kGroup = kFewChannels;  // channels whose sums wait for each other

  // Neighbouring samples.
  struct Vector {
    int64_t first;
    int64_t count;
    uint32_t bits;  // of those that add to the band
    int lines;      // of pixels side by side that all of them add to; 0 if that is not so
    uint32_t in_first;
    int64_t line[2];
    int64_t offsets[kSamples];
  };

  // That are looked for. With two, zeros are added to what lies between rows, too; of one channel, they take as long as
  // pixels anywhere.
  int max_lines() const {
    if (has_channels_last_) return target_.column_stride == target_.channels ? 1 : 0;
    if (target_.column_stride != 1) return 0;
    return target_.channels > 1 && target_.has_contiguous_channels() ? 2 : 1;
  }

  // The image that the sums are a part of.
  static Image image_around(const Sums& sums, int64_t rows) {
    Image image = sums.rows;
    (kAxes == 2 ? image.height : image.depth) = rows;
    image.data = image.channel<Real>(0) - sums.first_row * step_of(image);
    return image;
  }

  static int64_t step_of(const Image& image) { return kAxes == 2 ? image.row_stride : image.slice_stride; }

  // Returns whether any sample adds to the band; then the rows that they add to are zeroed.
  HWY_INLINE bool find(int64_t first, int64_t count, bool is_inside, Vector& vector) {
    const D d;
    V coordinates[kAxes], pixels[kAxes];
    grid_.load(first, count, coordinates);
    typename Pixels::Found found;
    pixels_.find(coordinates, pixels, found);
    uint32_t bits = found.bits;
    if (HWY_UNLIKELY(count != kSamples)) bits &= (uint32_t{1} << count) - 1;
    const V row = pixels[kAxes - 1];
    if (!is_inside) bits &= rows_from(d, row, band_.begin) & ~rows_from(d, row, band_.end);
    if (bits == 0) return false;
    if (HWY_UNLIKELY((rows_from(d, row, sums_.missing.begin) & bits) != 0)) {
      const V of_bits = hn::IfThenElseZero(mask_of(d, bits), row);
      sums_.zero_to(static_cast<int64_t>(hn::GetLane(hn::MaxOfLanes(d, of_bits))));
    }
    vector.first = first;
    vector.count = count;
    vector.bits = bits;
    vector.lines = bits == Pixels::kAll && are_lines_of_band(found) ? found.lines : 0;
    vector.in_first = found.in_first;
    std::copy_n(found.line, 2, vector.line);
    pixels_.store_offsets(pixels, found, vector.offsets);
    return true;
  }

  // Of two lines, whether all of both lies in the band and the samples of the first come first, as sums add up in order.
  HWY_INLINE bool are_lines_of_band(const typename Pixels::Found& found) const {
    if (found.lines != 2) return true;
    const int64_t begin = band_.begin * step_of(target_), end = band_.end * step_of(target_);
    const auto low = std::min<int64_t>(found.line[0], found.line[1]);
    const auto high = std::max<int64_t>(found.line[0], found.line[1]);
    return low >= begin && high + kSamples <= end && (found.in_first & (found.in_first + 1)) == 0;
  }

  // ---- Channel by channel

  // Some channels of the output's gradient.
  struct Gradients {
    const Real* first;
    int64_t channel_stride;
    int64_t sample_stride;
  };

  HWY_INLINE void add_channels(const Vector& vector, int64_t channel, int64_t channels) const {
    alignas(64) Real staged[kGroup][kSamples];
    Gradients from{staged[0], kSamples, 1};
    if (HWY_LIKELY(reads_gradient_)) {
      const int64_t stride = grad_output_.flat_stride();
      from = {grad_output_.channel<Real>(channel) + vector.first * stride, grad_output_.channel_stride,
              stride};
    } else {
      load_pixels(grad_output_, channel, channels, vector.first, vector.count, staged[0], kSamples);
    }
    Real* const to = target_.channel<Real>(channel);
    if (channels == 1) return add<1>(vector, from, to);
    if (channels == 2) return add<2>(vector, from, to);
    if (channels == 3) return add<3>(vector, from, to);
    add<4>(vector, from, to);
  }

  template <int kChannels>
  HWY_INLINE void add(const Vector& vector, const Gradients& from, Real* to) const {
    if (vector.lines != 0 && from.sample_stride == 1) return add_lines<kChannels>(vector, from, to);
    const auto add_sample = [&](int64_t i) HWY_ATTR {
      Real* pixel = to + vector.offsets[i];
      const Real* gradient = from.first + i * from.sample_stride;
      for (int c = 0; c < kChannels; ++c)
        pixel[c * target_.channel_stride] += gradient[c * from.channel_stride];
    };
    if (HWY_LIKELY(vector.bits == Pixels::kAll)) {
      for (int64_t i = 0; i < kSamples; ++i) add_sample(i);
      return;
    }
    for (uint32_t bits = vector.bits; bits != 0; bits &= bits - 1) add_sample(__builtin_ctz(bits));
  }

  template <int kChannels>
  HWY_INLINE void add_lines(const Vector& vector, const Gradients& from, Real* to) const {
    const D d;
    const auto add_to = [&](Real* line, V terms)
                            HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, line), terms), d, line); };
    const auto is_in_first = mask_of(d, vector.in_first);
    for (int c = 0; c < kChannels; ++c, to += target_.channel_stride) {
      const V terms = hn::LoadU(d, from.first + c * from.channel_stride);
      if (vector.lines == 1) {
        add_to(to + vector.line[0], terms);
        continue;
      }
      add_to(to + vector.line[0], hn::IfThenElseZero(is_in_first, terms));
      add_to(to + vector.line[1], hn::IfThenZeroElse(is_in_first, terms));
    }
  }

  // ---- Pixel by pixel, whose channels lie side by side

  HWY_INLINE void add_pixels(const Vector& vector) const {
    if (target_.channels > kFewChannels) return add_pixels_of(target_.channels, vector);
    visit_interleaved(target_.channels, [&](auto channels) HWY_ATTR { add_pixels_of(channels, vector); });
  }

  template <class Count>
  HWY_INLINE void add_pixels_of(Count channels, const Vector& vector) const {
    const Real* from = grad_output_.channel<Real>(0);
    Real* to = target_.channel<Real>(0);
    if (vector.lines == 1 && grad_output_.is_flat() && grad_output_.flat_stride() == channels) {
      from += vector.first * channels;
      to += vector.line[0];
      for (int64_t k = 0; k < kSamples * channels; k += kSamples)
        hn::StoreU(hn::Add(hn::LoadU(D(), to + k), hn::LoadU(D(), from + k)), D(), to + k);
      return;
    }
    for_each_pixel(grad_output_, vector.first, vector.count, [&](int64_t k, int64_t offset) HWY_ATTR {
      if (HWY_UNLIKELY((vector.bits >> k & 1) == 0)) return;
      for (int64_t c = 0; c < channels; ++c) to[vector.offsets[k] + c] += from[offset + c];
    });
  }

  const RowBand band_;
  const Image grad_output_;
  const Image target_;
  Sums sums_;
  const bool reads_gradient_;  // where it lies
  const bool has_channels_last_;
  GridReader<Real, kAxes> grid_;
  Pixels pixels_;
};

void run_nearest_gradient(const Sampling& sampling, const SamplesLayout& layout) {
  visit_axes(sampling, [&](auto axes) {
    const auto run = [&]<class Real>(Real) {
      differentiate_images(sampling, layout, gradient_nanoseconds(sampling),
                           differentiate_band<GradNearest<Real, axes>, Sampling>);
    };
    sampling.type == DataType::float64 ? run(double{}) : run(float{});
  });
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_nearest);
HWY_EXPORT(run_nearest_gradient);

constexpr int64_t kMaxImages = 64;

// The channels of one image as the images of a batch, all with its grid: threads share them out without any sample in two
// bands.
Sampling with_images_of_channels(const Sampling& sampling, int64_t images) {
  if (images == 1) return sampling;
  Sampling cut = sampling;
  cut.batch = images;
  cut.channels = sampling.channels / images;
  for (Images* of_batch : {&cut.input, &cut.input_grad, &cut.output}) {
    of_batch->first.channels = cut.channels;
    of_batch->stride = cut.channels * of_batch->first.channel_stride;
  }
  cut.grid.stride = 0;
  return cut;
}

bool shares_channels(const Sampling& sampling) {
  return sampling.batch == 1 && gradient_nanoseconds(sampling) >= kMinParallelNanoseconds;
}

}  // namespace

void sample_nearest(const Sampling& sampling, void*) {
  HWY_DYNAMIC_DISPATCH(run_nearest)(sampling);
}

// For any number of threads.
size_t grad_nearest_workspace_size(const Sampling& sampling) {
  size_t size = 0;
  for (int64_t images = shares_channels(sampling) ? std::min(sampling.channels, kMaxImages) : 1; images > 0;
       --images) {
    if (sampling.channels % images == 0)
      size = std::max(size, size_of_workspace<SamplesLayout>(with_images_of_channels(sampling, images)));
  }
  return size;
}

void grad_nearest(const Sampling& sampling, void* workspace) {
  int64_t images = 1;
  if (shares_channels(sampling)) images = std::min<int64_t>({sampling.channels, thread_count(), kMaxImages});
  while (sampling.channels % images != 0) --images;
  const Sampling cut = with_images_of_channels(sampling, images);
  WorkspaceAllocator allocator(workspace);
  const SamplesLayout layout(cut, allocator);
  HWY_DYNAMIC_DISPATCH(run_nearest_gradient)(cut, layout);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
