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

template <class T, int kTaps, int kTogether>
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
        reads_pairs_(std::is_same_v<T, Real> && has_interleaved_coordinates(grid_)),
        prefetches_(outgrows_cache(sampling)),
        has_plain_output_(output_.type == data_type_of<T> && output_.has_contiguous_channels()),
        has_interleaved_output_(kTogether > 1 && has_interleaved_rows(output_) && output_.is_flat()) {}

  // Samples [first, end).
  void sample(int64_t first, int64_t end) const {
    const D d;
    alignas(64) Real staged[2][kMostSamples];
    Pixels pixels(input_, sampling_.axes);
    const T* pairs = grid_.channel<T>(0);
    for (int64_t k = 0; k < end - first; k += kSamples) {
      const int64_t count = std::min(kSamples, end - first - k);
      V x, y;
      if (HWY_LIKELY(reads_pairs_ && count == kSamples)) {
        load_interleaved_pairs(pairs + 2 * (first + k), x, y);
      } else {
        if (reads_pairs_ || k % kMostSamples == 0)
          load_coordinates(grid_,
                           Samples{first + k, reads_pairs_ ? count : std::min(kMostSamples, end - first - k)},
                           staged);
        const int64_t at = reads_pairs_ ? 0 : k % kMostSamples;
        x = hn::Load(d, staged[0] + at);
        y = hn::Load(d, staged[1] + at);
      }
      sample_vector(pixels, x, y, first + k, count);
    }
  }

 private:
  using Pixels = Footprint<T, kTaps, kTogether>;

  static HWY_INLINE void load_interleaved_pairs([[maybe_unused]] const T* from, [[maybe_unused]] V& x,
                                                [[maybe_unused]] V& y) {
    if constexpr (std::is_same_v<T, Real>) hn::LoadInterleaved2(D(), from, x, y);
  }

  HWY_INLINE void sample_vector(Pixels& pixels, V x_coordinate, V y_coordinate, int64_t first,
                                int64_t count) const {
    VectorTaps<D, kTaps> x, y;
    switch (pixels.find(x_coordinate, y_coordinate, x, y)) {
      case Reach::line:
        return sample_channels<Reach::line>(pixels, x, y, first, count);
      case Reach::two_lines:
        return sample_channels<Reach::two_lines>(pixels, x, y, first, count);
      case Reach::interior:
        return sample_channels<Reach::interior>(pixels, x, y, first, count);
      case Reach::line_at_edge:
        return sample_channels<Reach::line_at_edge>(pixels, x, y, first, count);
      case Reach::edge:
        const VectorTaps<D, kTaps> x_of_edge = x, y_of_edge = y;  // copies, so that the others need no memory
        return sample_edge(pixels, x_of_edge, y_of_edge, first, count);
    }
  }

  HWY_NOINLINE void sample_edge(const Pixels& pixels, const VectorTaps<D, kTaps>& x,
                                const VectorTaps<D, kTaps>& y, int64_t first, int64_t count) const {
    sample_channels<Reach::edge>(pixels, x, y, first, count);
  }

  template <Reach kReach>
  HWY_INLINE void sample_channels(const Pixels& pixels, const VectorTaps<D, kTaps>& x,
                                  const VectorTaps<D, kTaps>& y, int64_t first, int64_t count) const {
    const D d;
    TapWeights<D, kTaps> weights;
    for (int k = 0; k < kTaps; ++k) weights.along[0][k] = x.weight[k], weights.along[1][k] = y.weight[k];
    alignas(64) Real staged[kFewChannels][kSamples];
    const bool is_whole = count == kSamples;
    const T* from = input_.channel<T>(0);
    for (int64_t channel = 0; channel < input_.channels; channel += kTogether) {
      V values[kTogether];
      for (V& value : values) value = hn::Zero(d);
      if ((kReach == Reach::line || kReach == Reach::two_lines) && prefetches_)
        pixels.prefetch_next_row(from);
      for (int row = 0; row < kTaps; ++row) {
        V taps[kTaps * kTogether];
        pixels.template load_row<kReach>(from, row, taps);
        for (int column = 0; column < kTaps; ++column) {
          const V weight = weights.of(row, column);
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
  const bool reads_pairs_;  // whose coordinates are loaded from the grid
  const bool prefetches_;
  const bool has_plain_output_;
  const bool has_interleaved_output_;
};

template <class T, int kTaps, int kTogether>
void run(const Sampling& sampling) {
  const int64_t lead = std::min(samples_before_line(sampling.output.first), sampling.samples);
  const int64_t tasks = divide_up(sampling.samples - lead, kTaskSamples) + (lead > 0);
  parallel_for(sampling.batch * tasks, forward_nanoseconds(sampling), [&](int64_t index) {
    const int64_t task = index % tasks - (lead > 0);
    const Forward<T, kTaps, kTogether> forward(sampling, index / tasks);
    if (task < 0) return forward.sample(0, lead);
    const int64_t first = lead + task * kTaskSamples;
    forward.sample(first, std::min(first + kTaskSamples, sampling.samples));
  });
}

template <class T, int kTaps>
void run_interleaved(const Sampling& sampling) {
  if constexpr (std::is_same_v<T, float>) {
    if (has_interleaved_rows(sampling.input.first))
      return visit_interleaved(sampling.channels, [&](auto channels) { run<T, kTaps, channels>(sampling); });
  }
  run<T, kTaps, 1>(sampling);
}

void run_few_channels(const Sampling& sampling) {
  visit_taps(sampling.interpolation, [&](auto taps) {
    visit_element_type(sampling.type, [&]<class T>(T) { run_interleaved<T, taps>(sampling); });
  });
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
