// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Voxels as vectors of samples read them, where they lie.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_VOXELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_VOXELS_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_VOXELS_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_VOXELS_INL_H_
#endif

#include "ops/grid_sampler/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// Of a sample along each axis, and in all.
inline constexpr int kVolumeTaps = 2, kVoxelTaps = kTapsOfSample<kVolumeTaps, 3>;

// The taps of samples in a box of a dense volume, whose voxels are numbered through rows and slices.
struct TapRows {
  static constexpr int kRows = kVolumeTaps * kVolumeTaps;

  Box box;
  int64_t begin;  // voxel of the box
  int64_t end;
  int64_t width;
  int64_t step[kRows];  // voxels from the first tap of a sample to the row

  TapRows(const Axis* axes, const Box& of_volume)
      : box(of_volume),
        begin((box.slices.begin * axes[1].size + box.rows.begin) * axes[0].size),
        end(((box.slices.end - 1) * axes[1].size + box.rows.end) * axes[0].size),
        width(axes[0].size) {
    for (int k = 0; k < kRows; ++k)
      step[k] = (k / kVolumeTaps * axes[1].size + k % kVolumeTaps) * axes[0].size;
  }
};

// Whether the box has all voxels that the block's samples reach along z and y.
template <class Real>
HWY_INLINE bool has_all_taps(const Block<Real, 3>& block, const Axis* axes, const Box& box) {
  const IndexTag d;
  constexpr int64_t kAnywhere = 1 << 30;
  const auto starts_in = [&](const AxisTaps<Real>& taps, const Axis& axis, RowBand band,
                             size_t lane) HWY_ATTR {
    const auto first = hn::Load(d, taps.first + lane);
    const int64_t begin = band.begin == 0 ? -kAnywhere : band.begin;
    const int64_t end = band.end == axis.size ? kAnywhere : band.end - kVolumeTaps + 1;
    return hn::And(hn::Gt(first, index_vector(begin - 1)), hn::Lt(first, index_vector(end)));
  };
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
    const auto do_start = hn::And(starts_in(block.z(), axes[2], box.slices, lane),
                                  starts_in(block.y(), axes[1], box.rows, lane));
    if (!hn::AllTrue(d, do_start)) return false;
  }
  return true;
}

// Samples of a vector in a line: where a grid is smooth, a sample mostly reads the voxels next to those of the sample
// before. The first tap of the sample in lane i is voxel `first` + i, counted from the first voxel of a box.
struct VoxelLine {
  int64_t first;
  uint32_t samples;  // a bit for each lane
};

// The lines of as many samples as a vector has lanes, in the order of the samples, and which of their taps lie in a
// box.
template <class D>
class VoxelLines {
 public:
  static constexpr int kRows = kVolumeTaps * kVolumeTaps;

  // Whether lines may be looked for in dense volumes: rows are longer than vectors, so that two samples of a line only
  // ever add to a voxel as neighbours, and 32 bits hold the number of any voxel and of those just outside.
  static bool suit(const Axis* axes) {
    constexpr double kMost = 1 << 30;
    const auto voxels = [](const Axis& axis) { return static_cast<double>(axis.size + 4); };
    return axes[0].size > kBlock && voxels(axes[0]) * voxels(axes[1]) * voxels(axes[2]) < kMost;
  }

