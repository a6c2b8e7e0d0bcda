// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Where the samples of a grid fall among the voxels of a volume, 16 samples at a time.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_VOLUME_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_VOLUME_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_VOLUME_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_VOLUME_INL_H_
#endif

#include <array>

#include "ops/grid_sampler/axis-inl.h"
#include "ops/grid_sampler/volume.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// Up to 16 samples of one image, in their order: neighbours, or listed. What is missing repeats the last.
struct SampleBlock {
  int64_t count;
  int64_t first;
  const uint32_t* listed = nullptr;  // numbers, counted from `first`

  int64_t operator[](int64_t k) const {
    const int64_t at = std::min(k, count - 1);
    return first + (listed == nullptr ? at : listed[at]);
  }
  // All of them, for what looks at them more than once.
  HWY_INLINE std::array<int64_t, kBlock> numbers() const {
    std::array<int64_t, kBlock> result;
    if (listed == nullptr) {
      for (int64_t k = 0; k < kBlock; ++k) result[k] = first + std::min(k, count - 1);
    } else {
      for (int64_t k = 0; k < kBlock; ++k) result[k] = first + listed[std::min(k, count - 1)];
    }
    return result;
  }
  bool is_consecutive() const {
    return count == kBlock && (listed == nullptr || listed[kBlock - 1] - listed[0] == kBlock - 1);
  }
};

// Where a block's samples lie in a volume with an element for each sample: side by side from at[0] on, or anywhere.
struct SampleOffsets {
  int64_t at[kBlock];
  bool are_contiguous;
};

// Calls body(k, offset of sample k) for all 16 samples of a block, in a volume with an element for each sample.
template <class T, class Body>
HWY_INLINE void for_each_offset(const Volume<T>& volume, const SampleBlock& block, Body&& body) {
  if (volume.is_flat()) {
    const int64_t stride = volume.flat_stride();
    for (int64_t k = 0; k < kBlock; ++k) body(k, block[k] * stride);
    return;
  }
  const auto sample = block.numbers();
  int64_t x = 0, y = 0, z = 0;
  for (int64_t k = 0; k < kBlock; ++k) {
    if (k > 0 && sample[k] == sample[k - 1] + 1) {
      if (++x == volume.width) x = 0, ++y;
      if (y == volume.height) y = 0, ++z;
    } else if (k == 0 || sample[k] != sample[k - 1]) {
      x = sample[k] % volume.width;
      y = sample[k] / volume.width % volume.height;
      z = sample[k] / volume.width / volume.height;
    }
    body(k, volume.offset(z, y, x));
  }
}

// Calls body(slice, first pixel there, k, count) for runs of neighbours in a slice, from sample k of the block on.
template <class T, class Body>
HWY_INLINE void for_each_run(const Volume<T>& volume, const SampleBlock& block, Body&& body) {
  const auto sample = block.numbers();
  const int64_t pixels = volume.height * volume.width;
  for (int64_t k = 0; k < block.count;) {
    const int64_t z = sample[k] / pixels, first = sample[k] % pixels;
    int64_t end = k + 1;
    while (end < block.count && sample[end] == sample[end - 1] + 1 && first + end - k < pixels) ++end;
    body(volume.slice(z), first, k, end - k);
    k = end;
  }
}

template <class T>
HWY_INLINE SampleOffsets offsets_of(const Volume<T>& volume, const SampleBlock& block) {
  SampleOffsets offsets;
  offsets.are_contiguous = block.is_consecutive() && volume.is_flat() && volume.flat_stride() == 1;
  if (offsets.are_contiguous) {
    offsets.at[0] = block[0];
  } else {
    for_each_offset(volume, block, [&](int64_t k, int64_t offset) { offsets.at[k] = offset; });
  }
  return offsets;
}

template <class Real, int kTaps>
struct VolumeGroup {
  AxisTaps<Real> x, y, z;
  uint32_t interior;  // a bit for each sample whose taps are all voxels
};

