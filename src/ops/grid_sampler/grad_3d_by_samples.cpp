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
        lists_(problem, axes_, false, problem.batch, problem.wants_input_grad ? finest_.count() : 1,
               allocator),
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
    bool is_whole;   // the box is the volume
    bool has_lines;  // what is read and added to has rows of neighbours
  };

  // The fewer boxes, the fewer samples lie in two; one thread needs none.
  BoxCut cut_for(int64_t threads) const {
    constexpr int64_t kBoxesPerThread = 4;
    constexpr int64_t kLeastElements = 8192;  // of a box
    constexpr int64_t kBoxBytes = 1 << 20;
    const int64_t elements = problem_.channels * std::max(samples_of(problem_), pixels_of(problem_));
    int64_t wanted = threads == 1 ? 1 : divide_up(threads * kBoxesPerThread, problem_.batch);
    wanted = std::min(wanted, elements / kLeastElements);
    return {problem_.depth, problem_.height, [&](const BoxCut& cut) {
              return cut.count() < wanted || (!kInPlace && floats_of(cut) * 4 > kBoxBytes);
            }};
  }

  int64_t floats_of(const BoxCut& cut) const {
    return problem_.channels * std::min(cut.slices(), problem_.depth) *
           std::min(cut.rows(), problem_.height) * problem_.width;
  }

  Task task_of(int64_t n, const Box& box, const Sums& sums, bool is_whole) const {
    Task task{input_volume<T>(problem_, n),
              grad_output_volume<T>(problem_, n),
              grid_volume<T>(problem_, n),
              grid_grad_volume<T>(problem_, n),
              box,
              sums,
              is_whole,
              false};
    task.has_lines = (!problem_.wants_grid_grad || task.input.has_lines()) &&
                     (!problem_.wants_input_grad || sums.volume.column_stride == 1);
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
    const Task task = task_of(n, box, sums, cut_.count() == 1);
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
      const Task task = task_of(index / chunks, whole, Sums{}, true);
      const int64_t first = index % chunks * kMostSamples;
      Lists::for_each_block_between(first, std::min(first + kMostSamples, samples),
                                    [&](const SampleBlock& block)
                                        HWY_ATTR { differentiate_block<false, true>(task, block); });
    });
  }

  template <bool kInput, bool kGrid>
  HWY_INLINE void differentiate_block(const Task& task, const SampleBlock& block) const {
    const Tag d;
    Group group;
    plan_block(task.grid, axes_, block, group);
    const uint32_t bits = (1u << block.count) - 1;
    const uint32_t owned = !kGrid ? 0 : task.is_whole ? bits : bits & samples_owned(group, axes_, task.box);
    const SampleOffsets offsets = offsets_of(task.grad_output, block);
    VoxelLines<Real, kTaps> lines{};
    const bool has_lines = task.has_lines && lines.find(group, axes_);
    alignas(64) Real slopes[3][kBlock] = {};
    for (int64_t c = 0; c < problem_.channels; ++c) {
      alignas(64) Real gradients[kBlock];
      load_samples(task.grad_output.data + c * task.grad_output.channel_stride, offsets, gradients);
      if (has_lines) {
        for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
          lines.visit(lane, [&](const auto& of_lanes) HWY_ATTR {
            if constexpr (kGrid && kTaps == 2) {
              const T* channel = task.input.data + c * task.input.channel_stride;
              add_slopes(group, lane, gradients, slopes, [&](int slice, int row, int column) HWY_ATTR {
                return load_tap(d, of_lanes, task.input, channel, slice, row, column);
              });
            }
            if constexpr (kInput) add_lines(task, c, group, of_lanes, lane, gradients);
          });
        }
        continue;
      }
      if constexpr (kGrid && kTaps == 2) {
        if (owned != 0) add_slopes_of_voxels(task.input, c, group, gradients, slopes);
      }
      if constexpr (kInput) add_terms(task, c, group, bits, gradients);
    }
    if constexpr (kGrid) {
      for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
        const auto scale = [&](Real* slope, const Real* scales) HWY_ATTR {
          hn::Store(hn::Mul(hn::Load(d, slope + lane), hn::Load(d, scales + lane)), d, slope + lane);
        };
        scale(slopes[0], group.x.scale);
        scale(slopes[1], group.y.scale);
        scale(slopes[2], group.z.scale);
      }
      store_grid_grad(task.grid_grad, block, owned, slopes);
    }
  }

  // Adds what a channel gives to the derivatives by the places of the samples from `lane` on.
  template <class Value>
  static HWY_INLINE void add_slopes(const Group& group, size_t lane, const Real* gradients,
                                    Real (&slopes)[3][kBlock], Value&& value) {
    const Tag d;
    const auto slope = trilinear_slopes(d, load_weights<Tag, kTaps>(d, group, lane), value);
    const V gradient = hn::Load(d, gradients + lane);
    hn::Store(hn::MulAdd(gradient, slope.x, hn::Load(d, slopes[0] + lane)), d, slopes[0] + lane);
    hn::Store(hn::MulAdd(gradient, slope.y, hn::Load(d, slopes[1] + lane)), d, slopes[1] + lane);
    hn::Store(hn::MulAdd(gradient, slope.z, hn::Load(d, slopes[2] + lane)), d, slopes[2] + lane);
  }

  // The same for a whole block, wherever its samples lie.
  static HWY_INLINE void add_slopes_of_voxels(const Volume<const T>& input, int64_t c, const Group& group,
                                              const Real* gradients, Real (&slopes)[3][kBlock]) {
    const Tag d;
    alignas(64) T voxels[kVoxelTaps<kTaps>][kBlock];
    load_voxels<kTaps>(input, input.data + c * input.channel_stride, group, voxels);
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      add_slopes(group, lane, gradients, slopes, [&](int slice, int row, int column) HWY_ATTR {
        return load_lanes(d, voxels[(slice * kTaps + row) * kTaps + column] + lane);
      });
    }
  }

  // Adds to channel c of input_grad what samples in lines give to the box. A voxel of a line gets the right term of the
  // sample before its own, then the left one of its own.
  template <int kLines>
  static HWY_INLINE void add_lines(const Task& task, int64_t c, const Group& group,
                                   const Lines<Tag, kLines>& lines, size_t lane, const Real* gradients) {
    const Tag d;
    constexpr auto kLast = hn::MaxLanes(Tag()) - 1;
    const auto weights = load_weights<Tag, kTaps>(d, group, lane);
    for (int k = 0; k < kLines; ++k) {
      const Line<Tag>& line = lines.line[k];
      const int64_t z = line.row / task.input.height, y = line.row % task.input.height;
      const V gradient = lines.keep(k, hn::Load(d, gradients + lane));
      for (int slice = 0; slice < kTaps; ++slice) {
        for (int row = 0; row < kTaps; ++row) {
          if (!task.box.contains(z + slice, y + row)) continue;
          Real* to = task.sums.at(z + slice, y + row, line.column) + c * task.sums.volume.channel_stride;
          V sum = hn::LoadU(d, to);
          if constexpr (kTaps == 2) {
            sum = hn::Add(sum, previous_lanes(d, hn::Mul(weights.of(slice, row, 1), gradient)));
          }
          hn::StoreU(hn::Add(sum, hn::Mul(weights.of(slice, row, 0), gradient)), d, to);
          if (kTaps == 2 && line.has_last_sample) {
            const size_t last = lane + kLast;
            to[kLast + 1] += group.z.weight[slice][last] * group.y.weight[row][last] *
                             group.x.weight[kTaps - 1][last] * gradients[last];
          }
        }
      }
    }
  }

  // Adds to channel c of input_grad what the samples whose bits are set give to the box.
  static HWY_INLINE void add_terms(const Task& task, int64_t c, const Group& group, uint32_t bits,
                                   const Real* gradients) {
    const Tag d;
    alignas(64) Real terms[kVoxelTaps<kTaps>][kBlock];
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      const auto weights = load_weights<Tag, kTaps>(d, group, lane);
      const V gradient = hn::Load(d, gradients + lane);
      for (int k = 0; k < kVoxelTaps<kTaps>; ++k) {
        const TapIndex<kTaps> tap(k);
        hn::Store(hn::Mul(weights.of(tap.slice, tap.row, tap.column), gradient), d, terms[k] + lane);
      }
    }
    const Volume<Real>& sums = task.sums.volume;
    for (; bits != 0; bits &= bits - 1) {
      const auto i = static_cast<size_t>(__builtin_ctz(bits));
      const int64_t z = group.z.first[i], y = group.y.first[i], x = group.x.first[i];
      const bool is_inside = (group.interior >> i & 1) != 0 && z >= task.box.slices.begin &&
                             y >= task.box.rows.begin && z + kTaps <= task.box.slices.end &&
                             y + kTaps <= task.box.rows.end;
      if (HWY_LIKELY(is_inside)) {
        Real* first = task.sums.at(z, y, x) + c * sums.channel_stride;
        for (int k = 0; k < kVoxelTaps<kTaps>; ++k) {
          const TapIndex<kTaps> tap(k);
          first[tap.slice * sums.slice_stride + tap.row * sums.row_stride +
                tap.column * sums.column_stride] += terms[k][i];
        }
        continue;
      }
      for (int k = 0; k < kVoxelTaps<kTaps>; ++k) {
        const TapIndex<kTaps> tap(k);
        if (!task.box.contains(z + tap.slice, y + tap.row) || !is_index(x + tap.column, sums.width)) continue;
        task.sums.at(z + tap.slice, y + tap.row, x + tap.column)[c * sums.channel_stride] += terms[k][i];
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
