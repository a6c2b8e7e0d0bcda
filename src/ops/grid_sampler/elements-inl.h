// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Elements at from[at[i]], from[at[i] + 1], ... for lane i, widened to the type of the arithmetic.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_ELEMENTS_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_ELEMENTS_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_ELEMENTS_INL_H_
#endif

#include <atomic>
#include <cstring>

#include "ops/grid_sampler/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// How the pixels of a vector of samples lie: next to each other in each row, as the samples are; so in a few lines,
// between which the samples choose; or anywhere in the image. At an edge some taps are no pixels: they can be asked for, or
// pairs of pixels instead of them.
enum class Reach { line, lines, interior, line_at_edge, edge, pairs };

// Without AVX2 only floats in planes have kernels of their own, and one serves all else, with the same results: the others
// would take a seventh of these files' time to compile and a tenth of the library.
constexpr bool kTellsLayouts = HWY_TARGET != HWY_SSSE3;

// Before a loop over channels the compiler would load the offsets of all samples, for which there are too few registers:
// it moves them to those of vectors and back. This makes it load them for each channel.
HWY_INLINE void load_again() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// What a vector of Real gathers by.
template <class Real>
using OffsetOf = hwy::MakeSigned<Real>;

// from[at[i]] and what follows it, kTogether elements of each. In a loop of little else it takes less time than the
// processor's gather.
template <size_t kTogether, class T, size_t kSize, class Offset>
HWY_INLINE auto load_each(hn::Simd<T, kSize, 0> d, const T* from, const Offset* at) {
  if constexpr (kSize == kTogether) {
    return hn::LoadU(d, from + *at);
  } else {
    const hn::Simd<T, kSize / 2, 0> half;
    return hn::Combine(d, load_each<kTogether>(half, from, at + kSize / 2 / kTogether),
                       load_each<kTogether>(half, from, at));
  }
}

// to[c] is of the elements of plane c, which lie `stride` apart. Each offset is read once for all planes.
template <size_t kPlanes, class T, size_t kSize, class Offset, class V = hn::Vec<hn::Simd<T, kSize, 0>>>
HWY_INLINE void load_planes(hn::Simd<T, kSize, 0> d, const T* from, int64_t stride, const Offset* at,
                            V (&to)[kPlanes]) {
  if constexpr (kSize <= 4) {
    int64_t offsets[kSize];
    for (size_t i = 0; i < kSize; ++i) offsets[i] = at[i];
    for (size_t c = 0; c < kPlanes; ++c)
      to[c] = load_each<1>(d, from + static_cast<int64_t>(c) * stride, offsets);
  } else {
    const hn::Simd<T, kSize / 2, 0> half;
    hn::Vec<decltype(half)> lower[kPlanes], upper[kPlanes];
    load_planes(half, from, stride, at, lower);
    load_planes(half, from, stride, at + kSize / 2, upper);
    for (size_t c = 0; c < kPlanes; ++c) to[c] = hn::Combine(d, upper[c], lower[c]);
  }
}

template <class Bits, class T>
HWY_INLINE void copy_bits(const T* from, const int32_t* at, Bits (&to)[kLanes]) {
  for (size_t i = 0; i < kLanes; ++i) std::memcpy(to + i, from + at[i], sizeof(Bits));
}

HWY_INLINE FloatVector widen(hn::Vec<NarrowBitsTag> bits) {
  alignas(64) Half halves[kLanes];
  hn::Store(bits, NarrowBitsTag(), &halves[0].bits);
  return load(halves);
}

// The lower and the upper halves of 32-bit lanes.
HWY_INLINE void widen_pairs(BFloat16, hn::Vec<BitsTag> pairs, FloatVector& lower, FloatVector& upper) {
  lower = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(pairs));
  upper = hn::BitCast(FloatTag(), hn::And(pairs, hn::Set(BitsTag(), 0xFFFF0000u)));
}

HWY_INLINE void widen_pairs(Half, hn::Vec<BitsTag> pairs, FloatVector& lower, FloatVector& upper) {
  lower = widen(hn::TruncateTo(NarrowBitsTag(), hn::And(pairs, hn::Set(BitsTag(), 0xFFFFu))));
  upper = widen(hn::TruncateTo(NarrowBitsTag(), hn::ShiftRight<16>(pairs)));
}

