// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the gradient of volumes and its own gradient have in common, vectorised over samples.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_VOLUMES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_VOLUMES_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_VOLUMES_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_VOLUMES_INL_H_
#endif

#include "ops/grid_sampler/voxels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// float and double add up in input_grad itself; the 16-bit types in a buffer of floats for each box, which is rounded in
// the end.
template <class T>
class VolumesBySamples {
 public:
  using Real = RealOf<T>;
  using Tag = BlockTag<Real>;
  using V = hn::Vec<Tag>;

  VolumesBySamples(const Sampling& sampling, WorkspaceAllocator& allocator)
      : sampling_(sampling),
        axes_(sampling.axes),
        finest_(cut_for(kMostThreads)),
        cut_(kInPlace ? cut_for(std::min<int64_t>(thread_count(), kMostThreads)) : finest_),
        buffer_floats_(kInPlace || !sampling.wants_input_grad ? 0 : floats_of(finest_)),
        slots_(kInPlace ? sampling.batch * finest_.count()
                        : std::min<int64_t>(kMostSlots, sampling.batch * finest_.count())),
        lists_(sampling, Listing::with_block, sampling.batch, sampling.wants_input_grad ? finest_.count() : 1,
               allocator),
        buffers_(allocator.take<Real>(slots_ * buffer_floats_)) {}

 protected:
  static constexpr bool kInPlace = std::is_same_v<T, Real>;
  static constexpr int64_t kMostThreads = 16;  // for which there are enough boxes
  static constexpr int64_t kMostSlots = 16;

  // Sums of input_grad from one slice and row on.
  struct Sums {
    Image volume;
    int64_t first_slice;
    int64_t first_row;

    Real* at(int64_t z, int64_t y, int64_t x) const {
      return volume.channel<Real>(0) + volume.offset(z - first_slice, y - first_row, x);
    }
  };

  // What the samples of a box have to do with.
  struct Task {
    int64_t image;
    Image input;
    Image grad_output;
    Image grid_grad;
    Box box;
    Sums sums;
    TapRows input_rows;
    TapRows sums_rows;
    bool may_have_lines;  // what is read and added to is dense
  };

  // The fewer boxes, the fewer samples lie in two; one thread needs none.
  BoxCut cut_for(int64_t threads) const {
    constexpr int64_t kBoxesPerThread = 2;
    constexpr int64_t kLeastElements = 8192;  // of a box
    constexpr int64_t kBoxBytes = 1 << 20;
    const int64_t elements = sampling_.channels * std::max(sampling_.samples, sampling_.pixels);
    int64_t wanted = threads == 1 ? 1 : divide_up(threads * kBoxesPerThread, sampling_.batch);
    wanted = std::min(wanted, elements / kLeastElements);
    return {sampling_, BoxCut::Shape::side_by_side, [&](const BoxCut& cut) {
              return cut.count() < wanted || (!kInPlace && floats_of(cut) * 4 > kBoxBytes);
            }};
  }

  int64_t floats_of(const BoxCut& cut) const {
    return sampling_.channels * std::min(cut.slices(), axes_[2].size) * std::min(cut.rows(), axes_[1].size) *
           axes_[0].size;
  }

  Task task_of(int64_t n, const Box& box, const Sums& sums) const {
    Task task{n,    sampling_.input[n],      sampling_.output[n], sampling_.grid_grad[n],      box,
              sums, TapRows(axes_, whole()), TapRows(axes_, box), VoxelLines<Tag>::suit(axes_)};
    if (sampling_.wants_grid_grad) task.may_have_lines &= task.input.has_contiguous_channels();
    if (sampling_.wants_input_grad)
      task.may_have_lines &= sampling_.input_grad[n].has_contiguous_channels() || !kInPlace;
    return task;
  }

  Box whole() const { return {{0, axes_[2].size}, {0, axes_[1].size}}; }

  // Calls body(task, samples) for the samples that have to do with each box, and brings their sums to input_grad. Where
  // that is not wanted, for those of the whole volume.
  template <class Body>
  void for_each_run(double nanoseconds, Body&& body) const {
    if (!sampling_.wants_input_grad) {
      const int64_t chunks = divide_up(sampling_.samples, kMostSamples);
      return parallel_for(sampling_.batch * chunks, nanoseconds, [&](int64_t index) {
        const int64_t first = index % chunks * kMostSamples;
        body(task_of(index / chunks, whole(), Sums{}),
             Samples{first, std::min(kMostSamples, sampling_.samples - first)});
      });
    }
    list_samples(sampling_, lists_, cut_, 0, sampling_.batch, 0.3 * nanoseconds);
    parallel_for_with_slots(
        sampling_.batch * cut_.count(), slots_, nanoseconds, [&](int64_t task, int64_t slot) {
          add_up_box(task / cut_.count(), task % cut_.count(), buffers_ + slot * buffer_floats_, body);
        });
  }