  // Finds those of the samples from `lane` on, of which the block has `count`. `is_inside`: taps that are voxels lie in
  // the box.
  HWY_INLINE void find(const Block<hn::TFromD<D>, 3>& block, size_t lane, int64_t count, const Axis* axes,
                       const TapRows& rows, bool is_inside) {
    const hn::Rebind<int32_t, D> d;
    const auto height = hn::Set(d, static_cast<int32_t>(axes[1].size)),
               width = hn::Set(d, static_cast<int32_t>(axes[0].size));
    const auto row =
        hn::Add(hn::Mul(hn::Load(d, block.z().first + lane), height), hn::Load(d, block.y().first + lane));
    const auto voxel = hn::Add(hn::Mul(row, width), hn::Load(d, block.x().first + lane));
    const auto first_voxel = hn::Sub(voxel, hn::Iota(d, 0));
    uint32_t starts = bits_of(d, hn::Ne(first_voxel, previous_lanes(d, first_voxel))) | 1;
    count_ = 0;
    is_found_ = __builtin_popcount(starts) <= kMost;
    if (!is_found_) return;
    const uint32_t with_taps = find_taps(block, lane, count, axes, rows, is_inside);
    alignas(64) int32_t first_voxels[hn::MaxLanes(D())];
    hn::Store(first_voxel, d, first_voxels);
    while (starts != 0) {
      const int32_t first = first_voxels[__builtin_ctz(starts)];
      const uint32_t before = (starts & -starts) - 1;
      starts &= starts - 1;
      const uint32_t samples = with_taps & ((starts & -starts) - 1) & ~before;
      if (samples != 0) add_line({first - rows.begin, samples}, rows);
    }
  }

  // Whether lines were found, few enough, with room for whole vectors in the box. Else one goes sample by sample.
  bool is_found() const { return is_found_; }

  // values[tap]: what the samples read in one channel, of which `channel` is the first voxel of the box; zero where the
  // tap is not in the box.
  template <class T>
  HWY_INLINE void load(D d, const TapRows& rows, const T* channel, hn::Vec<D> (&values)[kVoxelTaps]) const {
    if (is_one() && is_all_) {
      return unroll<kVoxelTaps>([&](auto k) HWY_ATTR {
        values[k] = load_lanes(d, channel + lines_[0].first + rows.step[k / kVolumeTaps] + k % kVolumeTaps);
      });
    }
    hn::Mask<D> in_line[kMost];
    for (int n = 0; n < count_; ++n) in_line[n] = mask_of(d, lines_[n].samples);
    unroll<kRows>([&](auto k) HWY_ATTR {
      hn::Vec<D> of_row[kVolumeTaps];
      for (auto& of_column : of_row) of_column = hn::Zero(d);
      for (int n = 0; n < count_; ++n) {
        if ((lines_[n].samples & rows_[k]) == 0) continue;
        const T* from = channel + lines_[n].first + rows.step[k];
        unroll<kVolumeTaps>([&](auto column) HWY_ATTR {
          of_row[column] = hn::IfThenElse(in_line[n], load_lanes(d, from + column), of_row[column]);
        });
      }
      unroll<kVolumeTaps>([&](auto column) HWY_ATTR {
        values[k * kVolumeTaps + column] = keep_taps(d, k, column, of_row[column]);
      });
    });
  }

  // Adds terms[tap] of the samples to one channel of the box. A voxel gets the right term of the sample before its own,
  // then the left one of its own; voxels beside the line get zeros.
  template <class Real>
  HWY_INLINE void add(D d, const TapRows& rows, const hn::Vec<D> (&terms)[kVoxelTaps], Real* channel) const {
    constexpr size_t kLast = hn::MaxLanes(D()) - 1;
    hn::Vec<D> left[kRows], right[kRows];
    alignas(64) Real rights[kRows][kLast + 1];
    unroll<kRows>([&](auto k) HWY_ATTR {
      left[k] = keep_taps(d, k, 0, terms[k * kVolumeTaps]);
      right[k] = keep_taps(d, k, kVolumeTaps - 1, terms[k * kVolumeTaps + kVolumeTaps - 1]);
      hn::Store(right[k], d, rights[k]);
      right[k] = previous_lanes(d, right[k]);
    });
    for (int n = 0; n < count_; ++n) {
      const VoxelLine& line = lines_[n];
      const auto in_line = mask_of(d, line.samples), after_line = mask_of(d, line.samples << 1);
      const bool has_last = (line.samples >> kLast & 1) != 0;
      unroll<kRows>([&](auto k) HWY_ATTR {
        if ((line.samples & rows_[k]) == 0) return;
        Real* to = channel + line.first + rows.step[k];
        auto sum = hn::LoadU(d, to);
        sum = hn::Add(sum, is_one() ? right[k] : hn::IfThenElseZero(after_line, right[k]));
        hn::StoreU(hn::Add(sum, is_one() ? left[k] : hn::IfThenElseZero(in_line, left[k])), d, to);
        if (has_last) to[kLast + 1] += rights[k][kLast];
      });
    }
  }

