// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the kernels share on top of Highway, compiled once for each instruction set: the storage types widened
// to float, and 16 virtual lanes whose sum is the same on every instruction set.
//
// A file that includes this is included by hwy/foreach_target.h, once for each target, and so is this one.
#if defined(ACLGRAD_BASE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_BASE_SIMD_INL_H_
#undef ACLGRAD_BASE_SIMD_INL_H_
#else
#define ACLGRAD_BASE_SIMD_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "base/data_type.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using FloatVector = hn::Vec<FloatTag>;
inline constexpr size_t kLanes = hn::MaxLanes(FloatTag());

using BitsTag = hn::RebindToUnsigned<FloatTag>;
using NarrowBitsTag = hn::Rebind<uint16_t, FloatTag>;

// ---- kLanes elements of a storage type, widened to float or rounded from it to nearest even

HWY_INLINE FloatVector load(const float* from) {
  return hn::LoadU(FloatTag(), from);
}

HWY_INLINE FloatVector load(const BFloat16* from) {
  const auto narrow = hn::LoadU(NarrowBitsTag(), &from->bits);
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(BitsTag(), narrow)));
}

HWY_INLINE FloatVector load(const Half* from) {
  const auto narrow = hn::LoadU(NarrowBitsTag(), &from->bits);
#if HWY_TARGET == HWY_SSSE3
  // No conversion instruction: see to_float(Half) for the arithmetic.
  const BitsTag bits;
  const auto wide = hn::PromoteTo(bits, narrow);
  const auto sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(bits, 0x8000u)));
  const auto magnitude = hn::And(wide, hn::Set(bits, 0x7FFFu));
  const auto subnormal = hn::Sub(hn::BitCast(FloatTag(), hn::Or(magnitude, hn::Set(bits, 0x3F000000u))),
                                 hn::Set(FloatTag(), 0.5f));
  const auto exponent = hn::IfThenElse(hn::Gt(magnitude, hn::Set(bits, 0x7BFFu)), hn::Set(bits, 224u << 23),
                                       hn::Set(bits, 112u << 23));  // of infinity and NaN the largest
  const auto normal = hn::BitCast(FloatTag(), hn::Add(hn::ShiftLeft<13>(magnitude), exponent));
  const auto is_subnormal = hn::RebindMask(FloatTag(), hn::Lt(magnitude, hn::Set(bits, 0x400u)));
  return hn::Or(hn::IfThenElse(is_subnormal, subnormal, normal), hn::BitCast(FloatTag(), sign));
#else
  return hn::PromoteTo(FloatTag(), hn::BitCast(hn::Rebind<hwy::float16_t, FloatTag>(), narrow));
#endif
}

// The bits of kLanes elements of a 16-bit type.
HWY_INLINE hn::Vec<NarrowBitsTag> round_to(BFloat16, FloatVector value) {
  const BitsTag bits;
  const auto wide = hn::BitCast(bits, value);
  const auto odd = hn::And(hn::ShiftRight<16>(wide), hn::Set(bits, 1u));
  const auto rounded = hn::Add(hn::Add(wide, hn::Set(bits, 0x7FFFu)), odd);
  const auto quiet = hn::Or(wide, hn::Set(bits, 0x400000u));
  const auto is_nan = hn::RebindMask(bits, hn::IsNaN(value));
  return hn::TruncateTo(NarrowBitsTag(), hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded)));
}

HWY_INLINE hn::Vec<NarrowBitsTag> round_to(Half, FloatVector value) {
#if HWY_TARGET == HWY_SSSE3
  HWY_ALIGN float lanes[kLanes];
  uint16_t bits[kLanes];
  hn::Store(value, FloatTag(), lanes);
  for (size_t i = 0; i < kLanes; ++i) bits[i] = from_float<Half>(lanes[i]).bits;
  return hn::LoadU(NarrowBitsTag(), bits);
#else
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  return hn::BitCast(NarrowBitsTag(), hn::DemoteTo(half, value));
#endif
}

HWY_INLINE void store(FloatVector value, float* to) {
  hn::StoreU(value, FloatTag(), to);
}

template <class T>
HWY_INLINE void store(FloatVector value, T* to) {
  hn::StoreU(round_to(T{}, value), NarrowBitsTag(), &to->bits);
}

