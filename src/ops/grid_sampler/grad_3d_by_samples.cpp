// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of three-dimensional grid sampling, vectorised over samples. float and double add up in input_grad itself;
// the 16-bit types in a buffer of floats for each box, which is rounded in the end.
#include "ops/grid_sampler/grad.h"
#include "ops/grid_sampler/kernel.h"
#include "ops/grid_sampler/layout.h"
#include "ops/grid_sampler/volume.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/grad_3d_by_samples.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/sample_lists-inl.h"
#include "ops/grid_sampler/voxels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

template <class T, int kTaps>
class Grad3DBySamples {
 public:
  using Real = RealOf<T>;
  using Group = VolumeGroup<Real, kTaps>;
  using Tag = BlockTag<Real>;
  using V = hn::Vec<Tag>;

  Grad3DBySamples(const GridSampler3DBackward& problem, WorkspaceAllocator& allocator)
      : problem_(problem),
        axes_(problem, false),
        finest_(cut_for(kMostThreads)),
        cut_(kInPlace ? cut_for(std::min<int64_t>(thread_count(), kMostThreads)) : finest_),
        buffer_floats_(kInPlace || !problem.wants_input_grad ? 0 : floats_of(finest_)),
        slots_(kInPlace ? problem.batch * finest_.count()
                        : std::min<int64_t>(kMostSlots, problem.batch * finest_.count())),
        lists_(problem, axes_, Listing::with_block, problem.batch,
               problem.wants_input_grad ? finest_.count() : 1, allocator),
        buffers_(allocator.take<Real>(slots_ * buffer_floats_)) {}

  void run() const {
    if (!problem_.wants_grid_grad) {
      differentiate<false>();
    } else if constexpr (kTaps > 1) {
      problem_.wants_input_grad ? differentiate<true>() : differentiate_grid();
    }
  }

 private:
  using Lists = SampleLists<T, kTaps>;
  static constexpr bool kInPlace = std::is_same_v<T, Real>;
  static constexpr int64_t kMostThreads = 16;  // for which there are enough boxes
  static constexpr int64_t kMostSlots = 16;

  // Sums of input_grad from one slice and row on.
  struct Sums {
    Volume<Real> volume;
    int64_t first_slice;
    int64_t first_row;

    Real* at(int64_t z, int64_t y, int64_t x) const {
      return volume.data + volume.offset(z - first_slice, y - first_row, x);
    }
  };

  // What the samples of a box have to do with.
  struct Task {
    Volume<const T> input;
    Volume<const T> grad_output;
    Volume<const T> grid;
    Volume<T> grid_grad;
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
    const int64_t elements = problem_.channels * std::max(samples_of(problem_), pixels_of(problem_));
    int64_t wanted = threads == 1 ? 1 : divide_up(threads * kBoxesPerThread, problem_.batch);
    wanted = std::min(wanted, elements / kLeastElements);
    return {problem_.depth, problem_.height, BoxCut::Shape::side_by_side, [&](const BoxCut& cut) {
              return cut.count() < wanted || (!kInPlace && floats_of(cut) * 4 > kBoxBytes);
            }};
  }

  int64_t floats_of(const BoxCut& cut) const {
    return problem_.channels * std::min(cut.slices(), problem_.depth) *
           std::min(cut.rows(), problem_.height) * problem_.width;
  }

  Task task_of(int64_t n, const Box& box, const Sums& sums) const {
    const Box whole{{0, problem_.depth}, {0, problem_.height}};
    Task task{input_volume<T>(problem_, n),
              grad_output_volume<T>(problem_, n),
              grid_volume<T>(problem_, n),
              grid_grad_volume<T>(problem_, n),
              box,
              sums,
              TapRows<kTaps>(axes_, whole),
              TapRows<kTaps>(axes_, box),
              VoxelLines<Tag, kTaps>::suit(axes_)};
    if (problem_.wants_grid_grad) task.may_have_lines &= task.input.is_dense();
    if (problem_.wants_input_grad)
      task.may_have_lines &= input_grad_volume<T>(problem_, n).is_dense() || !kInPlace;
    return task;
  }

  template <bool kGrid>
  void differentiate() const {
    const double nanoseconds = kernel_nanoseconds(problem_);
    lists_.fill(cut_, 0, problem_.batch, 0.3 * nanoseconds);
    parallel_for_with_slots(problem_.batch * cut_.count(), slots_, nanoseconds,
                            [&](int64_t task, int64_t slot) HWY_ATTR {
                              differentiate_box<kGrid>(task / cut_.count(), task % cut_.count(),
                                                       buffers_ + slot * buffer_floats_);
                            });
  }

