// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of three-dimensional grid sampling, vectorised over channels.
//
// Each task takes a box of slices and rows of a volume: it brings what its samples read into channels-last order, adds
// what the samples give to a channels-last buffer, and writes the box out. The box that has a sample's first slice and row
// also computes its grid_grad. The buffers of a box are small, so that the next one finds them in the cache.
#include "ops/grid_sampler/grad.h"
#include "ops/grid_sampler/kernel.h"
#include "ops/grid_sampler/volume.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/grad_3d_by_channels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/sample_lists-inl.h"
#include "ops/grid_sampler/voxels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

template <class T, int kTaps>
class Grad3DByChannels {
 public:
  using Group = VolumeGroup<float, kTaps>;

  Grad3DByChannels(const GridSampler3DBackward& problem, WorkspaceAllocator& allocator)
      : problem_(problem),
        axes_(problem, false),
        block_(channel_block(problem.channels)),
        layout_{problem.width, padded_channels(problem.channels)},
        packs_gradient_(!is_channels_last(problem, problem.grad_output_strides)),
        cut_(problem.depth, problem.height, BoxCut::Shape::compact,
             [&](const BoxCut& cut) { return are_too_large(cut); }),
        images_(std::clamp<int64_t>(kRoundBytes / (samples_of(problem) * 16), 1, problem.batch)),
        input_floats_(
            problem.wants_grid_grad ? layout_.floats(cut_.slices() + kTaps - 1, cut_.rows() + kTaps - 1) : 0),
        sums_floats_(problem.wants_input_grad
                         ? layout_.floats(cut_.slices() + 2 * (kTaps - 1), cut_.rows() + 2 * (kTaps - 1))
                         : 0),
        gradient_floats_(packs_gradient_ ? kBlock * layout_.channels : 0),
        slots_(std::min(most_slots(input_floats_ + sums_floats_), images_ * cut_.count())),
        lists_(problem, axes_, problem.wants_input_grad ? Listing::reached : Listing::owned, images_,
               cut_.count(), allocator),
        no_voxel_(allocator.take<float>(layout_.channels)),
        input_buffers_(allocator.take<float>(slots_ * input_floats_)),
        sums_buffers_(allocator.take<float>(slots_ * (sums_floats_ + layout_.channels))),
        gradient_buffers_(allocator.take<float>(slots_ * gradient_floats_)) {}

  void run() const {
    std::fill_n(no_voxel_, layout_.channels, 0.0f);
    visit_channel_block([&]<int kChannels>(std::integral_constant<int, kChannels>) {
      if constexpr (kTaps > 1) {
        if (problem_.wants_grid_grad)
          return problem_.wants_input_grad ? differentiate<kChannels, true, true>()
                                           : differentiate<kChannels, false, true>();
      }
      differentiate<kChannels, true, false>();
    });
  }

 private:
  static constexpr int64_t kRoundBytes = 32 << 20;

  // What a box works on.
  struct Task {
    int64_t n;
    Box box;
    Slab<const float> input;
    Slab<float> sums;  // the box, and kTaps - 1 slices and rows on either side for what falls out of it
    float* no_sum;     // to write where a tap is no voxel
    float* gradients;
  };

  bool are_too_large(const BoxCut& cut) const {
    constexpr int64_t kBoxBytes = 1 << 20;
    constexpr int64_t kEnoughBoxes = 16;
    return layout_.floats(cut.slices(), cut.rows()) * 4 > kBoxBytes ||
           problem_.batch * cut.count() < kEnoughBoxes;
  }

  template <class Function>
  void visit_channel_block(Function&& function) const {
    if (block_ == 4) return function(std::integral_constant<int, 4>());
    function(std::integral_constant<int, 16>());
  }

  template <int kChannels, bool kInput, bool kGrid>
  void differentiate() const {
    for (int64_t first = 0; first < problem_.batch; first += images_) {
      const int64_t images = std::min(images_, problem_.batch - first);
      const double nanoseconds =
          kernel_nanoseconds(problem_) * static_cast<double>(images) / static_cast<double>(problem_.batch);
      lists_.fill(cut_, first, images, 0.1 * nanoseconds);
      parallel_for_with_slots(images * cut_.count(), slots_, nanoseconds,
                              [&](int64_t task, int64_t slot) HWY_ATTR {
                                differentiate_box<kChannels, kInput, kGrid>(first, task / cut_.count(),
                                                                            task % cut_.count(), slot);
                              });
    }
  }

