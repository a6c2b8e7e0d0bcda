// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Grid sampling of few channels, forward, vectorised over samples: from coordinates to results nothing leaves the
// registers but the offsets of pixels.
#include "ops/grid_sampler/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/forward_few_channels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/footprint-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

constexpr int64_t kTaskSamples = 2048;

// Samples before the first one whose result begins a cache line.
int64_t samples_before_line(const Image& output) {
  const auto bytes = static_cast<int64_t>(size_of(output.type));
  const auto beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(output.data) % 64);
  return output.outgrows_caches && beyond % bytes == 0 ? (64 - beyond) % 64 / bytes : 0;
}

template <class T, int kTaps, int kTogether, int kAxes>
class Forward {
 public:
  using Real = RealOf<T>;
  using D = BlockTag<Real>;
  using V = hn::Vec<D>;
  static constexpr int64_t kSamples = hn::MaxLanes(D());

  Forward(const Sampling& sampling, int64_t image)
      : sampling_(sampling),
        input_(sampling.input[image]),
        grid_(sampling.grid[image]),
        output_(sampling.output[image]),
        reads_grid_(std::is_same_v<T, Real> && has_interleaved_coordinates(grid_)),
        prefetches_(outgrows_cache(sampling)),
        has_plain_output_(output_.type == data_type_of<T> && output_.has_contiguous_channels()),
        has_interleaved_output_(kTogether > 1 && has_interleaved_rows(output_) && output_.is_flat()) {}

  // Samples [first, end).
  void sample(int64_t first, int64_t end) const {
    const D d;
    alignas(64) Real staged[kAxes][kMostSamples];
    Pixels pixels(input_, sampling_.axes);
    for (int64_t k = 0; k < end - first; k += kSamples) {
      const int64_t count = std::min(kSamples, end - first - k);
      V coordinates[kAxes];
      if (HWY_LIKELY(reads_grid_ && count == kSamples)) {
        load_grid(grid_.channel<T>(0) + kAxes * (first + k), coordinates);
      } else {
        if (reads_grid_ || k % kMostSamples == 0)
          load_coordinates(grid_,
                           Samples{first + k, reads_grid_ ? count : std::min(kMostSamples, end - first - k)},
                           staged);
        const int64_t at = reads_grid_ ? 0 : k % kMostSamples;
        for (int axis = 0; axis < kAxes; ++axis) coordinates[axis] = hn::Load(d, staged[axis] + at);
      }
      sample_vector(pixels, coordinates, first + k, count);
    }
  }

 private:
  using Pixels = Footprint<T, kTaps, kTogether, kAxes>;
  using Taps = typename Pixels::Taps;

  static HWY_INLINE void load_grid([[maybe_unused]] const T* from, V (&to)[kAxes]) {
    if constexpr (!std::is_same_v<T, Real>) {
      for (V& coordinate : to) coordinate = hn::Zero(D());  // is not called, which a compiler may not see
    } else if constexpr (kAxes == 2) {
      hn::LoadInterleaved2(D(), from, to[0], to[1]);
    } else {
      hn::LoadInterleaved3(D(), from, to[0], to[1], to[2]);
    }
  }

  HWY_INLINE void sample_vector(Pixels& pixels, const V (&coordinates)[kAxes], int64_t first,
                                int64_t count) const {
    Taps taps[kAxes];
    const Reach reach = pixels.find(coordinates, taps);
    TapWeights<D, kTaps, kAxes> weights;
    for (int axis = 0; axis < kAxes; ++axis) std::copy_n(taps[axis].weight, kTaps, weights.along[axis]);
    switch (reach) {
      case Reach::line:
        return sample_channels<Reach::line>(pixels, weights, first, count);
      case Reach::two_lines:
        return sample_channels<Reach::two_lines>(pixels, weights, first, count);
      case Reach::interior:
        return sample_channels<Reach::interior>(pixels, weights, first, count);
      case Reach::line_at_edge:
        return sample_channels<Reach::line_at_edge>(pixels, weights, first, count);
      case Reach::edge:
        const TapWeights<D, kTaps, kAxes> of_edge = weights;  // a copy, so that the others need no memory
        return sample_edge(pixels, of_edge, first, count);
    }
  }

  HWY_NOINLINE void sample_edge(const Pixels& pixels, const TapWeights<D, kTaps, kAxes>& weights,
                                int64_t first, int64_t count) const {
    sample_channels<Reach::edge>(pixels, weights, first, count);
  }

