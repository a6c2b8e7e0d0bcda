// Voxels as the kernels read them: where they lie, for vectors of samples, or from volumes whose channels lie side by side,
// for vectors of channels.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_VOXELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_VOXELS_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_VOXELS_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_VOXELS_INL_H_
#endif

#include "ops/grid_sampler/channels-inl.h"
#include "ops/grid_sampler/lines-inl.h"
#include "ops/grid_sampler/volume-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// ---- For vectors of samples

// values[tap][i]: what sample i reads in one channel; zero where the tap is no voxel.
template <int kTaps, class T>
HWY_INLINE void load_voxels(const Volume<const T>& volume, const T* channel,
                            const VolumeGroup<RealOf<T>, kTaps>& group,
                            T (&values)[kVoxelTaps<kTaps>][kBlock]) {
  const int64_t slice_stride = volume.slice_stride, row_stride = volume.row_stride;
  const int64_t column_stride = volume.column_stride;
  for (size_t i = 0; i < kBlock; ++i) {
    const int64_t z = group.z.first[i], y = group.y.first[i], x = group.x.first[i];
    if (HWY_LIKELY(group.interior >> i & 1)) {
      const T* first = channel + volume.offset(z, y, x);
      for (int k = 0; k < kVoxelTaps<kTaps>; ++k) {
        const TapIndex<kTaps> tap(k);
        values[k][i] = first[tap.slice * slice_stride + tap.row * row_stride + tap.column * column_stride];
      }
      continue;
    }
    for (int k = 0; k < kVoxelTaps<kTaps>; ++k) {
      const TapIndex<kTaps> tap(k);
      const bool is_voxel = is_index(z + tap.slice, volume.depth) && is_index(y + tap.row, volume.height) &&
                            is_index(x + tap.column, volume.width);
      values[k][i] = is_voxel ? channel[volume.offset(z + tap.slice, y + tap.row, x + tap.column)] : T{};
    }
  }
}

// The lines that a block's samples make up, see lines-inl.h, in a volume that has_lines(): its rows are numbered through
// all slices.
template <class Real, int kTaps>
class VoxelLines {
 public:
  using Tag = BlockTag<Real>;

  // Returns whether there are at most two in each vector, away from the ends of the rows.
  HWY_INLINE bool find(const VolumeGroup<Real, kTaps>& group, const VolumeAxes& axes) {
    constexpr int64_t kMostRows = 1 << 30;
    if (group.interior != kAllSamples || axes.z.size * axes.y.size > kMostRows) return false;
    const IndexTag d;
    const auto height = hn::Set(d, static_cast<int32_t>(axes.y.size));
    Block<Real> plane;
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      const auto slice_row = hn::Mul(hn::Load(d, group.z.first + lane), height);
      hn::Store(hn::Add(slice_row, hn::Load(d, group.y.first + lane)), d, plane.taps[1].first + lane);
      hn::Store(hn::Load(d, group.x.first + lane), d, plane.taps[0].first + lane);
    }
    return lines_.find(plane, axes.x.size);
  }

  // Calls function(Lines) for the samples from `lane` on.
  template <class Function>
  HWY_INLINE void visit(size_t lane, Function&& function) const {
    lines_.visit(lane, function);
  }

 private:
  BlockLines<Tag, kTaps> lines_;
};

// What one tap of the samples in lines reads.
template <class D, int kCount, class T>
HWY_INLINE hn::Vec<D> load_tap(D d, const Lines<D, kCount>& lines, const Volume<const T>& volume,
                               const T* channel, int slice, int row, int column) {
  const int64_t first_row = slice * volume.height + row;
  return lines.load_tap(d, channel + first_row * volume.row_stride, volume.row_stride, 0, column);
}

// One channel of the elements of a block's samples.
template <class T>
HWY_INLINE void load_samples(const T* channel, const SampleOffsets& offsets, RealOf<T> (&to)[kBlock]) {
  const BlockTag<RealOf<T>> d;
  alignas(64) T values[kBlock];
  const T* from = values;
  if (offsets.are_contiguous) {
    from = channel + offsets.at[0];
  } else {
    for (size_t i = 0; i < kBlock; ++i) values[i] = channel[offsets.at[i]];
  }
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d))
    hn::Store(load_lanes(d, from + lane), d, to + lane);
}

// ---- For vectors of channels

// Slices and rows of a volume whose channels lie side by side, as floats.
template <class Float>
struct Slab {
  Float* data = nullptr;
  int64_t first_slice = 0;
  int64_t first_row = 0;
  int64_t slice_stride = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 0;

  Float* at(int64_t slice, int64_t row, int64_t column) const {
    return data + (slice - first_slice) * slice_stride + (row - first_row) * row_stride +
           column * column_stride;
  }
};

// Copies of boxes: `rows` rows of `slices` slices.
struct SlabLayout {
  int64_t width;
  int64_t channels;  // of a voxel, filled up
  int64_t row_floats = spread_row(width * channels);

  int64_t floats(int64_t slices, int64_t rows) const { return slices * rows * row_floats; }

  template <class Float>
  Slab<Float> slab(Float* data, int64_t first_slice, int64_t first_row, int64_t rows) const {
    return {data, first_slice, first_row, rows * row_floats, row_floats, channels};
  }
};

// Brings the slices and rows that samples of a box read into a buffer.
template <int kTaps, class T>
Slab<const float> pack_box(const Volume<const T>& volume, const Box& box, const SlabLayout& layout,
                           int64_t rows_of_buffer, float* buffer) {
  const int64_t end_slice = std::min(box.slices.end + kTaps - 1, volume.depth);
  const int64_t end_row = std::min(box.rows.end + kTaps - 1, volume.height);
  const Slab<float> slab = layout.slab(buffer, box.slices.begin, box.rows.begin, rows_of_buffer);
  for (int64_t z = box.slices.begin; z < end_slice; ++z) {
    for (int64_t y = box.rows.begin; y < end_row; ++y)
      pack_pixels(volume.slice(z), y * volume.width, volume.width, slab.at(z, y, 0), layout.channels);
  }
  return {buffer, slab.first_slice, slab.first_row, slab.slice_stride, slab.row_stride, slab.column_stride};
}

// The elements of a block's samples, channels side by side: where they lie, or in the buffer.
template <class T>
HWY_INLINE void pack_samples(const Volume<const T>& volume, const SampleBlock& block, bool in_place,
                             int64_t channels, float* buffer, const float* (&of_samples)[kBlock]) {
  if constexpr (std::is_same_v<T, float>) {
    if (in_place) {
      return for_each_offset(volume, block,
                             [&](int64_t k, int64_t offset) { of_samples[k] = volume.data + offset; });
    }
  }
  for_each_run(volume, block, [&](const Image& slice, int64_t first, int64_t k, int64_t count) {
    pack_pixels(slice, first, count, buffer + k * channels, channels);
  });
  for (int64_t k = 0; k < kBlock; ++k) of_samples[k] = buffer + std::min(k, block.count - 1) * channels;
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
