// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Three-dimensional grid sampling, forward, on the CPU: vectorised over channels or over samples, see volume.h.
#include "ops/grid_sampler/kernel.h"
#include "ops/grid_sampler/layout.h"
#include "ops/grid_sampler/volume.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/forward_3d_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/sample_lists-inl.h"
#include "ops/grid_sampler/voxels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

template <class T, int kTaps>
class Forward3D {
 public:
  using Real = RealOf<T>;
  using Group = VolumeGroup<Real, kTaps>;
  using Tag = BlockTag<Real>;

  Forward3D(const GridSampler3D& problem, WorkspaceAllocator& allocator)
      : problem_(problem),
        axes_(problem, true),
        by_channels_(vectorises_over_channels(problem)),
        block_(channel_block(problem.channels)),
        layout_{problem.width, padded_channels(problem.channels)},
        packs_(by_channels_ && !is_channels_last(problem, problem.input_strides)),
        cut_(problem.depth, problem.height, BoxCut::Shape::compact,
             [&](const BoxCut& cut) { return packs_ && are_too_large(cut); }),
        buffer_rows_(cut_.rows() + kTaps - 1),
        buffer_floats_(layout_.floats(cut_.slices() + kTaps - 1, buffer_rows_)),
        images_(std::clamp<int64_t>(kRoundBytes / (samples_of(problem) * 4), 1, problem.batch)),
        slots_(packs_ ? std::min(most_slots(buffer_floats_), images_ * cut_.count()) : 0),
        lists_(problem, axes_, Listing::owned, images_, packs_ ? cut_.count() : 1, allocator),
        buffers_(allocator.take<float>(slots_ * buffer_floats_)) {}

  void run() const {
    const double nanoseconds = kernel_nanoseconds(problem_);
    if (!packs_) {
      const int64_t samples = samples_of(problem_), chunks = divide_up(samples, kMostSamples);
      return parallel_for(problem_.batch * chunks, nanoseconds, [&](int64_t task) HWY_ATTR {
        const int64_t n = task / chunks, first = task % chunks * kMostSamples;
        const int64_t end = std::min(first + kMostSamples, samples);
        if (!by_channels_) return sample_by_samples(n, first, end);
        Lists::for_each_block_between(first, end,
                                      [&](const SampleBlock& block) HWY_ATTR { sample(n, block, {}); });
      });
    }
    for (int64_t first = 0; first < problem_.batch; first += images_) {
      const int64_t images = std::min(images_, problem_.batch - first);
      const double of_images =
          nanoseconds * static_cast<double>(images) / static_cast<double>(problem_.batch);
      lists_.fill(cut_, first, images, 0.2 * of_images);
      parallel_for_with_slots(
          images * cut_.count(), slots_, of_images, [&](int64_t task, int64_t slot) HWY_ATTR {
            const int64_t image = task / cut_.count(), box = task % cut_.count();
            const Slab<const float> input =
                pack(first + image, cut_.box(box), buffers_ + slot * buffer_floats_);
            lists_.for_each_block(cut_, image, box, [&](const SampleBlock& block) HWY_ATTR {
              sample(first + image, block, input);
            });
          });
    }
  }

 private:
  static constexpr int64_t kRoundBytes = 8 << 20;  // of lists
  using Lists = SampleLists<T, kTaps>;

  bool are_too_large(const BoxCut& cut) const {
    constexpr int64_t kBoxBytes = 512 << 10;
    constexpr int64_t kEnoughBoxes = 16;
    return layout_.floats(cut.slices(), cut.rows()) * 4 > kBoxBytes ||
           problem_.batch * cut.count() < kEnoughBoxes;
  }

  Slab<const float> pack(int64_t n, const Box& box, float* buffer) const {
    if constexpr (std::is_same_v<T, double>) {
      return {};
    } else {
      return pack_box<kTaps>(input_volume<T>(problem_, n), box, layout_, buffer_rows_, buffer);
    }
  }

  HWY_INLINE void sample(int64_t n, const SampleBlock& block, Slab<const float> input) const {
    if constexpr (!std::is_same_v<T, double>) {
      Group group;
      plan_block(grid_volume<T>(problem_, n), axes_, block, group);
      if constexpr (std::is_same_v<T, float>) {
        const Volume<const T> from = input_volume<T>(problem_, n);
        if (!packs_) input = {from.data, 0, 0, from.slice_stride, from.row_stride, from.column_stride};
      }
      const auto output = sampled_volume<T>(problem_, problem_.output, problem_.output_strides, n);
      visit_channel_tag(block_, [&](auto d) HWY_ATTR { sample_by_channels(d, input, block, group, output); });
    }
  }

