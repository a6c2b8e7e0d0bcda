// Images as kernels vectorised over samples read and write them: where they lie, whatever their type and strides.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_2D_SAMPLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_2D_SAMPLES_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_2D_SAMPLES_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_2D_SAMPLES_INL_H_
#endif

#include <limits>

#include "ops/grid_sampler/sampling-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// What a vector of Real gathers by.
template <class Real>
using OffsetOf = hwy::MakeSigned<Real>;

// Whether offsets within a channel of the image fit that type.
template <class Real, class T>
bool has_small_channels(const Image<T>& image) {
  const int64_t last = image.offset(image.height - 1, image.width - 1);
  return last <= std::numeric_limits<OffsetOf<Real>>::max();
}

// Elements side by side, as many as a vector has lanes.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_lanes(D d, const T* from) {
  if constexpr (std::is_same_v<T, double>) {
    return hn::LoadU(d, from);
  } else {
    return load(from);
  }
}

template <class D, class T>
HWY_INLINE void store_lanes(D d, hn::Vec<D> v, T* to) {
  if constexpr (std::is_same_v<T, double>) {
    hn::StoreU(v, d, to);
  } else {
    store(v, to);
  }
}

// from[row[i] + column[i]] in lane i.
template <class D, class T, class Offset>
HWY_INLINE hn::Vec<D> gather(D d, const T* from, const Offset* row, const Offset* column) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>> && std::is_same_v<Offset, OffsetOf<hn::TFromD<D>>>) {
    const hn::RebindToSigned<D> integer;
    return hn::GatherIndex(d, from, hn::Add(hn::LoadU(integer, row), hn::LoadU(integer, column)));
  } else {
    T values[hn::MaxLanes(d)];
    for (size_t i = 0; i < hn::MaxLanes(d); ++i) values[i] = from[row[i] + column[i]];
    return load_lanes(d, values);
  }
}

// Two elements side by side, of as many pairs as a vector has room for: from[at[i]] and the next one.
template <class Real, size_t kSize, class Offset>
HWY_INLINE auto load_pairs(hn::Simd<Real, kSize, 0> d, const Real* from, const Offset* at) {
  if constexpr (kSize == 2) {
    return hn::LoadU(d, from + *at);
  } else {
    const hn::Half<decltype(d)> half;
    return hn::Combine(d, load_pairs(half, from, at + kSize / 4), load_pairs(half, from, at));
  }
}

// A vector of blocks of four floats: of rows[0], rows[4], rows[8], ...
HWY_INLINE auto load_blocks(hn::FixedTag<float, 4> d, const float* const* rows, int64_t at) {
  return hn::LoadU(d, rows[0] + at);
}

template <size_t kSize>
HWY_INLINE auto load_blocks(hn::Simd<float, kSize, 0> d, const float* const* rows, int64_t at) {
  const hn::FixedTag<float, kSize / 2> half;
  return hn::Combine(d, load_blocks(half, rows + kSize / 2, at), load_blocks(half, rows, at));
}

// Transposes four floats of each of as many rows as a vector has lanes: columns[j] becomes float `at` + j of all rows.
template <class D>
HWY_INLINE void transpose_rows(D d, const float* const* rows, int64_t at, hn::Vec<D> (&columns)[4]) {
  const hn::Repartition<double, D> wide;
  hn::Vec<D> v[4];
  for (int j = 0; j < 4; ++j) v[j] = load_blocks(d, rows + j, at);
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, v[0], v[1]));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, v[2], v[3]));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, v[0], v[1]));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, v[2], v[3]));
  columns[0] = hn::BitCast(d, hn::InterleaveLower(wide, low01, low23));
  columns[1] = hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23));
  columns[2] = hn::BitCast(d, hn::InterleaveLower(wide, high01, high23));
  columns[3] = hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23));
}

// The pixels that 16 samples read, in any channel of the image. Where a tap is no pixel, the first one is read.
template <class Real, int kTaps, class Offset>
class GroupPixels {
 public:
  static constexpr int64_t kMostChannels = 4;  // that are loaded together

  template <class T>
  HWY_INLINE GroupPixels(const SampleGroup<Real, kTaps>& group, const Image<T>& image, const Axis& x_axis,
                         const Axis& y_axis)
      : interior_(group.interior == kAllSamples) {
    rows_.find(group.y, y_axis, image.row_stride, interior_);
    columns_.find(group.x, x_axis, image.column_stride, interior_);
    if constexpr (kTaps == 2 && std::is_same_v<std::remove_const_t<T>, Real>) {
      const bool is_contiguous = image.column_stride == 1;
      const bool has_two_channels =
          std::is_same_v<Real, float> && image.channel_stride == 1 && image.column_stride == 2;
      has_pairs_ = image.width > 1 && (is_contiguous || has_two_channels);
      if (has_pairs_) find_pairs(group, x_axis, image.column_stride);
    }
  }

