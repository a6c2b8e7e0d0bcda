// Images as kernels with points in lanes read and write them: where they lie, whatever their type and strides.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_2D_POINTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_2D_POINTS_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_2D_POINTS_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_2D_POINTS_INL_H_
#endif

#include <limits>

#include "ops/grid_sampler_2d/sampling-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::HWY_NAMESPACE {

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

// The pixels that 16 points read, in any channel of the image. Where a tap is no pixel, the first one is read.
template <class Real, int kTaps, class Offset>
class GroupPixels {
 public:
  template <class T>
  HWY_INLINE GroupPixels(const PointGroup<Real, kTaps>& group, const Image<T>& image, const Axis& x_axis,
                         const Axis& y_axis) {
    const bool interior = group.interior == kAllPoints;
    rows_.find(group.y, y_axis, image.row_stride, interior);
    columns_.find(group.x, x_axis, image.column_stride, interior);
  }

  // Those of one tap, for the points from `lane` on.
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

  Taps rows_;
  Taps columns_;
};

// Pixels [first, first + count) of one channel of the image.
template <class T>
HWY_INLINE void load_pixels(const Image<const T>& image, const T* channel, int64_t first, int64_t count,
                            RealOf<T>* to) {
  if (!image.is_planar()) {
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

template <class T>
HWY_INLINE void store_pixels(const Image<T>& image, T* channel, int64_t first, int64_t count,
                             const RealOf<T>* from) {
  if (!image.is_planar()) {
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

}  // namespace aclgrad::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
