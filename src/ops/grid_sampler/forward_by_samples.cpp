// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Grid sampling, forward, vectorised over samples: images and volumes are read where they lie. Of few channels nothing
// leaves the registers from coordinates to results; of more, what samples read is kept for a chunk of them.
#include <memory>
#include <utility>

#include "ops/grid_sampler/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/forward_by_samples.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/coordinates-inl.h"
#include "ops/grid_sampler/footprint-inl.h"
#include "ops/grid_sampler/scattered_footprint-inl.h"

#ifndef ACLGRAD_OPS_GRID_SAMPLER_FORWARD_BY_SAMPLES_
#define ACLGRAD_OPS_GRID_SAMPLER_FORWARD_BY_SAMPLES_
namespace aclgrad::ops::grid_sampler {

// Copies of the images of a round, which fit the cache together: planes of the type of the arithmetic.
struct Planes {
  bool are_transposed;  // of images whose columns lie in memory as rows do else
  Images copies;
  int64_t images;

  Planes(const Sampling& sampling, WorkspaceAllocator& allocator) {
    constexpr int64_t kCacheBytes = 1 << 20;
    const Image& input = sampling.input.first;
    const bool has_floats = input.type != DataType::float64;
    are_transposed = has_floats && input.row_stride == 1 && input.column_stride != 1;
    const int64_t row_stride = are_transposed ? padded_channels(input.width) : input.width;
    copies.first = as_planes(input, has_floats ? DataType::float32 : DataType::float64, row_stride, nullptr);
    copies.stride = input.channels * copies.first.channel_stride;
    const int64_t image_bytes = copies.stride * static_cast<int64_t>(size_of(copies.first.type));
    images = images_of_round(sampling, kCacheBytes, image_bytes);
    copies.first.data = allocator.take<std::byte>(images * image_bytes);
  }

  // The sampling of images [first, first + count), whose copies it reads.
  Sampling of_round(const Sampling& sampling, int64_t first, int64_t count) const {
    Sampling round = sampling;
    round.type = copies.first.type;
    round.batch = count;
    round.input = copies;
    round.grid.first = sampling.grid[first];
    round.output.first = sampling.output[first];
    round.has_plain_rows = has_plain_rows(copies.first);
    return round;
  }
};

}  // namespace aclgrad::ops::grid_sampler
#endif

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

// How the channels of a sample are gone through: a few at once, in registers; or one after the other for a chunk of
// samples; or a group after the other for a chunk, where pixels do not lie side by side in rows.
enum class Access { few, many, scattered };

template <class T, int kTaps, int kTogether, int kAxes, Access kAccess>
class ForwardBySamples {
 public:
  using Real = RealOf<T>;
  using D = BlockTag<Real>;
  using V = hn::Vec<D>;
  static constexpr int64_t kSamples = hn::MaxLanes(D());
  static constexpr int64_t kChunkSamples = 16 * kSamples;  // where they read stays in the first-level cache

  explicit ForwardBySamples(const Sampling& sampling)
      : pixels_(sampling.input.first, sampling.axes, sampling.goes_up),
        grid_(sampling.grid.first),
        input_(sampling.input.first),
        output_(sampling.output.first),
        ahead_samples_(ahead_samples(sampling)),
        prefetches_(outgrows_cache(sampling) && !sampling.in_strips),
        in_strips_(sampling.in_strips),
        has_plain_output_(output_.type == data_type_of<T> && output_.has_contiguous_channels()),
        has_interleaved_output_(kTogether > 1 && has_interleaved_rows(output_) && output_.is_flat()) {}

  // What is sampled from here on.
  void go_to(const Sampling& sampling, int64_t image) {
    input_.data = sampling.input[image].data;
    output_.data = sampling.output[image].data;
    grid_.go_to(sampling.grid[image]);
  }

  // Samples [first, end).
  void sample(int64_t first, int64_t end) {
    if constexpr (kAccess == Access::few) {
      sample_few_channels(first, end);
    } else {
      sample_chunks(first, end);
    }
  }