// The same past the caches, for results that are larger than these, in bodies of parallel_for(). `to` lies on a
// boundary of kLanes elements.
HWY_INLINE void stream(FloatVector value, float* to) {
  hn::Stream(value, FloatTag(), to);
}

template <class T>
HWY_INLINE void stream(FloatVector value, T* to) {
#if HWY_TARGET == HWY_SSSE3
  store(value, to);  // half a vector, which has no such store
#else
  hn::Stream(round_to(T{}, value), NarrowBitsTag(), &to->bits);
#endif
}

// ---- 16 virtual lanes

// 16 floats in as many vectors as the target needs. Arithmetic is lane by lane, so that it gives the same
// bits on every target with fused multiply-add.
struct Float16Lanes {
  static constexpr size_t kVectors = 16 / kLanes;
  FloatVector part[kVectors];
};

HWY_INLINE Float16Lanes broadcast16(float value) {
  Float16Lanes result;
  for (auto& part : result.part) part = hn::Set(FloatTag(), value);
  return result;
}

HWY_INLINE Float16Lanes zero16() {
  return broadcast16(0.0f);
}

template <class T>
HWY_INLINE Float16Lanes load16(const T* from) {
  Float16Lanes result;
  for (size_t i = 0; i < Float16Lanes::kVectors; ++i) result.part[i] = load(from + i * kLanes);
  return result;
}

// The first `count` < 16 elements, and zeros. Reads nothing beyond them.
template <class T>
HWY_INLINE Float16Lanes load16(const T* from, size_t count) {
  T padded[16] = {};
  std::memcpy(padded, from, count * sizeof(T));
  return load16(padded);
}

template <class T>
HWY_INLINE void store16(const Float16Lanes& value, T* to) {
  for (size_t i = 0; i < Float16Lanes::kVectors; ++i) store(value.part[i], to + i * kLanes);
}

// The first `count` < 16 elements. Writes nothing beyond them.
template <class T>
HWY_INLINE void store16(const Float16Lanes& value, T* to, size_t count) {
  T padded[16];
  store16(value, padded);
  std::memcpy(to, padded, count * sizeof(T));
}

HWY_INLINE Float16Lanes add(const Float16Lanes& a, const Float16Lanes& b) {
  Float16Lanes result;
  for (size_t i = 0; i < Float16Lanes::kVectors; ++i) result.part[i] = hn::Add(a.part[i], b.part[i]);
  return result;
}

HWY_INLINE Float16Lanes multiply(const Float16Lanes& a, const Float16Lanes& b) {
  Float16Lanes result;
  for (size_t i = 0; i < Float16Lanes::kVectors; ++i) result.part[i] = hn::Mul(a.part[i], b.part[i]);
  return result;
}

// a * b + c
HWY_INLINE Float16Lanes multiply_add(const Float16Lanes& a, const Float16Lanes& b, const Float16Lanes& c) {
  Float16Lanes result;
  for (size_t i = 0; i < Float16Lanes::kVectors; ++i)
    result.part[i] = hn::MulAdd(a.part[i], b.part[i], c.part[i]);
  return result;
}

using FourTag = hn::FixedTag<float, 4>;
using FourVector = hn::Vec<FourTag>;

// The first steps of the canonical sum: lane i + lane i+8, then i+4.
HWY_INLINE FourVector sum16_to_4(const Float16Lanes& value) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  const FourTag four;
  const hn::FixedTag<float, 8> eight;
  const auto eights = hn::Add(hn::LowerHalf(eight, value.part[0]), hn::UpperHalf(eight, value.part[0]));
  return hn::Add(hn::LowerHalf(four, eights), hn::UpperHalf(four, eights));
#elif HWY_TARGET == HWY_AVX2
  const FourTag four;
  const auto eights = hn::Add(value.part[0], value.part[1]);
  return hn::Add(hn::LowerHalf(four, eights), hn::UpperHalf(four, eights));
#else
  return hn::Add(hn::Add(value.part[0], value.part[2]), hn::Add(value.part[1], value.part[3]));
#endif
}

