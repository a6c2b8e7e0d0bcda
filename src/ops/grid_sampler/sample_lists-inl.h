// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Which samples have to do with which box of a volume that is cut.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_SAMPLE_LISTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_SAMPLE_LISTS_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_SAMPLE_LISTS_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_SAMPLE_LISTS_INL_H_
#endif

#include <algorithm>

#include "base/parallel.h"
#include "base/workspace.h"
#include "ops/grid_sampler/volume-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// The first and the last of the slices, or rows, that a sample has to do with: 0 where it reads none.
struct Reach {
  alignas(64) int32_t first[kBlock];
  alignas(64) int32_t last[kBlock];
};

struct Extent {
  int64_t first;
  int64_t last;

  // Of parts of 1 << shift slices, or rows.
  RowBand in_parts(int64_t shift) const { return {first >> shift, (last >> shift) + 1}; }
};

// Returns the first and the last of the whole block.
template <int kTaps, class Real>
HWY_INLINE Extent find_reach(const AxisTaps<Real>& taps, const Axis& axis, Reach& reach) {
  const IndexTag d;
  const auto most = index_vector(axis.size - 1);
  auto least_first = most, most_last = hn::Zero(d);
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
    const auto tap = hn::Load(d, taps.first + lane);
    const auto first = hn::Min(hn::Max(tap, hn::Zero(d)), most);
    const auto last = hn::Min(hn::Max(hn::Add(tap, hn::Set(d, kTaps - 1)), hn::Zero(d)), most);
    least_first = hn::Min(least_first, first);
    most_last = hn::Max(most_last, last);
    hn::Store(first, d, reach.first + lane);
    hn::Store(last, d, reach.last + lane);
  }
  return {hn::GetLane(hn::MinOfLanes(d, least_first)), hn::GetLane(hn::MaxOfLanes(d, most_last))};
}

// What the samples of a block have to do with, and in which slabs and bands of a cut it lies.
template <int kTaps>
struct BlockReach {
  Reach slices, rows;
  RowBand slabs, bands;

  template <class T>
  HWY_NOINLINE BlockReach(const VolumeAxes& axes, const BoxCut& cut, const Volume<const T>& grid,
                          const SampleBlock& block)
      : bands{0, 1} {
    alignas(64) RealOf<T> coordinates[3][kBlock];
    AxisTaps<RealOf<T>> taps;
    load_coordinates(grid, block, coordinates);
    plan_axis<kTaps>(axes.z, coordinates[2], taps);
    slabs = find_reach<kTaps>(taps, axes.z, slices).in_parts(cut.slice_shift);
    if (cut.bands() == 1) {
      rows = {};
    } else {
      plan_axis<kTaps>(axes.y, coordinates[1], taps);
      bands = find_reach<kTaps>(taps, axes.y, rows).in_parts(cut.row_shift);
    }
  }

  int64_t boxes() const { return (slabs.end - slabs.begin) * (bands.end - bands.begin); }
};

// A bit for each sample whose first slice and row lie in the box: the box that writes the sample's gradient.
template <int kTaps, class Real>
HWY_INLINE uint32_t samples_owned(const VolumeGroup<Real, kTaps>& group, const VolumeAxes& axes,
                                  const Box& box) {
  const IndexTag d;
  const auto starts_in = [&](const AxisTaps<Real>& taps, const Axis& axis, RowBand band,
                             size_t lane) HWY_ATTR {
    const auto first =
        hn::Min(hn::Max(hn::Load(d, taps.first + lane), hn::Zero(d)), index_vector(axis.size - 1));
    return hn::And(hn::Gt(first, index_vector(band.begin - 1)), hn::Lt(first, index_vector(band.end)));
  };
  uint32_t bits = 0;
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
    bits |= bits_of(d, hn::And(starts_in(group.z, axes.z, box.slices, lane),
                               starts_in(group.y, axes.y, box.rows, lane)))
            << lane;
  }
  return bits;
}

