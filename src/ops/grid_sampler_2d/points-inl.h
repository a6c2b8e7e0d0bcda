// Images as kernels with points in lanes read and write them: where they lie, whatever their type and strides.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_2D_POINTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_2D_POINTS_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_2D_POINTS_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_2D_POINTS_INL_H_
#endif

#include <limits>

#include "base/simd-inl.h"
#include "ops/grid_sampler_2d/image.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::HWY_NAMESPACE {

// What a vector of Real gathers by.
template <class Real>
using OffsetOf = hwy::MakeSigned<Real>;

// from[at[0]], from[at[1]], ... for each lane.
template <class D, class T>
HWY_INLINE hn::Vec<D> gather(D d, const T* from, const OffsetOf<hn::TFromD<D>>* at) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    return hn::GatherIndex(d, from, hn::LoadU(hn::RebindToSigned<D>(), at));
  } else {
    T values[hn::MaxLanes(d)];
    for (size_t i = 0; i < hn::MaxLanes(d); ++i) values[i] = from[at[i]];
    return load(values);
  }
}

// Whether offsets within a channel of the image fit that type.
template <class Real, class T>
bool has_small_channels(const Image<T>& image) {
  const int64_t last = image.offset(image.height - 1, image.width - 1);
  return last <= std::numeric_limits<OffsetOf<Real>>::max();
}

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
