// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The pixels that kernels vectorised over samples read: gathered, and side by side where they are neighbours.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_SAMPLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_SAMPLES_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_SAMPLES_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_SAMPLES_INL_H_
#endif

#include <limits>

#include "ops/grid_sampler/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// What a vector of Real gathers by.
template <class Real>
using OffsetOf = hwy::MakeSigned<Real>;

// Whether pixels of an image can be gathered: of the type of the arithmetic, with offsets that fit the lanes of a vector.
// Others are read one by one.
template <class Real>
bool can_gather(const Image& image) {
  const int64_t last = image.offset(image.height - 1, image.width - 1);
  return image.type == data_type_of<Real> && last <= std::numeric_limits<OffsetOf<Real>>::max();
}

// Two elements side by side, of as many pairs as a vector has room for: from[at[i]] and the next one.
template <class Real, size_t kSize>
HWY_INLINE auto load_pairs(hn::Simd<Real, kSize, 0> d, const Real* from, const OffsetOf<Real>* at) {
  if constexpr (kSize == 2) {
    return hn::LoadU(d, from + *at);
  } else {
    const hn::FixedTag<Real, kSize / 2> half;
    return hn::Combine(d, load_pairs(half, from, at + kSize / 4), load_pairs(half, from, at));
  }
}

// The pixels that 16 samples read, in any channel of the image. Where a tap is no pixel, the first one is read.
template <class Real, int kTaps>
class BlockPixels {
 public:
  static constexpr int64_t kMostChannels = 4;  // that are loaded together

  using D = BlockTag<Real>;
  using V = hn::Vec<D>;
  using Offset = OffsetOf<Real>;

  HWY_INLINE BlockPixels(const Block<Real>& block, const Image& image, bool gathers, const Axis* axes)
      : image_(image), gathers_(gathers), interior_(block.interior == kAllSamples) {
    rows_.find(block.y(), axes[1], gathers ? image.row_stride : 1, interior_);
    columns_.find(block.x(), axes[0], gathers ? image.column_stride : 1, interior_);
    if (HWY_UNLIKELY(!gathers)) {
      find_offsets();
      return;
    }
    if (std::is_same_v<Real, float> && image.channel_stride == 1) reads_ = Reads::four_channels;
    if constexpr (kTaps == 2) {
      if (image.width == 1) return;
      if (image.column_stride == 1) reads_ = Reads::pairs;
      if (std::is_same_v<Real, float> && image.channel_stride == 1 && image.column_stride == 2)
        reads_ = Reads::pairs_of_two_channels;
      if (reads_ == Reads::pairs || reads_ == Reads::pairs_of_two_channels)
        find_pairs(block, axes[0], image.column_stride);
    }
  }

  // Where the pixels of `count` channels, at most kMostChannels, from the given one on are read from.
  HWY_INLINE void find_channels(int64_t channel, int64_t count, const Real* (&from)[kMostChannels]) {
    for (int64_t c = 0; c < count; ++c) {
      from[c] = gathers_ ? image_.channel<Real>(channel + c) : staged_[c];
      if (HWY_UNLIKELY(!gathers_))
        load_taps(image_, channel + c, kTaps, row_offsets_[0], column_offsets_[0], staged_[c]);
    }
  }

  // Those of one tap, for the samples from `lane` on.
  HWY_INLINE V gather_tap(const Real* from, int row, int column, size_t lane) const {
    const D d;
    if (HWY_UNLIKELY(!gathers_)) return hn::Load(d, from + (row * kTaps + column) * kBlock + lane);
    const hn::RebindToSigned<D> integer;
    return hn::GatherIndex(
        d, from,
        hn::Add(hn::LoadU(integer, rows_.at[row] + lane), hn::LoadU(integer, columns_.at[column] + lane)));
  }

  HWY_INLINE hn::Mask<D> is_pixel(int row, int column, size_t lane) const {
    const hn::RebindToSigned<D> integer;
    const auto both = hn::And(hn::Load(integer, rows_.is_pixel[row] + lane),
                              hn::Load(integer, columns_.is_pixel[column] + lane));
    return hn::MaskFromVec(hn::BitCast(D(), both));
  }