  template <bool kGrid>
  void differentiate_box(int64_t n, int64_t index, Real* buffer) const {
    const Box box = cut_.box(index);
    const Volume<T> input_grad = input_grad_volume<T>(problem_, n);
    Sums sums;
    if constexpr (kInPlace) {
      sums = {input_grad, 0, 0};
      for (int64_t z = box.slices.begin; z < box.slices.end; ++z) zero_rows(input_grad.slice(z), box.rows);
    } else {
      const int64_t slices = box.slices.end - box.slices.begin, rows = box.rows.end - box.rows.begin;
      const int64_t width = problem_.width;
      std::fill_n(buffer, problem_.channels * slices * rows * width, Real{0});
      sums = {{buffer, problem_.channels, slices, rows, width, slices * rows * width, rows * width, width, 1},
              box.slices.begin,
              box.rows.begin};
    }
    const Task task = task_of(n, box, sums);
    lists_.for_each_block(cut_, n, index, [&](const SampleBlock& block) HWY_ATTR {
      differentiate_block<true, kGrid>(task, block);
    });
    if constexpr (!kInPlace) {
      for (int64_t c = 0; c < problem_.channels; ++c) {
        for (int64_t z = box.slices.begin; z < box.slices.end; ++z) {
          const Image slice = input_grad.slice(z);
          store_pixels(slice, c, 1, box.rows.begin * slice.width,
                       (box.rows.end - box.rows.begin) * slice.width,
                       sums.at(z, box.rows.begin, 0) + c * sums.volume.channel_stride, 0);
        }
      }
    }
  }

  void differentiate_grid() const {
    const int64_t samples = samples_of(problem_), chunks = divide_up(samples, kMostSamples);
    parallel_for(problem_.batch * chunks, kernel_nanoseconds(problem_), [&](int64_t index) HWY_ATTR {
      const Box whole{{0, problem_.depth}, {0, problem_.height}};
      const Task task = task_of(index / chunks, whole, Sums{});
      const int64_t first = index % chunks * kMostSamples;
      Lists::for_each_block_between(first, std::min(first + kMostSamples, samples),
                                    [&](const SampleBlock& block)
                                        HWY_ATTR { differentiate_block<false, true>(task, block); });
    });
  }

  // The first voxel of the box, in one channel of the sums.
  static Real* box_of(const Task& task, int64_t c) {
    return task.sums.at(task.box.slices.begin, task.box.rows.begin, 0) + c * task.sums.volume.channel_stride;
  }