template <class D, class T, class Offset>
HWY_INLINE void load_elements(D d, const T* from, const Offset* at, hn::Vec<D> (&to)[1]) {
  if constexpr (sizeof(T) == 2 && std::is_same_v<T, hn::TFromD<D>>) {  // no processor gathers them
    to[0] = load_each<1>(d, from, at);
  } else if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    to[0] = hn::GatherIndex(d, from, hn::Load(hn::RebindToSigned<D>(), at));
  } else {
    alignas(64) T elements[kLanes];
    for (size_t i = 0; i < kLanes; ++i) elements[i] = from[at[i]];
    to[0] = load(elements);
  }
}

template <class D, class T, class Offset>
HWY_INLINE void load_elements(D d, const T* from, const Offset* at, hn::Vec<D> (&to)[2]) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    const auto low = load_each<2>(d, from, at);
    const auto high = load_each<2>(d, from, at + hn::MaxLanes(D()) / 2);
    to[0] = hn::ConcatEven(d, high, low);
    to[1] = hn::ConcatOdd(d, high, low);
  } else {
    alignas(64) uint32_t bits[kLanes];
    copy_bits(from, at, bits);
    widen_pairs(T(), hn::Load(BitsTag(), bits), to[0], to[1]);
  }
}

template <class D, class T, class Offset>
HWY_INLINE void load_four(D d, const T* from, const Offset* at, hn::Vec<D> (&to)[4]) {
  constexpr size_t kSamples = hn::MaxLanes(D());
  if constexpr (std::is_same_v<T, float>) {
    const float* rows[kSamples];
    for (size_t i = 0; i < kSamples; ++i) rows[i] = from + at[i];
    transpose_rows(d, rows, 0, to);
  } else if constexpr (std::is_same_v<T, hn::TFromD<D>> && kSamples >= 4) {
    hn::Vec<D> v[4];
    for (size_t k = 0; k < 4; ++k) v[k] = load_each<4>(d, from, at + k * kSamples / 4);
    const auto low_even = hn::ConcatEven(d, v[1], v[0]), high_even = hn::ConcatEven(d, v[3], v[2]);
    const auto low_odd = hn::ConcatOdd(d, v[1], v[0]), high_odd = hn::ConcatOdd(d, v[3], v[2]);
    to[0] = hn::ConcatEven(d, high_even, low_even), to[2] = hn::ConcatOdd(d, high_even, low_even);
    to[1] = hn::ConcatEven(d, high_odd, low_odd), to[3] = hn::ConcatOdd(d, high_odd, low_odd);
  } else if constexpr (std::is_same_v<T, double>) {
    for (int k = 0; k < 4; ++k) to[k] = hn::GatherIndex(d, from + k, hn::Load(hn::RebindToSigned<D>(), at));
  } else {
    alignas(64) uint64_t bits[kLanes];
    copy_bits(from, at, bits);
    const auto* pairs = reinterpret_cast<const uint32_t*>(bits);
    const auto low = hn::Load(BitsTag(), pairs), high = hn::Load(BitsTag(), pairs + kLanes);
    widen_pairs(T(), hn::ConcatEven(BitsTag(), high, low), to[0], to[1]);
    widen_pairs(T(), hn::ConcatOdd(BitsTag(), high, low), to[2], to[3]);
  }
}

template <class D, class T, class Offset, int kCount>
HWY_INLINE void load_elements(D d, const T* from, const Offset* at, hn::Vec<D> (&to)[kCount]) {
  constexpr int kRest = kCount % 4;
  for (int k = 0; k < kCount - kRest; k += 4) {
    hn::Vec<D> four[4];
    load_four(d, from + k, at, four);
    for (int j = 0; j < 4; ++j) to[k + j] = four[j];
  }
  if constexpr (kRest >= 2) {
    hn::Vec<D> pair[2];
    load_elements(d, from + kCount - kRest, at, pair);
    to[kCount - kRest] = pair[0], to[kCount - kRest + 1] = pair[1];
  }
  if constexpr (kRest % 2 == 1) {
    hn::Vec<D> last[1];
    load_elements(d, from + kCount - 1, at, last);
    to[kCount - 1] = last[0];
  }
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