  // pixels[c][row][column] of the samples from `lane` on in `count` channels; zeros where a tap is no pixel. Neighbouring
  // elements are read together: a gather takes longer.
  HWY_INLINE void load_channels(const Real* const (&from)[kMostChannels], int64_t count, size_t lane,
                                V (&pixels)[kMostChannels][kTaps][kTaps]) const {
    if (reads_ == Reads::pairs) {
      for (int64_t c = 0; c < count; ++c) load_rows(from[c], lane, pixels[c]);
    } else if (reads_ == Reads::pairs_of_two_channels && count == 2) {
      load_two_channels(from[0], lane, pixels);
    } else if (reads_ == Reads::four_channels && count == kMostChannels) {
      load_interleaved(from[0], lane, pixels);
    } else {
      for (int64_t c = 0; c < count; ++c) {
        for_each_tap([&](int row, int column)
                         HWY_ATTR { pixels[c][row][column] = gather_tap(from[c], row, column, lane); });
      }
    }
    if (interior_) return;
    for_each_tap([&](int row, int column) HWY_ATTR {
      const auto mask = is_pixel(row, column, lane);
      for (int64_t c = 0; c < count; ++c)
        pixels[c][row][column] = hn::IfThenElseZero(mask, pixels[c][row][column]);
    });
  }

 private:
  enum class Reads { taps, pairs, pairs_of_two_channels, four_channels };

  // What the taps along one axis add to the offset, or their pixels where nothing is gathered. is_pixel is -1 or, where a tap is no pixel, 0.
  struct Taps {
    alignas(64) Offset at[kTaps][kBlock];
    alignas(64) Offset is_pixel[kTaps][kBlock];

    HWY_INLINE void find(const AxisTaps<Real>& taps, const Axis& axis, int64_t stride, bool interior) {
      const auto size = static_cast<uint32_t>(axis.size);
      const auto step = static_cast<Offset>(stride);
      for (int k = 0; k < kTaps; ++k) {
        for (size_t i = 0; i < kBlock; ++i) {
          const int32_t place = taps.first[i] + k;
          // Only bicubic taps may lie elsewhere.
          const int32_t pixel =
              kTaps == 4 && !interior ? static_cast<int32_t>(tap_pixel<kTaps>(place, axis)) : place;
          const bool is_inside = static_cast<uint32_t>(pixel) < size;
          at[k][i] = is_inside ? static_cast<Offset>(pixel) * step : 0;
          is_pixel[k][i] = is_inside ? -1 : 0;
        }
      }
    }
  };

  HWY_NOINLINE void find_offsets() {
    for (int k = 0; k < kTaps; ++k) {
      for (int i = 0; i < kBlock; ++i) {
        row_offsets_[k][i] = rows_.at[k][i] * image_.row_stride;
        column_offsets_[k][i] = columns_.at[k][i] * image_.column_stride;
      }
    }
  }

  template <class Body>
  static HWY_INLINE void for_each_tap(Body&& body) {
    for (int row = 0; row < kTaps; ++row) {
      for (int column = 0; column < kTaps; ++column) body(row, column);
    }
  }

  // Of two neighbouring columns one may be none. Then the pair lies inside, and holds the other in the wrong half.
  HWY_INLINE void find_pairs(const Block<Real>& block, const Axis& axis, int64_t column_stride) {
    const auto last = static_cast<int32_t>(axis.size - 2);
    const auto step = static_cast<Offset>(column_stride);
    for (size_t i = 0; i < kBlock; ++i) {
      const int32_t column = block.x().first[i];
      const int32_t inside = column < 0 ? 0 : column > last ? last : column;
      is_swapped_[i] = inside == column ? 0 : -1;
      for (int row = 0; row < kTaps; ++row) {
        pairs_[row][i] = rows_.at[row][i] + static_cast<Offset>(inside) * step;
      }
    }
  }

  HWY_INLINE void sort_pairs(V left, V right, size_t lane, V (&pixels)[kTaps]) const {
    const hn::RebindToSigned<D> integer;
    const auto is_swapped = hn::MaskFromVec(hn::BitCast(D(), hn::Load(integer, is_swapped_ + lane)));
    pixels[0] = interior_ ? left : hn::IfThenElse(is_swapped, right, left);
    pixels[1] = interior_ ? right : hn::IfThenElse(is_swapped, left, right);
  }