  // Those of one tap, for the samples from `lane` on.
  template <class D, class T>
  HWY_INLINE hn::Vec<D> gather_tap(D d, const T* channel, int row, int column, size_t lane) const {
    return gather(d, channel, rows_.at[row] + lane, columns_.at[column] + lane);
  }

  template <class D>
  HWY_INLINE hn::Mask<D> is_pixel(D d, int row, int column, size_t lane) const {
    const hn::RebindToSigned<D> integer;
    const auto both = hn::And(hn::Load(integer, rows_.is_pixel[row] + lane),
                              hn::Load(integer, columns_.is_pixel[column] + lane));
    return hn::MaskFromVec(hn::BitCast(d, both));
  }

  // pixels[c][row][column] of the samples from `lane` on in `count` channels, at most kMostChannels, from the given one
  // on; zeros where a tap is no pixel. Neighbouring elements are read together: a gather takes longer.
  template <class D, class T>
  HWY_INLINE void load_channels(D d, const Image<const T>& image, const T* channel, int64_t count,
                                size_t lane, hn::Vec<D> (&pixels)[kMostChannels][kTaps][kTaps]) const {
    if (has_pairs_ && image.column_stride == 1) {
      for (int64_t c = 0; c < count; ++c) load_rows(d, channel + c * image.channel_stride, lane, pixels[c]);
    } else if (has_pairs_ && count == 2) {
      load_two_channels(d, channel, lane, pixels);
    } else if (std::is_same_v<T, float> && image.channel_stride == 1 && count == kMostChannels) {
      load_interleaved(d, channel, lane, pixels);
    } else {
      for (int64_t c = 0; c < count; ++c) {
        for_each_tap([&](int row, int column) HWY_ATTR {
          pixels[c][row][column] = gather_tap(d, channel + c * image.channel_stride, row, column, lane);
        });
      }
    }
    if (interior_) return;
    for_each_tap([&](int row, int column) HWY_ATTR {
      const auto mask = is_pixel(d, row, column, lane);
      for (int64_t c = 0; c < count; ++c)
        pixels[c][row][column] = hn::IfThenElseZero(mask, pixels[c][row][column]);
    });
  }

 private:
  // What the taps along one axis add to the offset. is_pixel is -1 or, where a tap is no pixel, 0.
  struct Taps {
    alignas(64) Offset at[kTaps][kGroup];
    alignas(64) OffsetOf<Real> is_pixel[kTaps][kGroup];