 private:
  // In a vector. Of more than half as many lines as samples, loads for each sample take less time; and to seek more than
  // two pays where many channels use them.
  static constexpr int kMaxLines = kAccess == Access::few ? 2 : std::max<int>(2, kSamples / 2);
  using Pixels = std::conditional_t<kAccess == Access::scattered,  //
                                    ScatteredFootprint<Real, kTaps, kTogether, kAxes>,
                                    Footprint<Real, kTaps, kTogether, kAxes, kMaxLines>>;
  using Taps = VectorTaps<D, kTaps>;
  using Weights = TapWeights<D, kTaps, kAxes>;
  static constexpr int kTapCount = kTapsOfSample<kTaps, kAxes>;
  static constexpr int64_t kGroup =
      kAccess == Access::scattered ? 4 : kTogether;  // channels that a vector goes through

  // Where a vector of samples reads, and how it weighs that.
  struct Found {
    Pixels pixels;
    alignas(V) Real weights[kTapCount][kSamples];
    Reach reach;
  };

  // values[c] becomes that of a channel: weight(k) is that of tap k.
  template <Reach kReach, class Weight>
  HWY_INLINE void interpolate(const Pixels& pixels, const T* from, const Weight& weight,
                              V (&values)[kTogether]) const {
    set_to_zero(values);
    // For interior samples sample_by_twos() does it: here it would take registers from the sums.
    if (kReach != Reach::interior && prefetches_) pixels.template prefetch_next_row<kReach>(from);
    for (int row = 0; row < Pixels::kRows; ++row) {
      V taps[kTaps * kTogether];
      if constexpr (kAccess == Access::few) {
        pixels.template load_row<kReach>(from, row, taps);
      } else {
        load_any_row<kReach>(pixels, from, row, taps);
      }
      for (int column = 0; column < kTaps; ++column) {
        const V of_tap = weight(row * kTaps + column);
        for (int c = 0; c < kTogether; ++c)
          values[c] = hn::MulAdd(of_tap, taps[column * kTogether + c], values[c]);
      }
    }
    for (V& value : values) value = hn::Add(value, hn::Zero(D()));  // products that vanish leave no sign
  }

  HWY_INLINE bool streams_to(const T* to) const {
    constexpr auto kVectorBytes = static_cast<uintptr_t>(kSamples) * sizeof(T);
    return output_.outgrows_caches && reinterpret_cast<uintptr_t>(to) % kVectorBytes == 0;
  }

  static HWY_INLINE void store_plain(V value, bool streams, T* to) {
    streams ? stream(value, to) : store(value, to);
  }

  // ---- Few channels: all in registers

  HWY_INLINE void sample_few_channels(int64_t begin, int64_t end) {
    Pixels pixels = pixels_;
    Weights weights;
    const int64_t last = end - begin < kSamples ? begin : end - kSamples;
    if (kTaps == 2 && end - begin >= 2 * kSamples) begin = sample_by_twos(begin, end, pixels, weights);
    for (; begin < end; begin += kSamples) {
      // The last vector may have samples of the one before. To bicubic interpolation of large images it costs more than it
      // saves small ones: `last` takes a register.
      if (kTaps == 2) begin = std::min(begin, last);
      const int64_t count = std::min(kSamples, end - begin);
      const Reach reach = find_vector(begin, count, pixels, weights);
      sample_vector(reach, pixels, weights, begin, count);
    }
  }

  // Two vectors are found before either is sampled: the processor, which looks some hundred instructions ahead, so waits
  // for the pixels of both at once. Returns where there are no two left.
  HWY_INLINE int64_t sample_by_twos(int64_t begin, int64_t end, Pixels& pixels, Weights& weights) {
    Pixels other_pixels = pixels_;
    Weights other_weights;
    for (; begin + 2 * kSamples <= end; begin += 2 * kSamples) {
      const int64_t other = begin + kSamples;
      const Reach reach = find_vector(begin, kSamples, pixels, weights);
      const Reach other_reach = find_vector(other, kSamples, other_pixels, other_weights);
      if (reach == Reach::interior && other_reach == Reach::interior) {
        if (ahead_samples_ == 0) {
          prefetch_next_row(pixels);
          prefetch_next_row(other_pixels);
        } else if (kTogether > 1 || pixels.is_in_rows(kSamples * 3 / 4)) {
          for (const int64_t first : {begin, other}) prefetch_ahead(first + ahead_samples_);
        }
      }
      sample_vector(reach, pixels, weights, begin, kSamples);
      sample_vector(other_reach, other_pixels, other_weights, other, kSamples);
    }
    return begin;
  }