  HWY_INLINE void load_rows(const Real* channel, size_t lane, V (&pixels)[kTaps][kTaps]) const {
    if constexpr (kTaps == 2) {
      const D d;
      for (int row = 0; row < kTaps; ++row) {
        const auto low = load_pairs(d, channel, pairs_[row] + lane);
        const auto high = load_pairs(d, channel, pairs_[row] + lane + hn::MaxLanes(d) / 2);
        sort_pairs(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low), lane, pixels[row]);
      }
    }
  }

  // Both columns of both channels are neighbours.
  HWY_INLINE void load_two_channels(const Real* channel, size_t lane,
                                    V (&pixels)[kMostChannels][kTaps][kTaps]) const {
    if constexpr (kTaps == 2 && std::is_same_v<Real, float>) {
      const D d;
      for (int row = 0; row < kTaps; ++row) {
        const float* of_samples[hn::MaxLanes(D())];
        for (size_t i = 0; i < hn::MaxLanes(D()); ++i) of_samples[i] = channel + pairs_[row][lane + i];
        V elements[4];
        transpose_rows(d, of_samples, 0, elements);
        for (int c = 0; c < 2; ++c) sort_pairs(elements[c], elements[c + 2], lane, pixels[c][row]);
      }
    }
  }

  HWY_INLINE void load_interleaved(const Real* channel, size_t lane,
                                   V (&pixels)[kMostChannels][kTaps][kTaps]) const {
    if constexpr (std::is_same_v<Real, float>) {
      const D d;
      for_each_tap([&](int row, int column) HWY_ATTR {
        const float* of_samples[hn::MaxLanes(D())];
        for (size_t i = 0; i < hn::MaxLanes(D()); ++i) {
          of_samples[i] = channel + rows_.at[row][lane + i] + columns_.at[column][lane + i];
        }
        V channels[kMostChannels];
        transpose_rows(d, of_samples, 0, channels);
        for (int64_t c = 0; c < kMostChannels; ++c) pixels[c][row][column] = channels[c];
      });
    }
  }

  const Image& image_;
  const bool gathers_;
  const bool interior_;
  Reads reads_ = Reads::taps;
  Taps rows_;
  Taps columns_;
  alignas(64) Offset pairs_[kTaps][kBlock];
  alignas(64) Offset is_swapped_[kBlock];
  // Where nothing can be gathered from the image, its pixels are first brought side by side: [c][row][column][sample].
  int64_t row_offsets_[kTaps][kBlock];
  int64_t column_offsets_[kTaps][kBlock];
  alignas(64) Real staged_[kMostChannels][kTaps * kTaps * kBlock];
};

// Whether the pixels of a channel are elements of this type, side by side.
template <class Real>
bool has_plain_channels(const Image& image) {
  return image.type == data_type_of<Real> && image.has_contiguous_channels();
}

// The pixels of up to four channels, from the given one on, at the samples of a block. Missing ones are zeros.
template <class Real>
HWY_INLINE void load_block(const Image& image, int64_t channel, int64_t channels, int64_t first,
                           int64_t count, Real (&to)[4][kBlock]) {
  if constexpr (std::is_same_v<Real, float>) {
    if (image.channel_stride == 1 && image.type == DataType::float32 && channels == 4 && count == kBlock) {
      const BlockTag<float> d;
      const float* pixels[kBlock];
      const float* from = image.channel<float>(channel);
      for_each_pixel(image, first, kBlock, [&](int64_t k, int64_t offset) { pixels[k] = from + offset; });
      for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
        hn::Vec<BlockTag<float>> columns[4];
        transpose_rows(d, pixels + lane, 0, columns);
        for (int c = 0; c < 4; ++c) hn::Store(columns[c], d, to[c] + lane);
      }
      return;
    }
  }
  if (count == kBlock && has_plain_channels<Real>(image)) {
    for (int64_t c = 0; c < channels; ++c)
      std::memcpy(to[c], image.channel<Real>(channel + c) + first, sizeof to[c]);
    return;
  }
  load_pixels(image, channel, channels, first, count, to[0], kBlock);
  for (int64_t c = 0; c < channels; ++c) std::fill(to[c] + count, to[c] + kBlock, Real{0});
}

// Writes `count` pixels of up to four channels.
template <class Real>
HWY_INLINE void store_block(const Image& image, int64_t channel, int64_t channels, int64_t first,
                            int64_t count, const Real (&from)[4][kBlock]) {
  if (count != kBlock || !has_plain_channels<Real>(image))
    return store_pixels(image, channel, channels, first, count, from[0], kBlock);
  for (int64_t c = 0; c < channels; ++c)
    std::memcpy(image.channel<Real>(channel + c) + first, from[c], sizeof from[c]);
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
