// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of three-dimensional grid sampling, vectorised over samples. float and double add up in input_grad itself;
// the 16-bit types in a buffer of floats for each box, which is rounded in the end.
#include "ops/grid_sampler/boxes.h"
#include "ops/grid_sampler/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/grad_3d_by_samples.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/voxels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

template <class T, int kTaps>
class Grad3DBySamples {
 public:
  using Real = RealOf<T>;
  using Tag = BlockTag<Real>;
  using V = hn::Vec<Tag>;

  Grad3DBySamples(const Sampling& sampling, WorkspaceAllocator& allocator)
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

  void run() const {
    if (!sampling_.wants_grid_grad) {
      differentiate<false>();
    } else if constexpr (kTaps > 1) {
      sampling_.wants_input_grad ? differentiate<true>() : differentiate_grid();
    }
  }

 private:
  static constexpr int kVoxelTaps = kTapsOfSample<kTaps, 3>;
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
    TapRows<kTaps> input_rows;
    TapRows<kTaps> sums_rows;
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
    Task task{n,
              sampling_.input[n],
              sampling_.output[n],
              sampling_.grid_grad[n],
              box,
              sums,
              TapRows<kTaps>(axes_, whole()),
              TapRows<kTaps>(axes_, box),
              VoxelLines<Tag, kTaps>::suit(axes_)};
    if (sampling_.wants_grid_grad) task.may_have_lines &= task.input.has_contiguous_channels();
    if (sampling_.wants_input_grad)
      task.may_have_lines &= sampling_.input_grad[n].has_contiguous_channels() || !kInPlace;
    return task;
  }

  Box whole() const { return {{0, axes_[2].size}, {0, axes_[1].size}}; }

  template <bool kGrid>
  void differentiate() const {
    const double nanoseconds = gradient_nanoseconds(sampling_);
    list_samples(sampling_, lists_, cut_, 0, sampling_.batch, 0.3 * nanoseconds);
    parallel_for_with_slots(sampling_.batch * cut_.count(), slots_, nanoseconds,
                            [&](int64_t task, int64_t slot) HWY_ATTR {
                              differentiate_box<kGrid>(task / cut_.count(), task % cut_.count(),
                                                       buffers_ + slot * buffer_floats_);
                            });
  }

  template <bool kGrid>
  void differentiate_box(int64_t n, int64_t index, Real* buffer) const {
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
    lists_.for_each_run(cut_, n, index, kMostSamples,
                        [&](const Samples& run) { differentiate_run<true, kGrid>(task, run); });
    if constexpr (!kInPlace) {
      for (int64_t z = box.slices.begin; z < box.slices.end; ++z) {
        store_pixels(input_grad, 0, sampling_.channels, (z * axes_[1].size + box.rows.begin) * axes_[0].size,
                     (box.rows.end - box.rows.begin) * axes_[0].size, sums.at(z, box.rows.begin, 0),
                     sums.volume.channel_stride);
      }
    }
  }

  void differentiate_grid() const {
    const int64_t chunks = divide_up(sampling_.samples, kMostSamples);
    parallel_for(sampling_.batch * chunks, gradient_nanoseconds(sampling_), [&](int64_t index) {
      const Task task = task_of(index / chunks, whole(), Sums{});
      const int64_t first = index % chunks * kMostSamples;
      differentiate_run<false, true>(task, Samples{first, std::min(kMostSamples, sampling_.samples - first)});
    });
  }

  // The first voxel of the box, in one channel of the sums.
  static Real* box_of(const Task& task, int64_t c) {
    return task.sums.at(task.box.slices.begin, task.box.rows.begin, 0) + c * task.sums.volume.channel_stride;
  }

  template <bool kInput, bool kGrid>
  void differentiate_run(const Task& task, const Samples& run) const {
    Block<Real, 3> blocks[kMostBlocks];
    prepare_blocks(sampling_, task.image, run, blocks);
    for (int64_t k = 0; k < run.count; k += kBlock)
      differentiate_block<kInput, kGrid>(task, run.part(k, kBlock), blocks[k / kBlock]);
  }

  template <bool kInput, bool kGrid>
  HWY_INLINE void differentiate_block(const Task& task, const Samples& samples,
                                      const Block<Real, 3>& block) const {
    const Tag d;
    const bool is_inside = has_all_taps<kTaps>(block, axes_, task.box);
    const uint32_t bits = (1u << samples.count) - 1;
    const uint32_t owned = !kGrid ? 0 : is_inside ? bits : bits & samples_owned(block, task.box);
    const TapRows<kTaps>& read_rows = is_inside ? task.sums_rows : task.input_rows;
    const SampleOffsets offsets(task.grad_output, samples);
    alignas(64) Real slopes[3][kBlock];
    for (size_t lane = 0; lane < static_cast<size_t>(samples.count); lane += hn::Lanes(d)) {
      const auto weights = load_weights<Tag, kTaps>(d, block, lane);
      VoxelLines<Tag, kTaps> in_box, in_volume;
      const VoxelLines<Tag, kTaps>& read = is_inside ? in_box : in_volume;
      if (task.may_have_lines) {
        in_box.find(block, lane, samples.count, axes_, task.sums_rows, is_inside);
        if (HWY_UNLIKELY(!is_inside && owned != 0))
          find_in_volume(block, lane, samples.count, axes_, task.input_rows, in_volume);
        if constexpr (kGrid) read.prefetch(read_rows, task.input.template channel<T>(0) + read_rows.begin);
        if constexpr (kInput) in_box.prefetch(task.sums_rows, box_of(task, 0));
      }
      Slopes<V, 3> sums{hn::Zero(d), hn::Zero(d), hn::Zero(d)};
      for (int64_t c = 0; c < sampling_.channels; ++c) {
        const T* gradients = task.grad_output.template channel<T>(c);
        const V gradient = load_samples(d, gradients, offsets, lane);
        if constexpr (kGrid && kTaps == 2) {
          if (owned != 0)
            add_slopes(task, c, block, read, read_rows, lane, samples.count, weights, gradient, sums);
        }
        if constexpr (kInput) {
          V terms[kVoxelTaps];
          unroll<kVoxelTaps>([&](auto k)
                                 HWY_ATTR { terms[k] = hn::Mul(weights.of(TapIndex<kTaps>(k)), gradient); });
          in_box.is_found() ? in_box.add(d, task.sums_rows, terms, box_of(task, c))
                            : add_terms(task, c, block, lane, samples.count, terms);
        }
      }
      if constexpr (kGrid) {
        const auto of_lanes = scaled(d, block, lane, sums);
        for (int axis = 0; axis < 3; ++axis) hn::Store(of_lanes.along[axis], d, slopes[axis] + lane);
      }
    }
    if constexpr (kGrid) store_grid_grad(task.grid_grad, samples, owned, slopes);
  }

  static HWY_NOINLINE void find_in_volume(const Block<Real, 3>& block, size_t lane, int64_t count,
                                          const Axis* axes, const TapRows<kTaps>& rows,
                                          VoxelLines<Tag, kTaps>& lines) {
    lines.find(block, lane, count, axes, rows, true);
  }

  // Adds what channel c gives to the derivatives by the places of the samples from `lane` on.
  static HWY_INLINE void add_slopes(const Task& task, int64_t c, const Block<Real, 3>& block,
                                    const VoxelLines<Tag, kTaps>& lines, const TapRows<kTaps>& rows,
                                    size_t lane, int64_t count, const TapWeights<Tag, kTaps, 3>& weights,
                                    V gradient, Slopes<V, 3>& sums) {
    const Tag d;
    const T* channel = task.input.template channel<T>(c);
    V values[kVoxelTaps];
    lines.is_found() ? lines.load(d, rows, channel + rows.begin, values)
                     : load_voxels<Tag, kTaps>(d, block, lane, count, task.input, channel, values);
    const auto slope = trilinear_slopes(d, weights, [&](int k) HWY_ATTR { return values[k]; });
    for (int axis = 0; axis < 3; ++axis)
      sums.along[axis] = hn::MulAdd(gradient, slope.along[axis], sums.along[axis]);
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
                             y >= task.box.rows.begin && z + kTaps <= task.box.slices.end &&
                             y + kTaps <= task.box.rows.end;
      if (HWY_LIKELY(is_inside)) {
        Real* first = task.sums.at(z, y, x) + c * sums.channel_stride;
        for (int tap = 0; tap < kVoxelTaps; ++tap) {
          const TapIndex<kTaps> at(tap);
          first[at.slice * sums.slice_stride + at.row * sums.row_stride + at.column * sums.column_stride] +=
              stored[tap][k];
        }
        continue;
      }
      for (int tap = 0; tap < kVoxelTaps; ++tap) {
        const TapIndex<kTaps> at(tap);
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

template <class Function>
void visit_problem(const Sampling& sampling, WorkspaceAllocator& allocator, Function&& function) {
  visit_element_type(sampling.type, [&]<class T>(T) {
    visit_taps_of<3>(sampling.interpolation,
                     [&](auto taps) { function(Grad3DBySamples<T, taps>(sampling, allocator)); });
  });
}

void run_volumes_by_samples(const Sampling& sampling, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  visit_problem(sampling, allocator, [](auto&& grad) { grad.run(); });
}

size_t size_of_volumes_by_samples(const Sampling& sampling) {
  WorkspaceAllocator allocator;
  visit_problem(sampling, allocator, [](auto&&) {});
  return allocator.size();
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_volumes_by_samples);
HWY_EXPORT(size_of_volumes_by_samples);

}  // namespace

void grad_volumes_by_samples(const Sampling& sampling, void* workspace) {
  HWY_DYNAMIC_DISPATCH(run_volumes_by_samples)(sampling, workspace);
}

size_t grad_volumes_by_samples_workspace_size(const Sampling& sampling) {
  return HWY_DYNAMIC_DISPATCH(size_of_volumes_by_samples)(sampling);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