  template <int kChannels, bool kInput, bool kGrid>
  void differentiate_box(int64_t first_image, int64_t image, int64_t index, int64_t slot) const {
    const int64_t n = first_image + image;
    const Box box = cut_.box(index);
    Task task{n, box, {}, {}, nullptr, gradient_buffers_ + slot * gradient_floats_};
    if constexpr (kGrid) {
      task.input = pack_box<kTaps>(input_volume<T>(problem_, n), box, layout_, cut_.rows() + kTaps - 1,
                                   input_buffers_ + slot * input_floats_);
    }
    if constexpr (kInput) {
      const int64_t floats = sums_floats_ + layout_.channels;
      float* buffer = sums_buffers_ + slot * floats;
      std::memset(buffer, 0, static_cast<size_t>(floats) * sizeof(float));
      task.sums = layout_.slab(buffer, box.slices.begin - (kTaps - 1), box.rows.begin - (kTaps - 1),
                               cut_.rows() + 2 * (kTaps - 1));
      task.no_sum = buffer + sums_floats_;
    }
    lists_.for_each_block(cut_, image, index, [&](const SampleBlock& block) HWY_ATTR {
      differentiate_block<kChannels, kInput, kGrid>(task, block);
    });
    if constexpr (kInput) {
      const Volume<T> input_grad = input_grad_volume<T>(problem_, n);
      for (int64_t z = box.slices.begin; z < box.slices.end; ++z) {
        for (int64_t y = box.rows.begin; y < box.rows.end; ++y) {
          unpack_pixels(task.sums.at(z, y, 0), layout_.channels, input_grad.slice(z), y * problem_.width,
                        problem_.width);
        }
      }
    }
  }

  // Of 16 samples: the weights of their taps, and the products of their gradients with what the taps read.
  struct GroupTaps {
    alignas(64) float weight[kVoxelTaps<kTaps>][kBlock];
    alignas(64) float product[kTaps][kBlock][4];
  };

  template <int kChannels, bool kInput, bool kGrid>
  HWY_INLINE void differentiate_block(const Task& task, const SampleBlock& block) const {
    const FloatTag d;
    Group group;
    plan_block(grid_volume<T>(problem_, task.n), axes_, block, group);
    const uint32_t bits = (1u << block.count) - 1;
    const uint32_t owned = kGrid ? bits & samples_owned(group, axes_, task.box) : 0;
    const float* gradients[kBlock];
    pack_samples(grad_output_volume<T>(problem_, task.n), block, !packs_gradient_, layout_.channels,
                 task.gradients, gradients);
    GroupTaps taps;
    for (size_t lane = 0; lane < kBlock; lane += kLanes) {
      const auto weights = load_weights<FloatTag, kTaps>(d, group, lane);
      for (int k = 0; k < kVoxelTaps<kTaps>; ++k) {
        const TapIndex<kTaps> tap(k);
        hn::Store(weights.of(tap.slice, tap.row, tap.column), d, taps.weight[k] + lane);
      }
    }
    if (kGrid && owned != kAllSamples) std::memset(taps.product, 0, sizeof taps.product);
    for (int64_t i = 0; i < block.count; ++i) {
      if constexpr (kGrid) {
        if ((owned >> i & 1) != 0) {
          differentiate_sample<kChannels, kInput, true>(task, group, i, gradients[i], taps);
          continue;
        }
      }
      if constexpr (kInput) differentiate_sample<kChannels, true, false>(task, group, i, gradients[i], taps);
    }
    if constexpr (kGrid && kTaps == 2) {
      if (owned != 0) store_gradients(task.n, block, group, owned, taps);
    }
  }