  HWY_INLINE void prefetch_next_row(const Pixels& pixels) const {
    for (int64_t channel = 0; prefetches_ && channel < input_.channels; channel += kTogether)
      pixels.template prefetch_next_row<Reach::interior>(input_.channel<T>(channel));
  }

  // For which pixels are asked for while others are sampled; 0 if none are. In strips they lie some rows below. Of planes,
  // each of which takes requests of its own, the next row is asked for instead.
  static int64_t ahead_samples(const Sampling& sampling) {
    if (!is_far(sampling)) return 0;
    if (sampling.in_strips) return 4 * sampling.output.first.width;
    return kTogether > 1 ? 32 : 0;
  }

  // What turned or scattered samples read lies in an order that the processor does not foretell.
  HWY_INLINE void prefetch_ahead(int64_t first) const {
    if (kTogether == 1 && in_strips_) return prefetch_below(first);
    prefetch<1, Pixels::kRows>(first);
  }

  // In strips a few of the samples read what is new in all lines.
  HWY_NOINLINE void prefetch_below(int64_t first) const { prefetch<4, 1>(first); }

  template <int kStep, int kRows>
  HWY_INLINE void prefetch(int64_t first) const {
    V coordinates[kAxes];
    if (!grid_.look_ahead(first, coordinates)) return;
    alignas(64) OffsetOf<Real> offsets[kSamples];
    pixels_.find_near(coordinates, offsets);
    for (int64_t channel = 0; channel < input_.channels; channel += kTogether) {
      const T* from = input_.channel<T>(channel);
      for (int64_t k = 0; k < kSamples; k += kStep) {
        for (int row = 0; row < kRows; ++row) prefetch_for_later(from + offsets[k] + pixels_.step_to(row));
      }
    }
  }

  HWY_INLINE Reach find_vector(int64_t first, int64_t count, Pixels& pixels, Weights& weights) {
    V coordinates[kAxes];
    grid_.load(first, count, coordinates);
    Taps taps[kAxes];
    const bool may_be_pairs = true;
    const Reach reach = pixels.find(coordinates, taps, may_be_pairs);
    weights = weights_of(taps);
    return reach;
  }

  HWY_INLINE void sample_vector(Reach reach, const Pixels& pixels, const Weights& weights, int64_t first,
                                int64_t count) const {
    if constexpr (kTaps == 2) {
      if (reach == Reach::pairs) return sample_reach<Reach::pairs>(pixels, weights, first, count);
    }
    switch (reach) {
      case Reach::line:
        return sample_reach<Reach::line>(pixels, weights, first, count);
      case Reach::lines:
        return sample_reach<Reach::lines>(pixels, weights, first, count);
      case Reach::interior:
        return sample_reach<Reach::interior>(pixels, weights, first, count);
      case Reach::line_at_edge:
        return sample_reach<Reach::line_at_edge>(pixels, weights, first, count);
      case Reach::edge:
      case Reach::pairs:
        const Weights of_edge = weights;  // a copy, so that the others need no memory
        return sample_apart<Reach::edge>(pixels, of_edge, first, count);
    }
  }

  // Whether pixels are loaded as they lie in memory, instead of channel by channel.
  static constexpr bool has_whole_pixels(Reach reach) {
    if (kTogether == 1) return false;
    return reach == Reach::line || reach == Reach::lines || (kTogether == 4 && reach == Reach::interior);
  }

  template <Reach kReach>
  HWY_INLINE void sample_reach(const Pixels& pixels, const Weights& weights, int64_t first,
                               int64_t count) const {
    if constexpr (has_whole_pixels(kReach)) {
      if (HWY_LIKELY(count == kSamples && (has_plain_output_ || has_interleaved_output_)))
        return sample_pixels<kReach>(pixels, weights, first);
      const Weights of_others = weights;  // a copy, as above
      sample_apart<kReach>(pixels, of_others, first, count);
    } else {
      sample_channels<kReach>(pixels, weights, first, count);
    }
  }