  template <class Body>
  void add_up_box(int64_t n, int64_t index, Real* buffer, Body&& body) const {
    const Box box = cut_.box(index);
    const Image input_grad = sampling_.input_grad[n];
    Sums sums;
    if constexpr (kInPlace) {
      sums = {input_grad, 0, 0};
      zero_box(input_grad, box);
    } else {
      const int64_t slices = box.slices.end - box.slices.begin, rows = box.rows.end - box.rows.begin;
      const int64_t width = axes_[0].size;
      std::fill_n(buffer, sampling_.channels * slices * rows * width, Real{0});
      sums = {{buffer, data_type_of<Real>, sampling_.channels, slices, rows, width, slices * rows * width,
               rows * width, width, 1},
              box.slices.begin,
              box.rows.begin};
    }
    const Task task = task_of(n, box, sums);
    lists_.for_each_run(cut_, n, index, kMostSamples, [&](const Samples& run) { body(task, run); });
    if constexpr (!kInPlace) {
      for (int64_t z = box.slices.begin; z < box.slices.end; ++z) {
        store_pixels(input_grad, 0, sampling_.channels, (z * axes_[1].size + box.rows.begin) * axes_[0].size,
                     (box.rows.end - box.rows.begin) * axes_[0].size, sums.at(z, box.rows.begin, 0),
                     sums.volume.channel_stride);
      }
    }
  }

  // The first voxel of the box, in one channel of the sums.
  static Real* box_of(const Task& task, int64_t c) {
    return task.sums.at(task.box.slices.begin, task.box.rows.begin, 0) + c * task.sums.volume.channel_stride;
  }

  static HWY_NOINLINE void find_in_volume(const Block<Real, 3>& block, size_t lane, int64_t count,
                                          const Axis* axes, const TapRows& rows, VoxelLines<Tag>& lines) {
    lines.find(block, lane, count, axes, rows, true);
  }

  // What the samples from `lane` on read in a channel.
  static HWY_INLINE void load_values(const Image& volume, const T* channel, const Block<Real, 3>& block,
                                     const VoxelLines<Tag>& lines, const TapRows& rows, size_t lane,
                                     int64_t count, V (&values)[kVoxelTaps]) {
    const Tag d;
    lines.is_found() ? lines.load(d, rows, channel + rows.begin, values)
                     : load_voxels(d, block, lane, count, volume, channel, values);
  }

  static HWY_INLINE void add_product(V factor, const Slopes<V, 3>& slopes, Slopes<V, 3>& sums) {
    for (int axis = 0; axis < 3; ++axis)
      sums.along[axis] = hn::MulAdd(factor, slopes.along[axis], sums.along[axis]);
  }

  // Adds terms[tap] of the samples from `lane` on to channel c of input_grad, as far as they fall into the box: sample
  // by sample.
  static HWY_NOINLINE void add_terms(const Task& task, int64_t c, const Block<Real, 3>& block, size_t lane,
                                     int64_t count, const V (&terms)[kVoxelTaps]) {
    const Tag d;
    alignas(64) Real stored[kVoxelTaps][hn::MaxLanes(Tag())];
    for (int k = 0; k < kVoxelTaps; ++k) hn::Store(terms[k], d, stored[k]);
    const Image& sums = task.sums.volume;
    for (size_t k = 0; k < hn::Lanes(d); ++k) {
      const size_t i = lane + k;
      if (i >= static_cast<size_t>(count)) return;
      const int64_t z = block.z().first[i], y = block.y().first[i], x = block.x().first[i];
      const bool is_inside = (block.interior >> i & 1) != 0 && z >= task.box.slices.begin &&
                             y >= task.box.rows.begin && z + kVolumeTaps <= task.box.slices.end &&
                             y + kVolumeTaps <= task.box.rows.end;
      if (HWY_LIKELY(is_inside)) {
        Real* first = task.sums.at(z, y, x) + c * sums.channel_stride;
        for (int tap = 0; tap < kVoxelTaps; ++tap) {
          const TapIndex<kVolumeTaps> at(tap);
          first[at.slice * sums.slice_stride + at.row * sums.row_stride + at.column * sums.column_stride] +=
              stored[tap][k];
        }
        continue;
      }
      for (int tap = 0; tap < kVoxelTaps; ++tap) {
        const TapIndex<kVolumeTaps> at(tap);
        if (!task.box.contains(z + at.slice, y + at.row) || x + at.column < 0 || x + at.column >= sums.width)
          continue;
        task.sums.at(z + at.slice, y + at.row, x + at.column)[c * sums.channel_stride] += stored[tap][k];
      }
    }
  }

  const Sampling& sampling_;
  const Axis* const axes_;
  const BoxCut finest_;  // what the workspace holds
  const BoxCut cut_;
  const int64_t buffer_floats_;
  const int64_t slots_;
  const SampleLists lists_;
  Real* const buffers_;  // [slots, buffer_floats]
};

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