// Whether the box has all voxels that the block's samples reach along z and y.
template <int kTaps, class Real>
HWY_INLINE bool has_all_taps(const VolumeGroup<Real, kTaps>& group, const VolumeAxes& axes, const Box& box) {
  const IndexTag d;
  constexpr int64_t kAnywhere = 1 << 30;
  const auto starts_in = [&](const AxisTaps<Real>& taps, const Axis& axis, RowBand band,
                             size_t lane) HWY_ATTR {
    const auto first = hn::Load(d, taps.first + lane);
    const int64_t begin = band.begin == 0 ? -kAnywhere : band.begin;
    const int64_t end = band.end == axis.size ? kAnywhere : band.end - kTaps + 1;
    return hn::And(hn::Gt(first, index_vector(begin - 1)), hn::Lt(first, index_vector(end)));
  };
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
    const auto do_start =
        hn::And(starts_in(group.z, axes.z, box.slices, lane), starts_in(group.y, axes.y, box.rows, lane));
    if (!hn::AllTrue(d, do_start)) return false;
  }
  return true;
}

// For which boxes a sample is listed.
enum class Listing {
  owned,      // that of its first slice and row
  reached,    // those of all its taps
  with_block  // if its block has taps in two boxes, both: so neighbours stay together
};

// The samples of some images, listed for each box that has to do with them. An image has segments, each with one list
// for each box. Without a cut there is nothing to list.
template <class T, int kTaps>
class SampleLists {
 public:
  SampleLists(const GridSampling3D& problem, const VolumeAxes& axes, Listing listing, int64_t images,
              int64_t most_boxes, WorkspaceAllocator& allocator)
      : problem_(problem),
        axes_(axes),
        listing_(listing),
        samples_(samples_of(problem)),
        segments_(std::clamp<int64_t>(samples_ / (most_boxes * kLeastListed), 1, kMostSegments)),
        segment_samples_(divide_up(divide_up(samples_, segments_), kBlock) * kBlock),
        segment_entries_(segment_samples_ * most_boxes_of_sample()) {
    if (most_boxes == 1) return;
    blocks_ = allocator.take<Boxes>(images * segments_ * segment_samples_ / kBlock);
    entries_ = allocator.take<uint32_t>(images * segments_ * segment_entries_);
    ends_ = allocator.take<int64_t>(images * segments_ * most_boxes);
  }

  // Lists those of images [first_image, first_image + images).
  void fill(const BoxCut& cut, int64_t first_image, int64_t images, double nanoseconds) const {
    if (cut.count() == 1) return;
    parallel_for(images * segments_, nanoseconds, [&](int64_t task) HWY_ATTR {
      fill_segment(cut, grid_volume<T>(problem_, first_image + task / segments_),
                   task % segments_ * segment_samples_, blocks_ + task * segment_samples_ / kBlock,
                   entries_ + task * segment_entries_, ends_ + task * cut.count());
    });
  }

  // Calls body(SampleBlock) for the samples of a box, in their order. The image is counted from the first.
  template <class Body>
  HWY_INLINE void for_each_block(const BoxCut& cut, int64_t image, int64_t box, Body&& body) const {
    if (cut.count() == 1) return for_each_block_between(0, samples_, body);
    for (int64_t segment = 0; segment < segments_; ++segment) {
      const int64_t number = image * segments_ + segment;
      const int64_t* ends = ends_ + number * cut.count();
      const uint32_t* entries = entries_ + number * segment_entries_;
      const int64_t first = segment * segment_samples_, end = ends[box];
      for (int64_t k = box == 0 ? 0 : ends[box - 1]; k < end; k += kBlock) {
        body(SampleBlock{std::min<int64_t>(kBlock, end - k), first, entries + k});
      }
    }
  }

  // The same for samples [begin, end).
  template <class Body>
  static HWY_INLINE void for_each_block_between(int64_t begin, int64_t end, Body&& body) {
    for (int64_t first = begin; first < end; first += kBlock) {
      body(SampleBlock{std::min<int64_t>(kBlock, end - first), first});
    }
  }

 private:
  static constexpr int64_t kLeastListed = 64;  // samples of a list, on average
  static constexpr int64_t kMostSegments = 64;

  // The boxes for which a block is listed as a whole, one or two; there is no first where that goes sample by sample.
  struct Boxes {
    int32_t first = -1;
    int32_t last = -1;
  };

