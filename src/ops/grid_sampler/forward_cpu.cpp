// Grid sampling, forward, on the CPU: vectorised over channels or over samples, see layout.h.
#include "ops/grid_sampler/kernel.h"
#include "ops/grid_sampler/layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/forward_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/channels-inl.h"
#include "ops/grid_sampler/channels_last-inl.h"
#include "ops/grid_sampler/lines-inl.h"
#include "ops/grid_sampler/samples-inl.h"

#ifndef ACLGRAD_OPS_GRID_SAMPLER_2D_FORWARD_CPU_
#define ACLGRAD_OPS_GRID_SAMPLER_2D_FORWARD_CPU_
namespace aclgrad::ops::grid_sampler {

inline bool packs_input(const GridSampler2D& problem) {
  return vectorises_over_channels(problem) && !is_channels_last(problem, problem.input_strides);
}

// Images whose channels-last copies fit the cache together.
inline int64_t images_of_round(const GridSampler2D& problem) {
  constexpr int64_t kCacheBytes = 8 << 20;
  if (!packs_input(problem)) return problem.batch;
  return std::clamp<int64_t>(kCacheBytes / (pixels_of(problem) * padded_channels(problem) * 4), 1,
                             problem.batch);
}

}  // namespace aclgrad::ops::grid_sampler
#endif

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

template <class T, int kTaps>
class Forward {
 public:
  using Real = RealOf<T>;
  using Group = SampleGroup<Real, kTaps>;

  Forward(const GridSampler2D& problem, float* packed_input)
      : problem_(problem),
        packed_input_(packed_input),
        x_axis_(x_axis_of(problem, true)),
        y_axis_(y_axis_of(problem, true)),
        samples_(samples_of(problem)),
        chunks_(divide_up(samples_, kChunkSamples)),
        by_channels_(!vectorises_over_samples(problem)) {}

  void run() {
    const int64_t round = images_of_round(problem_);
    for (first_image_ = 0; first_image_ < problem_.batch; first_image_ += round) {
      const int64_t images = std::min(round, problem_.batch - first_image_);
      const double nanoseconds =
          kernel_nanoseconds(problem_) * static_cast<double>(images) / static_cast<double>(problem_.batch);
      if (by_channels_ && packs_input(problem_)) pack(images, 0.5 * nanoseconds);
      parallel_for(images * chunks_, nanoseconds,
                   [&](int64_t task) HWY_ATTR { sample_chunk(task / chunks_, task % chunks_); });
    }
  }

 private:
  // Everything below counts images within the current round.

  Image<const T> input_image(int64_t image) const {
    return image_of(static_cast<const T*>(problem_.input), problem_.input_strides, first_image_ + image,
                    problem_.channels, problem_.height, problem_.width);
  }

  Image<T> output_image(int64_t image) const {
    return image_of(static_cast<T*>(problem_.output), problem_.output_strides, first_image_ + image,
                    problem_.channels, problem_.output_height, problem_.output_width);
  }

  float* packed_image(int64_t image) const {
    return packed_input_ + image * pixels_of(problem_) * padded_channels(problem_);
  }

  void pack(int64_t images, double nanoseconds) const {
    if constexpr (!std::is_same_v<T, double>) {
      const int64_t pixels = pixels_of(problem_);
      const int64_t channels = padded_channels(problem_);
      const int64_t chunks = divide_up(pixels, kRunPixels);
      parallel_for(images * chunks, nanoseconds, [&](int64_t task) HWY_ATTR {
        const int64_t image = task / chunks;
        const int64_t first = task % chunks * kRunPixels;
        visit_channel_tag(channel_block(problem_), [&](auto d) HWY_ATTR {
          pack_pixels(d, input_image(image), first, std::min(kRunPixels, pixels - first),
                      packed_image(image) + first * channels, channels);
        });
      });
    }
  }

  Rows<const float> channels_last(int64_t image) const {
    if constexpr (std::is_same_v<T, float>) {
      const Image<const T> input = input_image(image);
      if (!packs_input(problem_)) return {input.data, 0, input.row_stride, input.column_stride};
    }
    const int64_t channels = padded_channels(problem_);
    return {packed_image(image), 0, problem_.width * channels, channels};
  }

  void sample_chunk(int64_t image, int64_t chunk) const {
    const auto grid = grid_of(static_cast<const T*>(problem_.grid), problem_.grid_strides,
                              first_image_ + image, problem_.output_height, problem_.output_width);
    const int64_t end = std::min(samples_, (chunk + 1) * kChunkSamples);
    for (int64_t first = chunk * kChunkSamples; first < end; first += kGroup) {
      const int64_t count = std::min<int64_t>(kGroup, end - first);
      Group group;
      plan_group(grid, x_axis_, y_axis_, first, count, group);
      if constexpr (!std::is_same_v<T, double>) {
        if (by_channels_) {
          compute_by_channels(image, group, first, count);
          continue;
        }
      }
      if (sample_lines(image, group, first)) continue;
      if (has_small_channels<Real>(input_image(image))) {
        compute_by_samples<OffsetOf<Real>>(image, group, first, count);
      } else {
        compute_by_samples<int64_t>(image, group, first, count);
      }
    }
  }