// The last steps of one canonical sum, after sum16_to_4.
HWY_INLINE float sum4(FourVector four) {
  const FourVector two = hn::Add(four, hn::Shuffle1032(four));
  return hn::GetLane(hn::Add(two, hn::Shuffle2301(two)));
}

// The canonical sum: lane i + lane i+8, then i+4, i+2, i+1.
HWY_INLINE float sum16(const Float16Lanes& value) {
  return sum4(sum16_to_4(value));
}

// The last steps of four canonical sums side by side, after sum16_to_4.
HWY_INLINE FourVector sum4(FourVector a, FourVector b, FourVector c, FourVector d) {
  const FourTag four;
  const FourVector ab = hn::Add(hn::ConcatLowerLower(four, b, a), hn::ConcatUpperUpper(four, b, a));
  const FourVector cd = hn::Add(hn::ConcatLowerLower(four, d, c), hn::ConcatUpperUpper(four, d, c));
  return hn::Add(hn::ConcatEven(four, cd, ab), hn::ConcatOdd(four, cd, ab));
}

// ---- Many canonical sums side by side, which takes fewer steps than one after the other

#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
// Of each two neighbouring blocks of four lanes the sum: those of `even` in the even blocks, of `odd` in the odd ones.
HWY_INLINE FloatVector add_neighbouring_blocks(FloatVector even, FloatVector odd) {
  const FloatVector crossed = hn::SwapAdjacentBlocks(hn::OddEvenBlocks(even, odd));
  return hn::Add(hn::OddEvenBlocks(odd, even), crossed);
}
#endif

// sum16_to_4 of four values: four lanes for each.
HWY_INLINE Float16Lanes sum16_to_4(const Float16Lanes& a, const Float16Lanes& b, const Float16Lanes& c,
                                   const Float16Lanes& d) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  const auto halves = [](FloatVector lower, FloatVector upper) HWY_ATTR {
    const FloatTag lanes;
    return hn::Add(hn::ConcatLowerLower(lanes, upper, lower), hn::ConcatUpperUpper(lanes, upper, lower));
  };
  return {add_neighbouring_blocks(halves(a.part[0], c.part[0]), halves(b.part[0], d.part[0]))};
#elif HWY_TARGET == HWY_AVX2
  const auto halves = [](const Float16Lanes& value)
                          HWY_ATTR { return hn::Add(value.part[0], value.part[1]); };
  return {add_neighbouring_blocks(halves(a), halves(b)), add_neighbouring_blocks(halves(c), halves(d))};
#else
  return {sum16_to_4(a), sum16_to_4(b), sum16_to_4(c), sum16_to_4(d)};
#endif
}

// The last steps of 16 canonical sums, after sum16_to_4. Block k of the result is, one lane for each, the sums of block
// k of a, b, c and d.
HWY_INLINE Float16Lanes sum4(const Float16Lanes& a, const Float16Lanes& b, const Float16Lanes& c,
                             const Float16Lanes& d) {
  const FloatTag lanes;
  const hn::Repartition<double, FloatTag> wide;
  Float16Lanes result;
  for (size_t i = 0; i < Float16Lanes::kVectors; ++i) {
    const auto low_ab = hn::BitCast(wide, hn::InterleaveLower(lanes, a.part[i], b.part[i]));
    const auto low_cd = hn::BitCast(wide, hn::InterleaveLower(lanes, c.part[i], d.part[i]));
    const auto high_ab = hn::BitCast(wide, hn::InterleaveUpper(lanes, a.part[i], b.part[i]));
    const auto high_cd = hn::BitCast(wide, hn::InterleaveUpper(lanes, c.part[i], d.part[i]));
    const auto lane0 = hn::BitCast(lanes, hn::InterleaveLower(wide, low_ab, low_cd));
    const auto lane1 = hn::BitCast(lanes, hn::InterleaveUpper(wide, low_ab, low_cd));
    const auto lane2 = hn::BitCast(lanes, hn::InterleaveLower(wide, high_ab, high_cd));
    const auto lane3 = hn::BitCast(lanes, hn::InterleaveUpper(wide, high_ab, high_cd));
    result.part[i] = hn::Add(hn::Add(lane0, lane2), hn::Add(lane1, lane3));
  }
  return result;
}