// Whether x, y and z of the block's samples lie side by side.
template <class T>
inline bool is_interleaved(const Volume<T>& grid, const SampleBlock& block) {
  return block.is_consecutive() && grid.is_flat() && grid.flat_stride() == 3 && grid.channel_stride == 1;
}

template <class T, class Real = RealOf<T>>
HWY_INLINE void load_coordinates(const Volume<const T>& grid, const SampleBlock& block,
                                 Real (&to)[3][kBlock]) {
  const BlockTag<Real> d;
  if (is_interleaved(grid, block)) {
    alignas(64) Real widened[3 * kBlock];
    const Real* triples = widened;
    const T* from = grid.data + 3 * block[0];
    if constexpr (std::is_same_v<T, Real>) {
      triples = from;
    } else {
      for (size_t i = 0; i < 3 * kBlock; i += kLanes) store(load(from + i), widened + i);
    }
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      auto x = hn::Undefined(d), y = hn::Undefined(d), z = hn::Undefined(d);
      hn::LoadInterleaved3(d, triples + 3 * lane, x, y, z);
      hn::Store(x, d, to[0] + lane);
      hn::Store(y, d, to[1] + lane);
      hn::Store(z, d, to[2] + lane);
    }
    return;
  }
  for_each_offset(grid, block, [&](int64_t k, int64_t offset) {
    for (int64_t axis = 0; axis < 3; ++axis)
      to[axis][k] = to_real(grid.data[offset + axis * grid.channel_stride]);
  });
}

template <int kTaps, class Real>
HWY_INLINE void plan_axis(const Axis& axis, const Real* coordinates, AxisTaps<Real>& taps) {
  const BlockTag<Real> d;
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
    prepare_padded_lanes<kTaps>(d, axis, hn::Load(d, coordinates + lane), lane, taps);
  }
}

// Not inline, nor is what else happens once a block: a copy in each kernel is more code and gains nothing.
template <int kTaps, class T>
HWY_NOINLINE void plan_block(const Volume<const T>& grid, const VolumeAxes& axes, const SampleBlock& block,
                             VolumeGroup<RealOf<T>, kTaps>& group) {
  alignas(64) RealOf<T> coordinates[3][kBlock];
  load_coordinates(grid, block, coordinates);
  plan_axis<kTaps>(axes.x, coordinates[0], group.x);
  plan_axis<kTaps>(axes.y, coordinates[1], group.y);
  plan_axis<kTaps>(axes.z, coordinates[2], group.z);
  group.interior = 0;
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(IndexTag())) {
    const auto interior =
        hn::And(hn::And(inside<kTaps>(group.x, axes.x, lane), inside<kTaps>(group.y, axes.y, lane)),
                inside<kTaps>(group.z, axes.z, lane));
    group.interior |= bits_of(IndexTag(), interior) << lane;
  }
  group.interior &= (1u << block.count) - 1;  // so that only a full block is ever interior as a whole
}

// Writes the gradients, x, y and z, of those samples of a block whose bits are set.
template <class T, class Real = RealOf<T>>
HWY_NOINLINE void store_grid_grad(const Volume<T>& grid_grad, const SampleBlock& block, uint32_t bits,
                                  const Real (&slopes)[3][kBlock]) {
  if constexpr (std::is_same_v<T, Real>) {
    if (bits == kAllSamples && is_interleaved(grid_grad, block)) {
      const BlockTag<Real> d;
      Real* to = grid_grad.data + 3 * block[0];
      for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
        hn::StoreInterleaved3(hn::Load(d, slopes[0] + lane), hn::Load(d, slopes[1] + lane),
                              hn::Load(d, slopes[2] + lane), d, to + 3 * lane);
      }
      return;
    }
  }
  for_each_offset(grid_grad, block, [&](int64_t k, int64_t offset) {
    if ((bits >> k & 1) == 0) return;
    for (int64_t axis = 0; axis < 3; ++axis)
      grid_grad.data[offset + axis * grid_grad.channel_stride] = from_real<T>(slopes[axis][k]);
  });
}