  // Asks for what the samples of the next row of a grid will be the first to read of a channel, or to add to, if it goes
  // on as it is: the row below, in the next slice.
  template <class T>
  HWY_INLINE void prefetch(const TapRows& rows, const T* channel) const {
    for (int n = 0; n < count_; ++n) {
      const T* below = channel + lines_[n].first + rows.step[kRows - 1] + rows.width;
      hwy::Prefetch(below + __builtin_ctz(lines_[n].samples));
      hwy::Prefetch(below + 31 - __builtin_clz(lines_[n].samples));
    }
  }

 private:
  static constexpr int kMost = 4;
  static constexpr uint32_t kAll = (uint32_t{1} << hn::MaxLanes(D())) - 1;

  bool is_one() const { return count_ == 1; }

  // Returns the samples with a tap in the box.
  HWY_INLINE uint32_t find_taps(const Block<hn::TFromD<D>, 3>& block, size_t lane, int64_t count,
                                const Axis* axes, const TapRows& rows, bool is_inside) {
    is_all_ = is_inside && (block.interior >> lane & kAll) == kAll;
    if (is_all_) {
      for (uint32_t& bits : rows_) bits = kAll;
      return kAll;
    }
    const uint32_t samples = ((uint32_t{1} << count) - 1) >> lane & kAll;
    uint32_t in_slice[kVolumeTaps], in_row[kVolumeTaps];
    taps_between(block.z(), lane, rows.box.slices, in_slice);
    taps_between(block.y(), lane, rows.box.rows, in_row);
    taps_between(block.x(), lane, RowBand{0, axes[0].size}, columns_);
    uint32_t any_row = 0, any_column = 0, all = samples;
    for (int k = 0; k < kRows; ++k) {
      rows_[k] = in_slice[k / kVolumeTaps] & in_row[k % kVolumeTaps] & samples;
      any_row |= rows_[k];
      all &= rows_[k];
    }
    for (uint32_t bits : columns_) any_column |= bits, all &= bits;
    is_all_ = all == kAll;
    return any_row & any_column;
  }

  // A bit for each sample whose tap k along an axis lies in the band.
  static HWY_INLINE void taps_between(const AxisTaps<hn::TFromD<D>>& taps, size_t lane, RowBand band,
                                      uint32_t (&bits)[kVolumeTaps]) {
    const hn::Rebind<int32_t, D> d;
    const auto begin = hn::Set(d, static_cast<int32_t>(band.begin) - 1),
               end = hn::Set(d, static_cast<int32_t>(band.end));
    for (int k = 0; k < kVolumeTaps; ++k) {
      const auto tap = hn::Add(hn::Load(d, taps.first + lane), hn::Set(d, k));
      bits[k] = bits_of(d, hn::And(hn::Gt(tap, begin), hn::Lt(tap, end)));
    }
  }

  HWY_INLINE void add_line(const VoxelLine& line, const TapRows& rows) {
    constexpr auto kRoom = static_cast<int64_t>(hn::MaxLanes(D())) + kVolumeTaps - 1;
    const auto has_room = [&](int k) {
      const int64_t first = line.first + rows.step[k];
      return first >= 0 && first + kRoom <= rows.end - rows.begin;
    };
    if (HWY_UNLIKELY(!has_room(0) || !has_room(kRows - 1))) {
      for (int k = 0; k < kRows; ++k) is_found_ &= (line.samples & rows_[k]) == 0 || has_room(k);
    }
    lines_[count_++] = line;
  }