  void compute_by_channels(int64_t image, const Group& group, int64_t first, int64_t count) const {
    visit_channel_tag(channel_block(problem_), [&](auto d) HWY_ATTR {
      constexpr int64_t kPassChannels = 64;
      alignas(64) float tile[kGroup * kPassChannels];
      const Rows<const float> input = channels_last(image);
      Image<T> output = output_image(image);
      for (int64_t channel = 0; channel < problem_.channels; channel += kPassChannels) {
        output.channels = std::min(kPassChannels, problem_.channels - channel);
        for (int64_t k = 0; k < count; ++k) {
          sample_channels(d, input, x_axis_, y_axis_, group, static_cast<size_t>(k), channel, output.channels,
                          tile + k * kPassChannels);
        }
        unpack_pixels(d, tile, kPassChannels, output, first, count);
        output.data += output.channels * output.channel_stride;
      }
    });
  }

  // Computes the samples of a group if they lie in lines.
  bool sample_lines(int64_t image, const Group& group, int64_t first) const {
    using Tag = GroupTag<Real>;
    const Tag d;
    const Image<const T> input = input_image(image);
    const Image<T> output = output_image(image);
    if (group.interior != kAllSamples || input.column_stride != 1 || !output.has_contiguous_channels())
      return false;
    GroupLines<Tag, kTaps> lines;
    if (!lines.find(group, input.width)) return false;
    for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
      const auto weights = load_weights<Tag, kTaps>(d, group, lane);
      lines.visit(lane, [&](const auto& of_lanes) HWY_ATTR {
        for (int64_t c = 0; c < input.channels; ++c) {
          const T* channel = input.data + c * input.channel_stride;
          const auto value = image_value<kTaps>(d, weights, [&](int row, int column) HWY_ATTR {
            return of_lanes.load_tap(d, channel, input.row_stride, row, column);
          });
          store_lanes(d, value, output.data + c * output.channel_stride + first + lane);
        }
      });
    }
    return true;
  }

  template <class Offset>
  void compute_by_samples(int64_t image, const Group& group, int64_t first, int64_t count) const {
    const GroupTag<Real> d;
    const Image<const T> input = input_image(image);
    const Image<T> output = output_image(image);
    const GroupPixels<Real, kTaps, Offset> pixels(group, input, x_axis_, y_axis_);
    for (int64_t channel = 0; channel < problem_.channels; ++channel) {
      const T* from = input.data + channel * input.channel_stride;
      alignas(64) Real values[kGroup];
      for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
        const auto weights = load_weights<GroupTag<Real>, kTaps>(d, group, lane);
        const auto value = image_value<kTaps>(d, weights, [&](int row, int column) HWY_ATTR {
          return hn::IfThenElseZero(pixels.is_pixel(d, row, column, lane),
                                    pixels.gather_tap(d, from, row, column, lane));
        });
        hn::Store(value, d, values + lane);
      }
      store_pixels(output, output.data + channel * output.channel_stride, first, count, values);
    }
  }

  const GridSampler2D& problem_;
  float* packed_input_;  // of the images of a round
  const Axis x_axis_;
  const Axis y_axis_;
  const int64_t samples_;
  const int64_t chunks_;
  const bool by_channels_;
  int64_t first_image_ = 0;  // of the current round
};

void run_forward(const GridSampler2D& problem, void* workspace) {
  auto* packed_input = static_cast<float*>(workspace);
  visit_element_type(problem.type, [&]<class T>(T) {
    visit_taps(problem.interpolation, [&](auto taps) { Forward<T, taps>(problem, packed_input).run(); });
  });
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_forward);

// Whether there is nothing to write.
bool is_empty(const GridSampler2D& problem) {
  return problem.batch == 0 || problem.channels == 0 || samples_of(problem) == 0;
}

}  // namespace

size_t kernel_workspace_size(const GridSampler2D& problem) {
  if (is_empty(problem) || !packs_input(problem)) return 0;
  return static_cast<size_t>(images_of_round(problem) * pixels_of(problem) * padded_channels(problem)) *
         sizeof(float);
}

double kernel_nanoseconds(const GridSampler2D& problem) {
  const auto samples = static_cast<double>(problem.batch * samples_of(problem));
  const auto channels = static_cast<double>(problem.channels);
  const double taps = problem.interpolation == Interpolation::bicubic ? 16 : 4;
  if (!vectorises_over_channels(problem)) return samples * (3 + 0.5 * taps * channels);
  const auto pixels = static_cast<double>(problem.batch * pixels_of(problem));
  return samples * (3 + (0.3 + 0.05 * taps) * channels) + 0.3 * pixels * channels;
}

void run_kernel(const GridSampler2D& problem, void* workspace) {
  if (is_empty(problem)) return;
  HWY_DYNAMIC_DISPATCH(run_forward)(problem, workspace);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