// ---- Which samples a box has

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

// Calls body(k) for k in [0, kCount), each a std::integral_constant, so that vectors in arrays stay in registers.
template <int kCount, class Body>
HWY_INLINE void unroll(Body&& body) {
  [&]<int... kIndices>(std::integer_sequence<int, kIndices...>) HWY_ATTR {
    (body(std::integral_constant<int, kIndices>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

// ---- Arithmetic, lane by lane: lanes are channels of one sample, or samples

template <class D, int kTaps>
struct VolumeWeights {
  hn::Vec<D> x[kTaps], y[kTaps], z[kTaps];

  HWY_INLINE hn::Vec<D> of(int slice, int row, int column) const {
    return hn::Mul(hn::Mul(z[slice], y[row]), x[column]);
  }
};

// The weights of the samples from `lane` on.
template <class D, int kTaps>
HWY_INLINE VolumeWeights<D, kTaps> load_weights(D d, const VolumeGroup<hn::TFromD<D>, kTaps>& group,
                                                size_t lane) {
  VolumeWeights<D, kTaps> weights;
  for (int k = 0; k < kTaps; ++k) {
    weights.x[k] = hn::Load(d, group.x.weight[k] + lane);
    weights.y[k] = hn::Load(d, group.y.weight[k] + lane);
    weights.z[k] = hn::Load(d, group.z.weight[k] + lane);
  }
  return weights;
}

template <int kTaps>
inline constexpr int kVoxelTaps = kTaps* kTaps* kTaps;

// Tap k of a sample along each axis.
template <int kTaps>
struct TapIndex {
  int slice, row, column;
  constexpr explicit TapIndex(int k) : slice(k / kTaps / kTaps), row(k / kTaps % kTaps), column(k % kTaps) {}
};

// The sum of the values of the taps, each with its weight.
template <int kTaps, class D>
HWY_INLINE hn::Vec<D> interpolated(D d, const VolumeWeights<D, kTaps>& weights,
                                   const hn::Vec<D> (&values)[kVoxelTaps<kTaps>]) {
  auto sum = hn::Zero(d);
  unroll<kVoxelTaps<kTaps>>([&](auto k) HWY_ATTR {
    constexpr TapIndex<kTaps> tap(k);
    sum = hn::MulAdd(weights.of(tap.slice, tap.row, tap.column), values[k], sum);
  });
  return sum;
}

template <class V>
struct VolumeSlopes {
  V x, y, z;
};

// Derivatives of the interpolated value(slice, row, column) by the place, in voxels.
template <class D, class Value>
HWY_INLINE VolumeSlopes<hn::Vec<D>> trilinear_slopes(D, const VolumeWeights<D, 2>& w, Value&& value) {
  const auto mix = [](const hn::Vec<D>(&weights)[2], hn::Vec<D> a, hn::Vec<D> b)
                       HWY_ATTR { return hn::MulAdd(weights[1], b, hn::Mul(weights[0], a)); };
  const auto step = [&](int slice, int row)
                        HWY_ATTR { return hn::Sub(value(slice, row, 1), value(slice, row, 0)); };
  const auto along_x = [&](int slice, int row)
                           HWY_ATTR { return mix(w.x, value(slice, row, 0), value(slice, row, 1)); };
  const auto v00 = along_x(0, 0), v01 = along_x(0, 1), v10 = along_x(1, 0), v11 = along_x(1, 1);
  return {mix(w.z, mix(w.y, step(0, 0), step(0, 1)), mix(w.y, step(1, 0), step(1, 1))),
          mix(w.z, hn::Sub(v01, v00), hn::Sub(v11, v10)), mix(w.y, hn::Sub(v10, v00), hn::Sub(v11, v01))};
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