  HWY_INLINE hn::Vec<D> keep_taps(D d, int row, int column, hn::Vec<D> v) const {
    return is_all_ ? v : hn::IfThenElseZero(mask_of(d, rows_[row] & columns_[column]), v);
  }

  bool is_found_ = false;
  bool is_all_ = false;  // samples are there, with all taps in the box
  int count_ = 0;
  uint32_t rows_[kRows] = {};  // a bit for each sample with a tap in the row
  uint32_t columns_[kVolumeTaps] = {};
  VoxelLine lines_[kMost];
};

// values[tap]: what the samples from `lane` on, of which the block has `count`, read in one channel, wherever they lie.
template <class D, class T>
HWY_NOINLINE void load_voxels(D d, const Block<RealOf<T>, 3>& block, size_t lane, int64_t count,
                              const Image& volume, const T* channel, hn::Vec<D> (&values)[kVoxelTaps]) {
  constexpr size_t kCount = hn::MaxLanes(D());
  const size_t samples = std::min(kCount, static_cast<size_t>(count) - lane);
  const int64_t slice_stride = volume.slice_stride, row_stride = volume.row_stride;
  const int64_t column_stride = volume.column_stride;
  alignas(64) T voxels[kVoxelTaps][kCount];
  if (samples < kCount) std::memset(voxels, 0, sizeof voxels);
  for (size_t i = 0; i < samples; ++i) {
    const int64_t z = block.z().first[lane + i], y = block.y().first[lane + i], x = block.x().first[lane + i];
    if (HWY_LIKELY(block.interior >> (lane + i) & 1)) {
      const T* first = channel + volume.offset(z, y, x);
      for (int k = 0; k < kVoxelTaps; ++k) {
        const TapIndex<kVolumeTaps> tap(k);
        voxels[k][i] = first[tap.slice * slice_stride + tap.row * row_stride + tap.column * column_stride];
      }
      continue;
    }
    for (int k = 0; k < kVoxelTaps; ++k) {
      const TapIndex<kVolumeTaps> tap(k);
      const bool is_voxel = volume.has(z + tap.slice, y + tap.row, x + tap.column);
      voxels[k][i] = is_voxel ? channel[volume.offset(z + tap.slice, y + tap.row, x + tap.column)] : T{};
    }
  }
  for (int k = 0; k < kVoxelTaps; ++k) values[k] = load_lanes(d, voxels[k]);
}

// Where a block's samples lie in a volume with an element for each sample: side by side from at[0] on, or anywhere. What
// is missing repeats the last.
struct SampleOffsets {
  int64_t at[kBlock] = {};
  bool are_contiguous;

  HWY_INLINE SampleOffsets(const Image& volume, const Samples& samples)
      : are_contiguous(samples.are_neighbours() && samples.count == kBlock &&
                       volume.has_contiguous_channels()) {
    if (are_contiguous) {
      at[0] = samples.first;
    } else if (samples.are_neighbours()) {
      for_each_pixel(volume, samples.first, samples.count,
                     [&](int64_t k, int64_t offset) { at[k] = offset; });
    } else {
      for (int64_t k = 0; k < samples.count; ++k) at[k] = volume.offset(samples[k]);
    }
    std::fill(at + samples.count, at + kBlock, at[samples.count - 1]);
  }
};

// One channel of the elements of the samples from `lane` on.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_samples(D d, const T* channel, const SampleOffsets& offsets, size_t lane) {
  if (offsets.are_contiguous) return load_lanes(d, channel + offsets.at[0] + lane);
  alignas(64) T values[hn::MaxLanes(D())];
  for (size_t i = 0; i < hn::MaxLanes(D()); ++i) values[i] = channel[offsets.at[lane + i]];
  return load_lanes(d, values);
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