// ---- 16 virtual lanes, split: in the order that is quickest to load and store
//
// Two bfloat16s make up 32 bits: one vector takes the even ones, the next the odd ones, where each lane finds
// its bits without a shuffle. For other types, and where one vector has all lanes, the order is that of
// memory. Arithmetic lane by lane does not care, as long as all operands are split alike.

template <class T>
inline constexpr bool kSplits = (Float16Lanes::kVectors > 1) && std::is_same_v<T, BFloat16>;

using PairsTag = hn::Repartition<uint16_t, FloatTag>;

template <class T>
HWY_INLINE Float16Lanes load16_split(const T* from) {
  if constexpr (kSplits<T>) {
    Float16Lanes result;
    for (size_t i = 0; i < Float16Lanes::kVectors; i += 2) {
      const auto pairs = hn::BitCast(BitsTag(), hn::LoadU(PairsTag(), &from[i * kLanes].bits));
      result.part[i] = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(pairs));
      result.part[i + 1] = hn::BitCast(FloatTag(), hn::And(pairs, hn::Set(BitsTag(), 0xFFFF0000u)));
    }
    return result;
  } else {
    return load16(from);
  }
}

// The first `count` < 16 elements, and zeros. Reads nothing beyond them.
template <class T>
HWY_INLINE Float16Lanes load16_split(const T* from, size_t count) {
  T padded[16] = {};
  std::memcpy(padded, from, count * sizeof(T));
  return load16_split(padded);
}

// The bits of even and odd elements, rounded to nearest even. The values come from arithmetic on bfloat16s: a
// NaN of such has zeros in its lower half, so that no carry changes it.
HWY_INLINE hn::Vec<PairsTag> round_pairs(FloatVector even_elements, FloatVector odd_elements) {
  const PairsTag pairs;
  const auto even = hn::BitCast(BitsTag(), even_elements);
  const auto odd = hn::BitCast(BitsTag(), odd_elements);
  const auto upper = hn::OddEven(hn::BitCast(pairs, odd), hn::BitCast(pairs, hn::ShiftRight<16>(even)));
  const auto lower = hn::OddEven(hn::BitCast(pairs, hn::ShiftLeft<16>(odd)), hn::BitCast(pairs, even));
  // From 0x8000 on the rest rounds up, or from 0x8001 on where the bit above it is even.
  const auto is_even = hn::AndNot(upper, hn::Set(pairs, 1));
  return hn::Add(upper, hn::ShiftRight<15>(hn::SaturatedSub(lower, is_even)));
}

template <class T>
HWY_INLINE void store16_split(const Float16Lanes& value, T* to) {
  if constexpr (kSplits<T>) {
    for (size_t i = 0; i < Float16Lanes::kVectors; i += 2)
      hn::StoreU(round_pairs(value.part[i], value.part[i + 1]), PairsTag(), &to[i * kLanes].bits);
  } else {
    store16(value, to);
  }
}

// The first `count` < 16 elements. Writes nothing beyond them.
template <class T>
HWY_INLINE void store16_split(const Float16Lanes& value, T* to, size_t count) {
  T padded[16];
  store16_split(value, padded);
  std::memcpy(to, padded, count * sizeof(T));
}

// The canonical sum of lanes that are split as for T.
template <class T>
HWY_INLINE float sum16_split(const Float16Lanes& value) {
#if HWY_TARGET > HWY_AVX3 || !HWY_ARCH_X86  // or else one vector has all lanes, and nothing is split
  if constexpr (kSplits<T>) {
    const FourTag four;
#if HWY_TARGET == HWY_AVX2
    const auto halves = [](FloatVector part) HWY_ATTR {
      return hn::Add(hn::LowerHalf(FourTag(), part), hn::UpperHalf(FourTag(), part));
    };
    const FourVector even = halves(value.part[0]);
    const FourVector odd = halves(value.part[1]);
#else
    const FourVector even = hn::Add(value.part[0], value.part[2]);
    const FourVector odd = hn::Add(value.part[1], value.part[3]);
#endif
    return sum4(hn::Add(hn::InterleaveLower(four, even, odd), hn::InterleaveUpper(four, even, odd)));
  }
#endif
  return sum16(value);
}

}  // namespace aclgrad::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
