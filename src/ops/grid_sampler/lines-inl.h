// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Samples in lines: where a grid is smooth, a sample mostly reads the pixels next to those of the sample before. Then the
// pixels that a vector of samples reads are vectors of neighbours, which need no gather.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_LINES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_LINES_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_LINES_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_LINES_INL_H_
#endif

#include <algorithm>

#include "ops/grid_sampler/samples-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

inline constexpr int kFewLines = 3;   // in a vector
inline constexpr int kManyLines = 8;  // more are no faster than gathers

// Calls take(row, column, bits of the samples) for the lines that the samples from `lane` on make up, at most so many, as
// long as it returns true. Returns whether all samples are taken.
template <class D, class Take>
HWY_INLINE bool find_lines(const Block<hn::TFromD<D>>& block, size_t lane, int most, Take&& take) {
  const D d;
  const hn::Rebind<int32_t, D> integer;
  const auto rows = hn::Load(integer, block.y().first + lane);
  const auto columns = hn::Sub(hn::Load(integer, block.x().first + lane), hn::Iota(integer, 0));
  uint32_t rest = (uint32_t{1} << hn::MaxLanes(d)) - 1;
  for (; rest != 0; --most) {
    if (most == 0) return false;
    const auto first = static_cast<size_t>(__builtin_ctz(rest));
    const int32_t row = block.y().first[lane + first];
    const int32_t column = block.x().first[lane + first] - static_cast<int32_t>(first);
    const auto is_in_line =
        hn::And(hn::Eq(rows, hn::Set(integer, row)), hn::Eq(columns, hn::Set(integer, column)));
    const uint32_t bits = bits_of(integer, is_in_line);
    if (!take(row, column, bits)) return false;
    rest &= ~bits;
  }
  return true;
}

// Lane i of the result is lane i - 1 of the vector, lane 0 is zero.
template <class D>
HWY_INLINE hn::Vec<D> previous_lanes(D d, hn::Vec<D> v) {
  using Index = hwy::MakeSigned<hn::TFromD<D>>;
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  alignas(64) Index indices[lanes];
  for (int64_t i = 0; i < lanes; ++i) indices[i] = static_cast<Index>(i == 0 ? 0 : i - 1);
  const auto moved = hn::TableLookupLanes(v, hn::SetTableIndices(d, indices));
  return hn::IfThenZeroElse(hn::FirstN(d, 1), moved);
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