  template <Reach kReach>
  HWY_INLINE void sample_channels(const Pixels& pixels, const TapWeights<D, kTaps, kAxes>& weights,
                                  int64_t first, int64_t count) const {
    const D d;
    alignas(64) Real staged[kFewChannels][kSamples];
    const bool is_whole = count == kSamples;
    const T* from = input_.channel<T>(0);
    for (int64_t channel = 0; channel < input_.channels; channel += kTogether) {
      V values[kTogether];
      for (V& value : values) value = hn::Zero(d);
      if (prefetches_) pixels.template prefetch_next_row<kReach>(from);
      for (int row = 0; row < Pixels::kRows; ++row) {
        V taps[kTaps * kTogether];
        pixels.template load_row<kReach>(from, row, taps);
        for (int column = 0; column < kTaps; ++column) {
          const V weight = weights.of(TapIndex<kTaps>(row * kTaps + column));
          for (int c = 0; c < kTogether; ++c)
            values[c] = hn::MulAdd(weight, taps[column * kTogether + c], values[c]);
        }
      }
      from += input_.channel_stride;
      if (HWY_LIKELY(is_whole && has_plain_output_)) {
        for (int c = 0; c < kTogether; ++c) store_plain(values[c], output_.channel<T>(channel + c) + first);
      } else if (kTogether > 1 && is_whole && has_interleaved_output_) {
        store_interleaved_values(values, first);
      } else {
        for (int c = 0; c < kTogether; ++c) hn::Store(values[c], d, staged[channel + c]);
      }
    }
    if (HWY_UNLIKELY(!is_whole || !(has_plain_output_ || has_interleaved_output_)))
      store_pixels(output_, 0, input_.channels, first, count, staged[0], kSamples);
  }

  HWY_INLINE void store_plain(V value, T* to) const {
    constexpr auto kVectorBytes = static_cast<uintptr_t>(kSamples) * sizeof(T);
    const bool streams = output_.outgrows_caches && reinterpret_cast<uintptr_t>(to) % kVectorBytes == 0;
    streams ? stream_lanes(D(), value, to) : store_lanes(D(), value, to);
  }

  HWY_INLINE void store_interleaved_values([[maybe_unused]] const V (&values)[kTogether],
                                           [[maybe_unused]] int64_t first) const {
    if constexpr (kTogether > 1)
      store_interleaved(D(), values, output_.channel<float>(0) + first * kTogether);
  }

  const Sampling& sampling_;
  const Image input_;
  const Image grid_;
  const Image output_;
  const bool reads_grid_;  // where its coordinates lie as vectors of them are loaded
  const bool prefetches_;
  const bool has_plain_output_;
  const bool has_interleaved_output_;
};

template <class T, int kTaps, int kTogether, int kAxes>
void run(const Sampling& sampling) {
  const int64_t lead = std::min(samples_before_line(sampling.output.first), sampling.samples);
  const int64_t tasks = divide_up(sampling.samples - lead, kTaskSamples) + (lead > 0);
  parallel_for(sampling.batch * tasks, forward_nanoseconds(sampling), [&](int64_t index) {
    const int64_t task = index % tasks - (lead > 0);
    const Forward<T, kTaps, kTogether, kAxes> forward(sampling, index / tasks);
    if (task < 0) return forward.sample(0, lead);
    const int64_t first = lead + task * kTaskSamples;
    forward.sample(first, std::min(first + kTaskSamples, sampling.samples));
  });
}

template <int kAxes>
void run_of(const Sampling& sampling) {
  visit_taps_of<kAxes>(sampling.interpolation, [&](auto taps) {
    visit_element_type(sampling.type, [&]<class T>(T) {
      if constexpr (std::is_same_v<T, float>) {
        if (has_interleaved_rows(sampling.input.first)) {
          return visit_interleaved(sampling.channels,
                                   [&](auto channels) { run<T, taps, channels, kAxes>(sampling); });
        }
      }
      run<T, taps, 1, kAxes>(sampling);
    });
  });
}

void run_few_channels(const Sampling& sampling) {
  sampling.axis_count == 3 ? run_of<3>(sampling) : run_of<2>(sampling);
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_few_channels);

}  // namespace

void sample_few_channels(const Sampling& sampling, void*) {
  HWY_DYNAMIC_DISPATCH(run_few_channels)(sampling);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