  template <bool kInput, bool kGrid>
  HWY_INLINE void differentiate_block(const Task& task, const SampleBlock& samples) const {
    const Tag d;
    Group group;
    plan_block(task.grid, axes_, samples, group);
    const bool is_inside = has_all_taps<kTaps>(group, axes_, task.box);
    const uint32_t bits = (1u << samples.count) - 1;
    const uint32_t owned = !kGrid ? 0 : is_inside ? bits : bits & samples_owned(group, axes_, task.box);
    const TapRows<kTaps>& read_rows = is_inside ? task.sums_rows : task.input_rows;
    const SampleOffsets offsets = offsets_of(task.grad_output, samples);
    alignas(64) Real slopes[3][kBlock];
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      const auto weights = load_weights<Tag, kTaps>(d, group, lane);
      VoxelLines<Tag, kTaps> in_box, in_volume;
      const VoxelLines<Tag, kTaps>& read = is_inside ? in_box : in_volume;
      if (task.may_have_lines) {
        in_box.find(group, lane, samples.count, axes_, task.sums_rows, is_inside);
        if (HWY_UNLIKELY(!is_inside && owned != 0))
          find_in_volume(group, lane, samples.count, axes_, task.input_rows, in_volume);
        if constexpr (kGrid) read.prefetch(read_rows, task.input.data + read_rows.begin);
        if constexpr (kInput) in_box.prefetch(task.sums_rows, box_of(task, 0));
      }
      VolumeSlopes<V> sums{hn::Zero(d), hn::Zero(d), hn::Zero(d)};
      for (int64_t c = 0; c < problem_.channels; ++c) {
        const T* gradients = task.grad_output.data + c * task.grad_output.channel_stride;
        const V gradient = load_samples(d, gradients, offsets, lane);
        if constexpr (kGrid && kTaps == 2) {
          if (owned != 0) add_slopes(task, c, group, read, read_rows, lane, weights, gradient, sums);
        }
        if constexpr (kInput) {
          V terms[kVoxelTaps<kTaps>];
          unroll<kVoxelTaps<kTaps>>([&](auto k) HWY_ATTR {
            constexpr TapIndex<kTaps> tap(k);
            terms[k] = hn::Mul(weights.of(tap.slice, tap.row, tap.column), gradient);
          });
          in_box.is_found() ? in_box.add(d, task.sums_rows, terms, box_of(task, c))
                            : add_terms(task, c, group, lane, samples.count, terms);
        }
      }
      if constexpr (kGrid) {
        hn::Store(hn::Mul(sums.x, hn::Load(d, group.x.scale + lane)), d, slopes[0] + lane);
        hn::Store(hn::Mul(sums.y, hn::Load(d, group.y.scale + lane)), d, slopes[1] + lane);
        hn::Store(hn::Mul(sums.z, hn::Load(d, group.z.scale + lane)), d, slopes[2] + lane);
      }
    }
    if constexpr (kGrid) store_grid_grad(task.grid_grad, samples, owned, slopes);
  }

  static HWY_NOINLINE void find_in_volume(const Group& group, size_t lane, int64_t count,
                                          const VolumeAxes& axes, const TapRows<kTaps>& rows,
                                          VoxelLines<Tag, kTaps>& lines) {
    lines.find(group, lane, count, axes, rows, true);
  }

  // Adds what channel c gives to the derivatives by the places of the samples from `lane` on.
  static HWY_INLINE void add_slopes(const Task& task, int64_t c, const Group& group,
                                    const VoxelLines<Tag, kTaps>& lines, const TapRows<kTaps>& rows,
                                    size_t lane, const VolumeWeights<Tag, kTaps>& weights, V gradient,
                                    VolumeSlopes<V>& sums) {
    const Tag d;
    const T* channel = task.input.data + c * task.input.channel_stride;
    V values[kVoxelTaps<kTaps>];
    lines.is_found() ? lines.load(d, rows, channel + rows.begin, values)
                     : load_voxels(d, group, lane, task.input, channel, values);
    const auto slope = trilinear_slopes(d, weights, [&](int slice, int row, int column) HWY_ATTR {
      return values[(slice * kTaps + row) * kTaps + column];
    });
    sums.x = hn::MulAdd(gradient, slope.x, sums.x);
    sums.y = hn::MulAdd(gradient, slope.y, sums.y);
    sums.z = hn::MulAdd(gradient, slope.z, sums.z);
  }

  // Adds terms[tap] of the samples from `lane` on to channel c of input_grad, as far as they fall into the box: sample
  // by sample.
  static HWY_NOINLINE void add_terms(const Task& task, int64_t c, const Group& group, size_t lane,
                                     int64_t count, const V (&terms)[kVoxelTaps<kTaps>]) {
    const Tag d;
    alignas(64) Real stored[kVoxelTaps<kTaps>][hn::MaxLanes(Tag())];
    for (int k = 0; k < kVoxelTaps<kTaps>; ++k) hn::Store(terms[k], d, stored[k]);
    const Volume<Real>& sums = task.sums.volume;
    for (size_t k = 0; k < hn::Lanes(d); ++k) {
      const size_t i = lane + k;
      if (i >= static_cast<size_t>(count)) return;
      const int64_t z = group.z.first[i], y = group.y.first[i], x = group.x.first[i];
      const bool is_inside = (group.interior >> i & 1) != 0 && z >= task.box.slices.begin &&
                             y >= task.box.rows.begin && z + kTaps <= task.box.slices.end &&
                             y + kTaps <= task.box.rows.end;
      if (HWY_LIKELY(is_inside)) {
        Real* first = task.sums.at(z, y, x) + c * sums.channel_stride;
        for (int tap = 0; tap < kVoxelTaps<kTaps>; ++tap) {
          const TapIndex<kTaps> at(tap);
          first[at.slice * sums.slice_stride + at.row * sums.row_stride + at.column * sums.column_stride] +=
              stored[tap][k];
        }
        continue;
      }
      for (int tap = 0; tap < kVoxelTaps<kTaps>; ++tap) {
        const TapIndex<kTaps> at(tap);
        if (!task.box.contains(z + at.slice, y + at.row) || !is_index(x + at.column, sums.width)) continue;
        task.sums.at(z + at.slice, y + at.row, x + at.column)[c * sums.channel_stride] += stored[tap][k];
      }
    }
  }

  const GridSampler3DBackward& problem_;
  const VolumeAxes axes_;
  const BoxCut finest_;  // what the workspace holds
  const BoxCut cut_;
  const int64_t buffer_floats_;
  const int64_t slots_;
  const Lists lists_;
  Real* const buffers_;  // [slots, buffer_floats]
};

template <class Function>
void visit_problem(const GridSampler3DBackward& problem, WorkspaceAllocator& allocator, Function&& function) {
  visit_element_type(problem.type, [&]<class T>(T) {
    visit_volume_taps(problem.interpolation,
                      [&](auto taps) { function(Grad3DBySamples<T, taps>(problem, allocator)); });
  });
}

void run_3d_by_samples(const GridSampler3DBackward& problem, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  visit_problem(problem, allocator, [](auto&& grad) { grad.run(); });
}

size_t size_3d_by_samples(const GridSampler3DBackward& problem) {
  WorkspaceAllocator allocator;
  visit_problem(problem, allocator, [](auto&&) {});
  return allocator.size();
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_3d_by_samples);
HWY_EXPORT(size_3d_by_samples);

}  // namespace

void grad_by_samples(const GridSampler3DBackward& problem, void* workspace) {
  HWY_DYNAMIC_DISPATCH(run_3d_by_samples)(problem, workspace);
}

size_t grad_by_samples_workspace_size(const GridSampler3DBackward& problem) {
  return HWY_DYNAMIC_DISPATCH(size_3d_by_samples)(problem);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
