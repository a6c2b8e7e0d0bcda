// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of three-dimensional grid sampling, vectorised over samples.
#include "ops/grid_sampler/boxes.h"
#include "ops/grid_sampler/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/grad_3d_by_samples.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/volumes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

template <class T>
class Grad3DBySamples : private VolumesBySamples<T> {
  using Base = VolumesBySamples<T>;
  using Base::axes_;
  using Base::sampling_;
  using typename Base::Real;
  using typename Base::Tag;
  using typename Base::Task;
  using typename Base::V;

 public:
  using Base::Base;

  void differentiate() const {
    if (!sampling_.wants_grid_grad) return differentiate_runs<true, false>();
    sampling_.wants_input_grad ? differentiate_runs<true, true>() : differentiate_runs<false, true>();
  }

 private:
  template <bool kInput, bool kGrid>
  void differentiate_runs() const {
    this->for_each_run(gradient_nanoseconds(sampling_), [&](const Task& task, const Samples& run) {
      differentiate_run<kInput, kGrid>(task, run);
    });
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
    const bool is_inside = has_all_taps(block, axes_, task.box);
    const uint32_t bits = (1u << samples.count) - 1;
    const uint32_t owned = !kGrid ? 0 : is_inside ? bits : bits & samples_owned(block, task.box);
    const TapRows& read_rows = is_inside ? task.sums_rows : task.input_rows;
    const SampleOffsets offsets(task.grad_output, samples);
    alignas(64) Real slopes[3][kBlock];
    for (size_t lane = 0; lane < static_cast<size_t>(samples.count); lane += hn::Lanes(d)) {
      const auto weights = load_weights<Tag, kVolumeTaps>(d, block, lane);
      VoxelLines<Tag> in_box, in_volume;
      const VoxelLines<Tag>& read = is_inside ? in_box : in_volume;
      if (task.may_have_lines) {
        in_box.find(block, lane, samples.count, axes_, task.sums_rows, is_inside);
        if (HWY_UNLIKELY(!is_inside && owned != 0))
          Base::find_in_volume(block, lane, samples.count, axes_, task.input_rows, in_volume);
        if constexpr (kGrid) read.prefetch(read_rows, task.input.template channel<T>(0) + read_rows.begin);
        if constexpr (kInput) in_box.prefetch(task.sums_rows, Base::box_of(task, 0));
      }
      Slopes<V, 3> sums{hn::Zero(d), hn::Zero(d), hn::Zero(d)};
      for (int64_t c = 0; c < sampling_.channels; ++c) {
        const T* gradients = task.grad_output.template channel<T>(c);
        const V gradient = load_samples(d, gradients, offsets, lane);
        if constexpr (kGrid) {
          if (owned != 0)
            add_slopes(task, c, block, read, read_rows, lane, samples.count, weights, gradient, sums);
        }
        if constexpr (kInput) {
          V terms[kVoxelTaps];
          unroll<kVoxelTaps>(
              [&](auto k) HWY_ATTR { terms[k] = hn::Mul(weights.of(TapIndex<kVolumeTaps>(k)), gradient); });
          in_box.is_found() ? in_box.add(d, task.sums_rows, terms, Base::box_of(task, c))
                            : Base::add_terms(task, c, block, lane, samples.count, terms);
        }
      }
      if constexpr (kGrid) {
        const auto of_lanes = scaled(d, block, lane, sums);
        for (int axis = 0; axis < 3; ++axis) hn::Store(of_lanes.along[axis], d, slopes[axis] + lane);
      }
    }
    if constexpr (kGrid) store_grid_grad(task.grid_grad, samples, owned, slopes);
  }

  // Adds what channel c gives to the derivatives by the places of the samples from `lane` on.
  static HWY_INLINE void add_slopes(const Task& task, int64_t c, const Block<Real, 3>& block,
                                    const VoxelLines<Tag>& lines, const TapRows& rows, size_t lane,
                                    int64_t count, const TapWeights<Tag, kVolumeTaps, 3>& weights, V gradient,
                                    Slopes<V, 3>& sums) {
    const Tag d;
    const T* channel = task.input.template channel<T>(c);
    V values[kVoxelTaps];
    Base::load_values(task.input, channel, block, lines, rows, lane, count, values);
    Base::add_product(gradient, trilinear_slopes(d, weights, [&](int k) HWY_ATTR { return values[k]; }),
                      sums);
  }
};

template <class Function>
void visit_problem(const Sampling& sampling, WorkspaceAllocator& allocator, Function&& function) {
  visit_element_type(sampling.type, [&]<class T>(T) { function(Grad3DBySamples<T>(sampling, allocator)); });
}

void run_volumes_by_samples(const Sampling& sampling, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  visit_problem(sampling, allocator, [](auto&& grad) { grad.differentiate(); });
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