    HWY_INLINE void find(const AxisTaps<Real, kTaps>& taps, const Axis& axis, int64_t stride, bool interior) {
      const auto size = static_cast<uint32_t>(axis.size);
      const auto step = static_cast<Offset>(stride);
      for (int k = 0; k < kTaps; ++k) {
        for (size_t i = 0; i < kGroup; ++i) {
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

  template <class Body>
  static HWY_INLINE void for_each_tap(Body&& body) {
    for (int row = 0; row < kTaps; ++row) {
      for (int column = 0; column < kTaps; ++column) body(row, column);
    }
  }

  // Of two neighbouring columns one may be none. Then the pair lies inside, and holds the other in the wrong half.
  HWY_INLINE void find_pairs(const SampleGroup<Real, kTaps>& group, const Axis& axis, int64_t column_stride) {
    const auto last = static_cast<int32_t>(axis.size - 2);
    const auto step = static_cast<Offset>(column_stride);
    for (size_t i = 0; i < kGroup; ++i) {
      const int32_t column = group.x.first[i];
      const int32_t inside = column < 0 ? 0 : column > last ? last : column;
      is_swapped_[i] = inside == column ? 0 : -1;
      for (int row = 0; row < kTaps; ++row) {
        pairs_[row][i] = rows_.at[row][i] + static_cast<Offset>(inside) * step;
      }
    }
  }

  template <class D>
  HWY_INLINE void sort_pairs(D d, hn::Vec<D> left, hn::Vec<D> right, size_t lane,
                             hn::Vec<D> (&pixels)[kTaps]) const {
    const hn::RebindToSigned<D> integer;
    const auto is_swapped = hn::MaskFromVec(hn::BitCast(d, hn::Load(integer, is_swapped_ + lane)));
    pixels[0] = interior_ ? left : hn::IfThenElse(is_swapped, right, left);
    pixels[1] = interior_ ? right : hn::IfThenElse(is_swapped, left, right);
  }

  template <class D, class T>
  HWY_INLINE void load_rows(D d, const T* channel, size_t lane, hn::Vec<D> (&pixels)[kTaps][kTaps]) const {
    if constexpr (kTaps == 2 && std::is_same_v<T, Real>) {
      for (int row = 0; row < kTaps; ++row) {
        const auto low = load_pairs(d, channel, pairs_[row] + lane);
        const auto high = load_pairs(d, channel, pairs_[row] + lane + hn::MaxLanes(d) / 2);
        sort_pairs(d, hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low), lane, pixels[row]);
      }
    }
  }

  // Both columns of both channels are neighbours.
  template <class D, class T>
  HWY_INLINE void load_two_channels(D d, const T* channel, size_t lane,
                                    hn::Vec<D> (&pixels)[kMostChannels][kTaps][kTaps]) const {
    if constexpr (kTaps == 2 && std::is_same_v<T, float>) {
      for (int row = 0; row < kTaps; ++row) {
        const float* of_samples[hn::MaxLanes(D())];
        for (size_t i = 0; i < hn::MaxLanes(D()); ++i) of_samples[i] = channel + pairs_[row][lane + i];
        hn::Vec<D> elements[4];
        transpose_rows(d, of_samples, 0, elements);
        for (int c = 0; c < 2; ++c) sort_pairs(d, elements[c], elements[c + 2], lane, pixels[c][row]);
      }
    }
  }

  template <class D, class T>
  HWY_INLINE void load_interleaved(D d, const T* channel, size_t lane,
                                   hn::Vec<D> (&pixels)[kMostChannels][kTaps][kTaps]) const {
    if constexpr (std::is_same_v<T, float>) {
      for_each_tap([&](int row, int column) HWY_ATTR {
        const float* of_samples[hn::MaxLanes(D())];
        for (size_t i = 0; i < hn::MaxLanes(D()); ++i) {
          of_samples[i] = channel + rows_.at[row][lane + i] + columns_.at[column][lane + i];
        }
        hn::Vec<D> channels[kMostChannels];
        transpose_rows(d, of_samples, 0, channels);
        for (int64_t c = 0; c < kMostChannels; ++c) pixels[c][row][column] = channels[c];
      });
    }
  }

  const bool interior_;
  bool has_pairs_ = false;
  Taps rows_;
  Taps columns_;
  alignas(64) Offset pairs_[kTaps][kGroup];
  alignas(64) OffsetOf<Real> is_swapped_[kGroup];
};

// Pixels [first, first + count) of one channel of the image.
template <class T>
HWY_INLINE void load_pixels(const Image<const T>& image, const T* channel, int64_t first, int64_t count,
                            RealOf<T>* to) {
  if (!image.has_contiguous_channels()) {
    for_each_pixel(image, first, count, [&](int64_t k, int64_t offset) { to[k] = to_real(channel[offset]); });
    return;
  }
  const T* from = channel + image.offset(first);
  if constexpr (std::is_same_v<T, RealOf<T>>) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  } else {
    int64_t k = 0;
    for (; k + static_cast<int64_t>(kLanes) <= count; k += kLanes) store(load(from + k), to + k);
    for (; k < count; ++k) to[k] = to_real(from[k]);
  }
}

// The same of four channels, from the given one on, for a whole group of samples.
template <class T>
HWY_INLINE void load_four_channels(const Image<const T>& image, const T* channel, int64_t first,
                                   RealOf<T> (&to)[4][kGroup]) {
  if constexpr (std::is_same_v<T, float>) {
    if (image.channel_stride == 1) {
      const GroupTag<float> d;
      const float* pixels[kGroup];
      for_each_pixel(image, first, kGroup, [&](int64_t k, int64_t offset) { pixels[k] = channel + offset; });
      for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
        hn::Vec<GroupTag<float>> channels[4];
        transpose_rows(d, pixels + lane, 0, channels);
        for (int c = 0; c < 4; ++c) hn::Store(channels[c], d, to[c] + lane);
      }
      return;
    }
  }
  for (int c = 0; c < 4; ++c) load_pixels(image, channel + c * image.channel_stride, first, kGroup, to[c]);
}

template <class T>
HWY_INLINE void store_pixels(const Image<T>& image, T* channel, int64_t first, int64_t count,
                             const RealOf<T>* from) {
  if (!image.has_contiguous_channels()) {
    for_each_pixel(image, first, count,
                   [&](int64_t k, int64_t offset) { channel[offset] = from_real<T>(from[k]); });
    return;
  }
  T* to = channel + image.offset(first);
  if constexpr (std::is_same_v<T, RealOf<T>>) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  } else {
    int64_t k = 0;
    for (; k + static_cast<int64_t>(kLanes) <= count; k += kLanes) store(load(from + k), to + k);
    for (; k < count; ++k) to[k] = from_real<T>(from[k]);
  }
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