  // The taps are worked on a slice at a time, so that weights and sums fit the registers.
  template <int kChannels, bool kInput, bool kGrid>
  HWY_INLINE void differentiate_sample(const Task& task, const Group& group, int64_t i,
                                       const float* gradients, GroupTaps& group_taps) const {
    using Set = TapSet<kTaps>;
    const int64_t y = group.y.first[i], x = group.x.first[i];
    for (int slice = 0; slice < kTaps; ++slice) {
      const int64_t z = group.z.first[i] + slice;
      Set taps;
      if (HWY_LIKELY(group.interior >> i & 1)) {
        for (int k = 0; k < Set::kCount; ++k) {
          if constexpr (kGrid) {
            taps.input[k] = task.input.at(z, y, x) + k / kTaps * task.input.row_stride +
                            k % kTaps * task.input.column_stride;
          }
          if constexpr (kInput) {
            taps.sums[k] = task.sums.at(z, y, x) + k / kTaps * task.sums.row_stride +
                           k % kTaps * task.sums.column_stride;
          }
        }
      } else {
        for (int k = 0; k < Set::kCount; ++k) {
          const int64_t row = y + k / kTaps, column = x + k % kTaps;
          const bool is_voxel = has_voxel(z, row, column);
          const bool adds = kInput && is_voxel && task.box.contains(z, row);
          taps.input[k] = kGrid && is_voxel ? task.input.at(z, row, column) : no_voxel_;
          taps.sums[k] = adds ? task.sums.at(z, row, column) : task.no_sum;
        }
      }
      const FourVector product = differentiate_taps<kChannels, kInput, kGrid>(
          taps, group_taps.weight[slice * Set::kCount] + i, gradients, layout_.channels);
      if constexpr (!kGrid) continue;
      hn::Store(product, FourTag(), group_taps.product[slice][i]);
      if (HWY_LIKELY(group.interior >> i & 1)) continue;
      for (int k = 0; k < Set::kCount; ++k) {  // infinity times zero is no zero
        if (!has_voxel(z, y + k / kTaps, x + k % kTaps)) group_taps.product[slice][i][k] = 0.0f;
      }
    }
  }

  bool has_voxel(int64_t z, int64_t y, int64_t x) const {
    return is_index(z, problem_.depth) && is_index(y, problem_.height) && is_index(x, problem_.width);
  }

  void store_gradients(int64_t n, const SampleBlock& block, const Group& group, uint32_t owned,
                       const GroupTaps& taps) const {
    const FloatTag d;
    alignas(64) float slopes[3][kBlock];
    for (size_t lane = 0; lane < kBlock; lane += kLanes) {
      FloatVector product[kTaps][4];
      for (int slice = 0; slice < kTaps; ++slice) {
        FloatVector* of = product[slice];
        hn::LoadInterleaved4(d, taps.product[slice][lane], of[0], of[1], of[2], of[3]);
      }
      const auto weights = load_weights<FloatTag, kTaps>(d, group, lane);
      const auto slope = trilinear_slopes(d, weights, [&](int slice, int row, int column) HWY_ATTR {
        return product[slice][row * kTaps + column];
      });
      hn::Store(hn::Mul(slope.x, hn::Load(d, group.x.scale + lane)), d, slopes[0] + lane);
      hn::Store(hn::Mul(slope.y, hn::Load(d, group.y.scale + lane)), d, slopes[1] + lane);
      hn::Store(hn::Mul(slope.z, hn::Load(d, group.z.scale + lane)), d, slopes[2] + lane);
    }
    store_grid_grad(grid_grad_volume<T>(problem_, n), block, owned, slopes);
  }

  const GridSampler3DBackward& problem_;
  const VolumeAxes axes_;
  const int64_t block_;
  const SlabLayout layout_;
  const bool packs_gradient_;  // or else it is read where it lies
  const BoxCut cut_;
  const int64_t images_;  // whose samples are listed together
  const int64_t input_floats_;
  const int64_t sums_floats_;
  const int64_t gradient_floats_;
  const int64_t slots_;  // boxes that are worked on at the same time, at most
  const SampleLists<T, kTaps> lists_;
  float* const no_voxel_;          // [channels], zeros to read where a tap is no voxel
  float* const input_buffers_;     // [slots, input_floats]
  float* const sums_buffers_;      // [slots, sums_floats + channels]
  float* const gradient_buffers_;  // [slots, gradient_floats]
};

template <class Function>
void visit_problem(const GridSampler3DBackward& problem, WorkspaceAllocator& allocator, Function&& function) {
  visit_float_type(problem.type, [&]<class T>(T) {
    visit_volume_taps(problem.interpolation,
                      [&](auto taps) { function(Grad3DByChannels<T, taps>(problem, allocator)); });
  });
}

void run_3d_by_channels(const GridSampler3DBackward& problem, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  visit_problem(problem, allocator, [](auto&& grad) { grad.run(); });
}

size_t size_3d_by_channels(const GridSampler3DBackward& problem) {
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

HWY_EXPORT(run_3d_by_channels);
HWY_EXPORT(size_3d_by_channels);

}  // namespace

void grad_by_channels(const GridSampler3DBackward& problem, void* workspace) {
  HWY_DYNAMIC_DISPATCH(run_3d_by_channels)(problem, workspace);
}

size_t grad_by_channels_workspace_size(const GridSampler3DBackward& problem) {
  return HWY_DYNAMIC_DISPATCH(size_3d_by_channels)(problem);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
