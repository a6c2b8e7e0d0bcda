// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Lines of samples in images whose channels are interleaved: two to four of them side by side in each pixel, and pixel
// after pixel in each row, as pictures and fields of vectors mostly lie. A vector holds one channel of neighbouring
// pixels here, too.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_INTERLEAVED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_INTERLEAVED_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_INTERLEAVED_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_INTERLEAVED_INL_H_
#endif

#include <type_traits>

#include "ops/grid_sampler/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

inline bool has_interleaved_rows(const Image& image) {
  return image.type == DataType::float32 && image.channels >= 2 && image.channels <= 4 &&
         image.channel_stride == 1 && image.column_stride == image.channels;
}

// Whether a block of samples can be loaded as vectors, channel by channel. load_pixels() would do the same: where it is
// called for each vector, the gradient takes a tenth to a quarter longer.
inline bool has_plain_samples(const Image& image) {
  return image.type == DataType::float32 && image.is_flat() &&
         (image.flat_stride() == 1 || has_interleaved_rows(image));
}

// Calls function(number of channels) with a constant.
template <class Function>
HWY_INLINE void visit_interleaved(int64_t channels, Function&& function) {
  if (channels == 2) return function(std::integral_constant<int, 2>());
  if (channels == 3) return function(std::integral_constant<int, 3>());
  function(std::integral_constant<int, 4>());
}

template <class D, int kChannels, class V = hn::Vec<D>>
HWY_INLINE void load_interleaved(D d, const hn::TFromD<D>* from, V (&v)[kChannels]) {
  if constexpr (kChannels == 1) v[0] = hn::LoadU(d, from);
  if constexpr (kChannels == 2) hn::LoadInterleaved2(d, from, v[0], v[1]);
  if constexpr (kChannels == 3) hn::LoadInterleaved3(d, from, v[0], v[1], v[2]);
  if constexpr (kChannels == 4) hn::LoadInterleaved4(d, from, v[0], v[1], v[2], v[3]);
}

// The taps of neighbouring samples in a row, the first of which is at `from`: taps[column * kChannels + channel].
template <int kChannels, class D, class T, int kCount, class V = hn::Vec<D>>
HWY_INLINE void load_line(D d, const T* from, V (&taps)[kCount]) {
  for (int tap = 0; tap < kCount; tap += kChannels, from += kChannels) {
    V of_tap[kChannels];
    if constexpr (kChannels == 1) {
      of_tap[0] = load(from);
    } else {
      load_interleaved(d, from, of_tap);
    }
    for (int c = 0; c < kChannels; ++c) taps[tap + c] = of_tap[c];
  }
}

// Repeats what samples have for each element of their pixels, in the order of memory: vector k of those.
template <int kChannels, class D, class V = hn::Vec<D>>
HWY_INLINE V for_elements(D d, V of_samples, int k) {
  constexpr int kSamples = static_cast<int>(hn::MaxLanes(D()));
  alignas(64) hwy::MakeSigned<hn::TFromD<D>> samples[kSamples];
  for (int i = 0; i < kSamples; ++i) samples[i] = (k * kSamples + i) / kChannels;
  return hn::TableLookupLanes(of_samples, hn::SetTableIndices(d, samples));
}

// Asks for the cache lines of the pixels that neighbouring samples read, the first of which is at `from`.
template <int kChannels, class D, class T>
HWY_INLINE void prefetch_line(D, const T* from) {
#pragma GCC unroll 4
  for (size_t k = 0; k < kChannels; ++k) prefetch_for_later(from + k * hn::MaxLanes(D()));
}

// The same of samples that lie in two lines: all of both, and the last pixel of the one that lies further where the next row
// of a grid goes. The processor foretells that row only where each of its pieces goes on to the right of the one before.
template <int kChannels, class D, class T>
HWY_INLINE void prefetch_lines(D d, const T* from, int64_t first, int64_t second, bool goes_up) {
  prefetch_line<kChannels>(d, from + first);
  prefetch_line<kChannels>(d, from + second);
  const int64_t further = (second > first) != goes_up ? second : first;
  prefetch_for_later(from + further + static_cast<int64_t>(hn::MaxLanes(d) - 1) * kChannels);
}

// Asks for the pixels of four of the samples: most of the others share their cache lines.
template <class D, class T, class Offset>
HWY_INLINE void prefetch_four(D, const T* from, const Offset* offsets) {
#pragma GCC unroll 4
  for (size_t k = 0; k < 4; ++k) prefetch_for_later(from + offsets[k * hn::MaxLanes(D()) / 4]);
}

template <class D, int kChannels, class V = hn::Vec<D>>
HWY_INLINE void store_interleaved(D d, const V (&v)[kChannels], hn::TFromD<D>* to) {
  if constexpr (kChannels == 2) hn::StoreInterleaved2(v[0], v[1], d, to);
  if constexpr (kChannels == 3) hn::StoreInterleaved3(v[0], v[1], v[2], d, to);
  if constexpr (kChannels == 4) hn::StoreInterleaved4(v[0], v[1], v[2], v[3], d, to);
}

// The samples from the given one on, of an image that has_plain_samples().
template <class D, int kChannels, class V = hn::Vec<D>>
HWY_INLINE void load_samples(D d, const Image& image, int64_t first, V (&v)[kChannels]) {
  const float* from = image.channel<float>(0);
  if (image.flat_stride() != 1) return load_interleaved(d, from + first * kChannels, v);
  for (int c = 0; c < kChannels; ++c) v[c] = hn::LoadU(d, from + c * image.channel_stride + first);
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