  // At samples [begin, end) of a volume.
  void sample_by_samples(int64_t n, int64_t begin, int64_t end) const {
    const Volume<const T> input = input_volume<T>(problem_, n), grid = grid_volume<T>(problem_, n);
    const auto output = sampled_volume<T>(problem_, problem_.output, problem_.output_strides, n);
    const TapRows<kTaps> rows(axes_, Box{{0, problem_.depth}, {0, problem_.height}});
    const bool may_have_lines = input.is_dense() && VoxelLines<Tag, kTaps>::suit(axes_);
    Lists::for_each_block_between(begin, end, [&](const SampleBlock& samples) HWY_ATTR {
      const Tag d;
      Group group;
      plan_block(grid, axes_, samples, group);
      const SampleOffsets offsets = offsets_of(output, samples);
      for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
        VoxelLines<Tag, kTaps> lines;
        if (may_have_lines) lines.find(group, lane, samples.count, axes_, rows, true);
        lines.prefetch(rows, input.data);
        const auto weights = load_weights<Tag, kTaps>(d, group, lane);
        for (int64_t c = 0; c < problem_.channels; ++c) {
          const T* channel = input.data + c * input.channel_stride;
          hn::Vec<Tag> values[kVoxelTaps<kTaps>];
          lines.is_found() ? lines.load(d, rows, channel, values)
                           : load_voxels(d, group, lane, input, channel, values);
          store_samples(d, interpolated(d, weights, values), offsets, lane, samples.count,
                        output.data + c * output.channel_stride);
        }
      }
    });
  }

  template <class D>
  void sample_by_channels(D d, const Slab<const float>& input, const SampleBlock& block, const Group& group,
                          Volume<T> output) const {
    constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
    constexpr int64_t kPassChannels = 64;
    alignas(64) float tile[kBlock * kPassChannels];
    alignas(64) float weights[kVoxelTaps<kTaps>][kBlock];
    const FloatTag f;
    for (size_t lane = 0; lane < kBlock; lane += kLanes) {
      const auto of_lanes = load_weights<FloatTag, kTaps>(f, group, lane);
      for (int k = 0; k < kVoxelTaps<kTaps>; ++k) {
        const TapIndex<kTaps> tap(k);
        hn::Store(of_lanes.of(tap.slice, tap.row, tap.column), f, weights[k] + lane);
      }
    }
    for (int64_t first = 0; first < problem_.channels; first += kPassChannels) {
      const int64_t count = std::min(kPassChannels, problem_.channels - first);
      for (int64_t i = 0; i < block.count; ++i) {
        const int64_t z = group.z.first[i], y = group.y.first[i], x = group.x.first[i];
        const float* taps[kVoxelTaps<kTaps>];
        hn::Vec<D> weight[kVoxelTaps<kTaps>];
        int used = 0;
        for (int k = 0; k < kVoxelTaps<kTaps>; ++k) {
          const TapIndex<kTaps> tap(k);
          const bool is_voxel = (group.interior >> i & 1) != 0 || (is_index(z + tap.slice, problem_.depth) &&
                                                                   is_index(y + tap.row, problem_.height) &&
                                                                   is_index(x + tap.column, problem_.width));
          if (!is_voxel) continue;
          taps[used] = input.at(z + tap.slice, y + tap.row, x + tap.column) + first;
          weight[used++] = hn::Set(d, weights[k][i]);
        }
        for (int64_t c = 0; c < count; c += lanes) {
          auto sum = hn::Zero(d);
          for (int k = 0; k < used; ++k) sum = hn::MulAdd(weight[k], hn::LoadU(d, taps[k] + c), sum);
          hn::StoreU(sum, d, tile + i * kPassChannels + c);
        }
      }
      output.channels = count;
      for_each_run(output, block, [&](const Image& slice, int64_t pixel, int64_t k, int64_t pixels) HWY_ATTR {
        unpack_pixels(tile + k * kPassChannels, kPassChannels, slice, pixel, pixels);
      });
      output.data += count * output.channel_stride;
    }
  }

  const GridSampler3D& problem_;
  const VolumeAxes axes_;
  const bool by_channels_;
  const int64_t block_;
  const SlabLayout layout_;
  const bool packs_;
  const BoxCut cut_;
  const int64_t buffer_rows_;
  const int64_t buffer_floats_;
  const int64_t images_;  // whose samples are listed together
  const int64_t slots_;
  const Lists lists_;
  float* const buffers_;  // [slots, buffer_floats]
};

template <class Function>
void visit_problem(const GridSampler3D& problem, WorkspaceAllocator& allocator, Function&& function) {
  visit_element_type(problem.type, [&]<class T>(T) {
    visit_volume_taps(problem.interpolation,
                      [&](auto taps) { function(Forward3D<T, taps>(problem, allocator)); });
  });
}

void run_forward_3d(const GridSampler3D& problem, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  visit_problem(problem, allocator, [](auto&& forward) { forward.run(); });
}

size_t size_of_forward_3d(const GridSampler3D& problem) {
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

HWY_EXPORT(run_forward_3d);
HWY_EXPORT(size_of_forward_3d);

// Whether there is nothing to write.
bool is_empty(const GridSampler3D& problem) {
  return problem.batch == 0 || problem.channels == 0 || samples_of(problem) == 0;
}

}  // namespace

size_t kernel_workspace_size(const GridSampler3D& problem) {
  return is_empty(problem) ? 0 : HWY_DYNAMIC_DISPATCH(size_of_forward_3d)(problem);
}

double kernel_nanoseconds(const GridSampler3D& problem) {
  const auto samples = static_cast<double>(problem.batch * samples_of(problem));
  const auto channels = static_cast<double>(problem.channels);
  if (!vectorises_over_channels(problem)) return samples * (5 + 6 * channels);
  return samples * (10 + channels);
}

void run_kernel(const GridSampler3D& problem, void* workspace) {
  if (is_empty(problem)) return;
  HWY_DYNAMIC_DISPATCH(run_forward_3d)(problem, workspace);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