  // Weights are brought to the elements of each pixel: that takes fewer steps than to bring the elements to their samples.
  template <Reach kReach>
  HWY_INLINE void sample_pixels(const Pixels& pixels, const Weights& weights, int64_t first) const {
    const D d;
    const T* from = input_.channel<T>(0);
    if (kReach != Reach::interior && prefetches_) pixels.template prefetch_next_row<kReach>(from);
    V values[kTogether];
    set_to_zero(values);
    for (int k = 0; k < kTapCount; ++k) {
      const TapIndex<kTaps> tap(k);
      const V weight = weights.of(tap);
      for (int i = 0; i < kTogether; ++i) {
        const V elements = load_tap<kReach>(pixels, from, tap, i);
        values[i] = hn::MulAdd(for_elements<kTogether>(d, weight, i), elements, values[i]);
      }
    }
    alignas(64) Real staged[kTogether * kSamples];
    Real* const elements = has_plain_output_ ? staged : output_.channel<Real>(0) + first * kTogether;
    for (int i = 0; i < kTogether; ++i)
      hn::StoreU(hn::Add(values[i], hn::Zero(d)), d, elements + i * kSamples);
    if (!has_plain_output_) return;
    load_interleaved(d, staged, values);
    store_channels(0, values, first);
  }

  // Vector k of the elements of the pixels that are this tap of samples, in the order of memory.
  template <Reach kReach>
  HWY_INLINE V load_tap(const Pixels& pixels, const T* from, TapIndex<kTaps> tap, int k) const {
    const D d;
    from += pixels.step_to(tap.slice * kTaps + tap.row) + tap.column * kTogether;
    if constexpr (kReach == Reach::interior) {
      return load_each<kTogether>(d, from, pixels.offsets() + k * kSamples / kTogether);
    } else {
      from += k * kSamples;
      const V elements = hn::LoadU(d, from + pixels.line());
      if constexpr (kReach == Reach::line) return elements;
      const V is_in_other = for_elements<kTogether>(d, hn::VecFromMask(d, pixels.is_in_other()), k);
      return hn::IfThenElse(hn::MaskFromVec(is_in_other), hn::LoadU(d, from + pixels.other_line()), elements);
    }
  }

  // For what is rare, so that the loop over samples stays short.
  template <Reach kReach>
  HWY_NOINLINE void sample_apart(const Pixels& pixels, const Weights& weights, int64_t first,
                                 int64_t count) const {
    sample_channels<kReach>(pixels, weights, first, count);
  }

  template <Reach kReach>
  HWY_INLINE void sample_channels(const Pixels& pixels, const Weights& weights, int64_t first,
                                  int64_t count) const {
    const D d;
    alignas(64) Real staged[kFewChannels][kSamples];
    const bool is_whole = count == kSamples;
    const T* from = input_.channel<T>(0);
    for (int64_t channel = 0; channel < input_.channels;
         channel += kTogether, from += input_.channel_stride) {
      V values[kTogether];
      if (kTogether > 1) load_again();
      interpolate<kReach>(
          pixels, from, [&](int k) HWY_ATTR { return weights.of(TapIndex<kTaps>(k)); }, values);
      if (HWY_LIKELY(is_whole && has_plain_output_)) {
        store_channels(channel, values, first);
      } else if (kTogether > 1 && is_whole && has_interleaved_output_) {
        store_interleaved(D(), values, output_.channel<Real>(0) + first * kTogether);
      } else {
        for (int c = 0; c < kTogether; ++c) hn::Store(values[c], d, staged[channel + c]);
      }
    }
    if (HWY_UNLIKELY(!is_whole || !(has_plain_output_ || has_interleaved_output_)))
      store_pixels(output_, 0, input_.channels, first, count, staged[0], kSamples);
  }

  HWY_INLINE void store_channels(int64_t channel, const V (&values)[kTogether], int64_t first) const {
    for (int c = 0; c < kTogether; ++c) {
      T* to = output_.channel<T>(channel + c) + first;
      store_plain(values[c], streams_to(to), to);
    }
  }

