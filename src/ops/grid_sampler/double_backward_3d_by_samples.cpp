// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of the gradient of three-dimensional grid sampling, vectorised over samples.
#include "ops/grid_sampler/boxes.h"
#include "ops/grid_sampler/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/double_backward_3d_by_samples.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/double_backward-inl.h"
#include "ops/grid_sampler/volumes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

template <class T>
class DoubleBackward3DBySamples : private VolumesBySamples<T> {
  using Base = VolumesBySamples<T>;
  using Base::axes_;
  using Base::sampling_;
  using typename Base::Real;
  using typename Base::Tag;
  using typename Base::Task;
  using typename Base::V;

 public:
  DoubleBackward3DBySamples(const DoubleBackward& sampling, WorkspaceAllocator& allocator)
      : Base(sampling, allocator), second_(sampling) {}

  void run() const {
    this->for_each_run(double_backward_nanoseconds(second_),
                       [&](const Task& task, const Samples& run) { second_of_run(task, run); });
  }

 private:
  void second_of_run(const Task& task, const Samples& run) const {
    Block<Real, 3> blocks[kMostBlocks];
    prepare_blocks(sampling_, task.image, run, blocks);
    alignas(64) Real along[3][kMostSamples] = {};
    if (second_.has_grad_grad_grid) load_coordinates(second_.grad_grad_grid[task.image], run, along);
    for (int64_t k = 0; k < run.count; k += kBlock) {
      Tangents<Real, 3> tangents;
      const uint32_t reading = find_tangents<kVolumeTaps>(blocks[k / kBlock], axes_, along, k, tangents);
      second_of_block(task, run.part(k, kBlock), blocks[k / kBlock], tangents, reading);
    }
  }

  // `reading`: a bit for each sample that reads a voxel.
  void second_of_block(const Task& task, const Samples& samples, const Block<Real, 3>& block,
                       const Tangents<Real, 3>& tangents, uint32_t reading) const {
    const Tag d;
    const bool is_inside = has_all_taps(block, axes_, task.box);
    const uint32_t bits = (1u << samples.count) - 1;
    const uint32_t owned = is_inside ? bits : bits & samples_owned(block, task.box);
    const TapRows& read_rows = is_inside ? task.sums_rows : task.input_rows;
    const Image grad_grad_input = second_.grad_grad_input[task.image];
    const Image results = second_.grad_grad_output[task.image];
    const bool may_have_lines = task.may_have_lines &&
                                (!second_.has_grad_grad_grid || task.input.has_contiguous_channels()) &&
                                (!second_.has_grad_grad_input || grad_grad_input.has_contiguous_channels());
    const SampleOffsets from(task.grad_output, samples), to(results, samples);
    alignas(64) Real slopes[3][kBlock];
    for (size_t lane = 0; lane < static_cast<size_t>(samples.count); lane += hn::Lanes(d)) {
      const SampleCurves<Tag, kVolumeTaps, 3> curves(d, block, tangents, lane);
      VoxelLines<Tag> in_box, in_volume;
      const VoxelLines<Tag>& read = is_inside ? in_box : in_volume;
      if (may_have_lines) {
        in_box.find(block, lane, samples.count, axes_, task.sums_rows, is_inside);
        if (!is_inside && owned != 0)
          Base::find_in_volume(block, lane, samples.count, axes_, task.input_rows, in_volume);
      }
      const auto load_from = [&](const Image& volume, int64_t c, V(&values)[kVoxelTaps]) HWY_ATTR {
        Base::load_values(volume, volume.channel<T>(c), block, read, read_rows, lane, samples.count, values);
      };
      V weights_along[kVoxelTaps], values[kVoxelTaps];
      const auto value = [&](int k) HWY_ATTR { return values[k]; };
      unroll<kVoxelTaps>([&](auto k)
                             HWY_ATTR { weights_along[k] = curves.weight_along(TapIndex<kVolumeTaps>(k)); });
      Slopes<V, 3> sums{hn::Zero(d), hn::Zero(d), hn::Zero(d)};
      for (int64_t c = 0; c < sampling_.channels; ++c) {
        const V gradient = load_samples(d, task.grad_output.template channel<T>(c), from, lane);
        if (owned != 0) {
          // Infinity times zero is no zero.
          const V of_reading = hn::IfThenElseZero(mask_of(d, reading >> lane), gradient);
          V result = hn::Zero(d);
          if (second_.has_grad_grad_grid) {
            load_from(task.input, c, values);
            result = curves.along(trilinear_slopes(d, curves.weights(), value));
            Base::add_product(of_reading, curves.slopes_along(value), sums);
          }
          if (second_.has_grad_grad_input) {
            load_from(grad_grad_input, c, values);
            result = hn::Add(result, image_value(d, curves.weights(), value));
            Base::add_product(of_reading, trilinear_slopes(d, curves.weights(), value), sums);
          }
          if (second_.wants_grad_grad_output)
            store_owned(result, to, lane, owned, results.template channel<T>(c));
        }
        if (sampling_.wants_input_grad) {
          V terms[kVoxelTaps];
          unroll<kVoxelTaps>([&](auto k) HWY_ATTR { terms[k] = hn::Mul(weights_along[k], gradient); });
          in_box.is_found() ? in_box.add(d, task.sums_rows, terms, Base::box_of(task, c))
                            : Base::add_terms(task, c, block, lane, samples.count, terms);
        }
      }
      const auto of_lanes = scaled(d, block, lane, sums);
      for (int axis = 0; axis < 3; ++axis) hn::Store(of_lanes.along[axis], d, slopes[axis] + lane);
    }
    if (sampling_.wants_grid_grad) store_grid_grad(task.grid_grad, samples, owned, slopes);
  }

  // Writes those of the samples from `lane` on whose bits are set.
  static HWY_INLINE void store_owned(V v, const SampleOffsets& offsets, size_t lane, uint32_t owned,
                                     T* channel) {
    const Tag d;
    constexpr uint32_t kAll = (uint32_t{1} << hn::MaxLanes(Tag())) - 1;
    uint32_t bits = owned >> lane & kAll;
    if (offsets.are_contiguous && bits == kAll) return store_lanes(d, v, channel + offsets.at[0] + lane);
    alignas(64) T values[hn::MaxLanes(Tag())];
    store_lanes(d, v, values);
    for (; bits != 0; bits &= bits - 1) {
      const auto k = static_cast<size_t>(__builtin_ctz(bits)), i = lane + k;
      channel[offsets.are_contiguous ? offsets.at[0] + static_cast<int64_t>(i) : offsets.at[i]] = values[k];
    }
  }

  const DoubleBackward& second_;
};

void run_second_of_volumes(const DoubleBackward& sampling, void* workspace) {
  visit_element_type(sampling.type, [&]<class T>(T) {
    WorkspaceAllocator allocator(workspace);
    DoubleBackward3DBySamples<T>(sampling, allocator).run();
  });
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_second_of_volumes);

}  // namespace

void double_backward_of_volumes(const DoubleBackward& sampling, void* workspace) {
  HWY_DYNAMIC_DISPATCH(run_second_of_volumes)(sampling, workspace);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
