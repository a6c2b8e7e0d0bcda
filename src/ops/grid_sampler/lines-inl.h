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

// Some neighbouring samples of a vector. The first pixel of that in lane i is at column + i; where lane i is of another
// line, that is some pixel, too.
template <class D>
struct Line {
  int64_t row;
  int64_t column;
  bool has_last_sample;
  hn::Mask<D> samples;
};

// The lines that the samples of a vector make up, in the order of the samples.
template <class D, int kCount>
struct Lines {
  static constexpr int count = kCount;
  Line<D> line[kCount];
};

// The pixels that one tap reads, in a channel of contiguous rows.
template <class D, class SomeLines, class T>
HWY_INLINE hn::Vec<D> load_tap(D d, const SomeLines& lines, const T* channel, int64_t row_stride, int row,
                               int column) {
  const auto load_line = [&](const Line<D>& of) HWY_ATTR {
    return load_lanes(d, channel + (of.row + row) * row_stride + of.column + column);
  };
  hn::Vec<D> pixels = load_line(lines.line[0]);
  for (int k = 1; k < lines.count; ++k)
    pixels = hn::IfThenElse(lines.line[k].samples, load_line(lines.line[k]), pixels);
  return pixels;
}

// Zeros in place of what the samples of other lines have.
template <class D, class SomeLines>
HWY_INLINE hn::Vec<D> keep_line(const SomeLines& lines, int k, hn::Vec<D> v) {
  return lines.count == 1 ? v : hn::IfThenElseZero(lines.line[k].samples, v);
}

inline constexpr int kFewLines = 3;   // in a vector: with code for each number
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

// The lines that interior samples of a block make up, vector by vector, at most kFewLines in each.
template <class D, int kTaps>
class BlockLines {
 public:
  // Returns whether there are not more, all of them away from the ends of the rows.
  HWY_INLINE bool find(const Block<hn::TFromD<D>>& block, int64_t width) {
    for (size_t vector = 0; vector < kVectors; ++vector) {
      if (!find_in_vector(block, vector, width)) return false;
    }
    return true;
  }

  // Calls function(lines) for the samples from `lane` on.
  template <class Function>
  HWY_INLINE void visit(size_t lane, Function&& function) const {
    visit_number<1>(lane / kSamples, function);
  }

 private:
  static constexpr size_t kSamples = hn::MaxLanes(D());
  static constexpr size_t kVectors = kBlock / kSamples;

  HWY_INLINE bool find_in_vector(const Block<hn::TFromD<D>>& block, size_t vector, int64_t width) {
    int& count = counts_[vector];
    count = 0;
    return find_lines<D>(
        block, vector * kSamples, kFewLines, [&](int64_t row, int64_t column, uint32_t samples) HWY_ATTR {
          if (column < 0 || column + static_cast<int64_t>(kSamples) + kTaps - 1 > width) return false;
          // Sums add up in the order of the samples, so no other line may be in between.
          const uint32_t from_first = samples >> __builtin_ctz(samples);
          if ((from_first & (from_first + 1)) != 0) return false;
          lines_[vector][count++] = {row, column, (samples >> (kSamples - 1)) != 0, mask_of(D(), samples)};
          return true;
        });
  }

  // Calls function where there are at least kCount.
  template <int kCount, class Function>
  HWY_INLINE void visit_number(size_t vector, Function&& function) const {
    if constexpr (kCount < kFewLines) {
      if (counts_[vector] > kCount) return visit_number<kCount + 1>(vector, function);
    }
    Lines<D, kCount> lines;
    std::copy_n(lines_[vector], kCount, lines.line);
    function(lines);
  }

  int counts_[kVectors];
  Line<D> lines_[kVectors][kFewLines];
};

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