  // ---- Any number of channels: chunk by chunk of samples

  void sample_chunks(int64_t begin, int64_t end) {
    constexpr int64_t kChunkVectors = kChunkSamples / kSamples;
    alignas(Found) std::byte room[kChunkVectors * sizeof(Found)];
    auto* chunk = reinterpret_cast<Found*>(room);
    for (int64_t k = 0; k < std::min(kChunkVectors, divide_up(end - begin, kSamples)); ++k)
      std::construct_at(&chunk[k].pixels, pixels_);
    for_each_chunk<kSamples>(begin, end, kChunkSamples, [&](int64_t first, int64_t count) HWY_ATTR {
      find_chunk(first, count, chunk);
      for (int64_t channel = 0; channel < input_.channels; channel += kGroup)
        sample_chunk(chunk, first, count, channel, std::min(kGroup, input_.channels - channel));
    });
  }

  HWY_INLINE void find_chunk(int64_t begin, int64_t count, Found* chunk) {
    const D d;
    for (int64_t k = 0; k < count; k += kSamples, ++chunk) {
      V coordinates[kAxes];
      grid_.load(begin + k, std::min(kSamples, count - k), coordinates);
      Taps taps[kAxes];
      chunk->reach = chunk->pixels.find(coordinates, taps);
      const Weights weights = weights_of(taps);
      for (int tap = 0; tap < kTapCount; ++tap)
        hn::Store(weights.of(TapIndex<kTaps>(tap)), d, chunk->weights[tap]);
    }
  }

  HWY_NOINLINE void sample_chunk(const Found* chunk, int64_t begin, int64_t count, int64_t first_channel,
                                 int64_t channels) const {
    if constexpr (kGroup == kTogether) channels = kTogether;  // a constant
    alignas(64) Real staged[kGroup][kChunkSamples];
    const bool is_staged = !has_plain_output_ || count % kSamples != 0;
    const T* from = input_.channel<T>(first_channel);
    T* to = output_.channel<T>(first_channel) + begin;
    const bool streams = streams_to(to) && (channels == 1 || streams_to(to + output_.channel_stride));
    for (int64_t k = 0; k < count; k += kSamples, ++chunk) {
      for (int64_t channel = 0; channel < channels; channel += kTogether) {
        V values[kTogether];
        visit_reach<kAccess != Access::scattered>(chunk->reach, [&](auto reach) HWY_ATTR {
          const auto weight = [&](int tap) HWY_ATTR { return hn::Load(D(), chunk->weights[tap]); };
          interpolate<reach>(chunk->pixels, from + channel * input_.channel_stride, weight, values);
        });
        for (int c = 0; c < kTogether; ++c) {
          if (is_staged) {
            hn::Store(values[c], D(), staged[channel + c] + k);
          } else {
            store_plain(values[c], streams, to + (channel + c) * output_.channel_stride + k);
          }
        }
      }
    }
    if (is_staged) store_pixels(output_, first_channel, channels, begin, count, staged[0], kChunkSamples);
  }

  const Pixels pixels_;
  GridReader<Real, kAxes> grid_;
  Image input_;
  Image output_;
  const int64_t ahead_samples_;
  const bool prefetches_;
  const bool in_strips_;
  const bool has_plain_output_;
  const bool has_interleaved_output_;
};