  int64_t most_boxes_of_sample() const {
    if (listing_ == Listing::owned) return 1;
    if (kTaps == 1) return listing_ == Listing::with_block ? 2 : 1;
    return 4;  // two along each axis
  }

  Boxes boxes_of(const BlockReach<kTaps>& reach, const BoxCut& cut) const {
    if (reach.boxes() > (listing_ == Listing::with_block ? 2 : 1)) return {};
    return {static_cast<int32_t>(reach.slabs.begin * cut.bands() + reach.bands.begin),
            static_cast<int32_t>((reach.slabs.end - 1) * cut.bands() + reach.bands.end - 1)};
  }

  // Lists the samples of a segment, counted from its first, box after box. ends[b] is where list b ends.
  HWY_NOINLINE void fill_segment(const BoxCut& cut, const Volume<const T>& grid, int64_t first, Boxes* blocks,
                                 uint32_t* entries, int64_t* ends) const {
    const int64_t end = std::min(first + segment_samples_, samples_);
    std::fill_n(ends, cut.count(), 0);
    for_each_block_between(first, end, [&](const SampleBlock& block) HWY_ATTR {
      const BlockReach<kTaps> reach(axes_, cut, grid, block);
      Boxes& boxes = blocks[(block.first - first) / kBlock];
      boxes = boxes_of(reach, cut);
      const auto count = [&](int64_t box, int64_t, int64_t samples) { ends[box] += samples; };
      boxes.first >= 0 ? list_whole(boxes, block, count) : list_each(reach, cut, block, count);
    });
    int64_t start = 0;
    for (int64_t box = 0; box < cut.count(); ++box) {
      const int64_t count = ends[box];
      ends[box] = start;  // moves to the end as the list is filled
      start += count;
    }
    for_each_block_between(first, end, [&](const SampleBlock& block) HWY_ATTR {
      const Boxes boxes = blocks[(block.first - first) / kBlock];
      const auto list = [&](int64_t box, int64_t sample, int64_t samples) {
        uint32_t* entry = entries + ends[box];
        for (int64_t k = 0; k < samples; ++k) entry[k] = static_cast<uint32_t>(sample - first + k);
        ends[box] += samples;
      };
      boxes.first >= 0 ? list_whole(boxes, block, list)
                       : list_each(BlockReach<kTaps>(axes_, cut, grid, block), cut, block, list);
    });
  }

  // Calls body(box, sample, count) for the samples of a block, which are neighbours, for each box.
  template <class Body>
  static HWY_INLINE void list_whole(const Boxes& boxes, const SampleBlock& block, Body&& body) {
    body(boxes.first, block.first, block.count);
    if (boxes.last != boxes.first) body(boxes.last, block.first, block.count);
  }

  template <class Body>
  HWY_INLINE void list_each(const BlockReach<kTaps>& reach, const BoxCut& cut, const SampleBlock& block,
                            Body&& body) const {
    const int64_t slice_shift = cut.slice_shift, row_shift = cut.row_shift;
    for (int64_t i = 0; i < block.count; ++i) {
      const int64_t first_slab = reach.slices.first[i] >> slice_shift,
                    first_band = reach.rows.first[i] >> row_shift;
      const bool is_first_alone = listing_ == Listing::owned;
      const int64_t last_slab = is_first_alone ? first_slab : reach.slices.last[i] >> slice_shift;
      const int64_t last_band = is_first_alone ? first_band : reach.rows.last[i] >> row_shift;
      for (int64_t slab = first_slab; slab <= last_slab; ++slab) {
        for (int64_t band = first_band; band <= last_band; ++band)
          body(slab * cut.bands() + band, block[i], 1);
      }
    }
  }

  const GridSampling3D& problem_;
  const VolumeAxes& axes_;
  const Listing listing_;
  const int64_t samples_;
  const int64_t segments_;
  const int64_t segment_samples_;
  const int64_t segment_entries_;
  Boxes* blocks_ = nullptr;      // [images, segments, segment_samples / 16]
  uint32_t* entries_ = nullptr;  // [images, segments, segment_entries]
  int64_t* ends_ = nullptr;      // [images, segments, boxes]
};

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