template <class T, int kTaps, int kAxes>
void run_with_rows(const Sampling& sampling) {
  if constexpr (kTellsLayouts) {
    const Image& input = sampling.input.first;
    if constexpr (std::is_same_v<T, float>) {
      if (sampling.has_plain_rows && has_interleaved_rows(input)) {
        return visit_interleaved(sampling.channels, [&](auto channels) {
          sample_runs<ForwardBySamples<T, kTaps, channels, kAxes, Access::few>>(sampling);
        });
      }
    }
    if constexpr (!std::is_same_v<T, double>) {
      if (sampling.channels > kFewChannels && input.channel_stride == 1 && sampling.channels % 4 == 0)
        return sample_runs<ForwardBySamples<T, kTaps, 4, kAxes, Access::scattered>>(sampling);
    }
    if (has_few_channels(sampling))
      return sample_runs<ForwardBySamples<T, kTaps, 1, kAxes, Access::few>>(sampling);
    if (sampling.has_plain_rows)
      return sample_runs<ForwardBySamples<T, kTaps, 1, kAxes, Access::many>>(sampling);
  } else if constexpr (std::is_same_v<T, float>) {
    if (has_few_channels(sampling) && sampling.input.first.column_stride == 1)
      return sample_runs<ForwardBySamples<T, kTaps, 1, kAxes, Access::few>>(sampling);
  }
  sample_runs<ForwardBySamples<T, kTaps, 1, kAxes, Access::scattered>>(sampling);
}

void run_by_samples(const Sampling& sampling) {
  visit_element_type(sampling.type, [&]<class T>(T) {
    if (sampling.axis_count == 3) return run_with_rows<T, 2, 3>(sampling);
    sampling.interpolation == Interpolation::bicubic ? run_with_rows<T, 4, 2>(sampling)
                                                     : run_with_rows<T, 2, 2>(sampling);
  });
}

// ---- Of images whose pixels do not lie side by side in rows

// Its columns as the channels of pixels, which are the rows.
Image transposed(const Image& image, int64_t channel, int64_t slice) {
  Image columns = image.some_channels(channel, image.width);
  const int64_t offset = slice * image.slice_stride;
  columns.data = static_cast<std::byte*>(columns.data) + offset * static_cast<int64_t>(size_of(image.type));
  columns.channel_stride = image.column_stride;
  columns.depth = columns.height = 1;
  columns.width = image.height;
  columns.column_stride = 1;
  return columns;
}

void copy_transposed(const Image& from, const Image& to, int64_t channel) {
  float* rows = to.channel<float>(channel);
  for (int64_t slice = 0; slice < from.depth; ++slice)
    pack_pixels(transposed(from, channel, slice), 0, from.height, rows + slice * to.slice_stride,
                to.row_stride);
}

template <class Real>
void copy_pixels(const Image& from, const Image& to, int64_t first, int64_t count) {
  load_pixels(from, 0, from.channels, first, count, to.channel<Real>(0) + first, to.channel_stride);
}

void copy_images(const Sampling& sampling, const Planes& planes, int64_t first_image, int64_t images) {
  constexpr int64_t kRunPixels = 1024;
  const int64_t tasks = planes.are_transposed ? sampling.channels : divide_up(sampling.pixels, kRunPixels);
  const double nanoseconds = 0.5 * static_cast<double>(images * sampling.channels * sampling.pixels);
  parallel_for(images * tasks, nanoseconds, [&](int64_t task) {
    const int64_t image = task / tasks, part = task % tasks, first = part * kRunPixels;
    const Image from = sampling.input[first_image + image], to = planes.copies[image];
    if (planes.are_transposed) return copy_transposed(from, to, part);
    const int64_t count = std::min(kRunPixels, sampling.pixels - first);
    to.type == DataType::float64 ? copy_pixels<double>(from, to, first, count)
                                 : copy_pixels<float>(from, to, first, count);
  });
}

void run_by_samples_of_planes(const Sampling& sampling, const Planes& planes) {
  for_each_round(sampling, planes.images, [&](int64_t first, int64_t count) {
    copy_images(sampling, planes, first, count);
    run_by_samples(planes.of_round(sampling, first, count));
  });
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_by_samples);
HWY_EXPORT(run_by_samples_of_planes);

}  // namespace

void sample_by_samples(const Sampling& sampling, void*) {
  HWY_DYNAMIC_DISPATCH(run_by_samples)(sampling);
}

size_t sample_planes_workspace_size(const Sampling& sampling) {
  return size_of_workspace<Planes>(sampling);
}

void sample_planes(const Sampling& sampling, void* workspace) {
  WorkspaceAllocator allocator(workspace);
  HWY_DYNAMIC_DISPATCH(run_by_samples_of_planes)(sampling, Planes(sampling, allocator));
}

}  // namespace aclgrad::ops::grid_sampler

#endif
