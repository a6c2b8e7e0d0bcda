// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of grid sampling, vectorised over samples.
//
// Each task takes a band of rows of an image and goes through the samples that have to do with it, 16 at a time: with
// vectors of neighbouring pixels where the samples lie in lines, else with gathers and one sum after the other, which
// gives the same bits, and so does grad_few_channels.cpp. float and double add up in input_grad itself; the 16-bit types in a buffer of floats, which is
// rounded in the end.
#include "ops/grid_sampler/grad_bands.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/grad_by_samples.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/lines-inl.h"
#include "ops/grid_sampler/samples-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

static_assert(kChunkSamples == kMostSamples);

// The last row that a sample of the block reads.
template <class Real>
HWY_INLINE int64_t last_row_of(const Block<Real>& block) {
  const IndexTag d;
  auto last_row = hn::Zero(d);
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
    last_row = hn::Max(last_row, hn::Load(d, block.rows().last + lane));
  }
  return hn::GetLane(hn::MaxOfLanes(d, last_row));
}

// The gradients of the samples from `lane` on, as grid_gradients() finds them, from products with the differences of
// 2 x 2 pixels: right minus left, above and below, then below minus above, left and right.
template <class D, class Difference>
HWY_INLINE Slopes<hn::Vec<D>> bilinear_gradients(D d, const Block<hn::TFromD<D>>& block, size_t lane,
                                                 Difference&& difference) {
  const auto weights = load_weights<D, 2>(d, block, lane);
  const auto x = hn::MulAdd(weights.y()[1], difference(1), hn::Mul(weights.y()[0], difference(0)));
  const auto y = hn::MulAdd(weights.x()[1], difference(3), hn::Mul(weights.x()[0], difference(2)));
  return scaled(d, block, lane, {x, y});
}

// A band of rows of one image.
struct Task {
  const Sampling& sampling;
  int64_t image;
  RowBand band;
  Sums sums;
  Image input;
  Image grad_output;
  Image grid_grad;
  bool gathers;  // from input
  bool outgrows_cache;
  bool is_contiguous;  // all that neighbouring samples read and add to, in the type of the arithmetic
};

template <class Real, int kTaps, bool kInput, bool kGrid>
class Differentiation {
 public:
  using Tag = BlockTag<Real>;
  using V = hn::Vec<Tag>;
  static constexpr bool kDifferences = kTaps == 2;
  // Channels whose sums are updated side by side, each waiting for its own.
  static constexpr int64_t kChannels = 4;
  static constexpr size_t kLast = hn::MaxLanes(Tag()) - 1;  // lane

  // Differentiates at the samples of a chunk, as far as they have to do with the band. Few channels at a time: so their
  // pixels stay in the cache from one block to the next.
  static void differentiate_chunk(Task& task, int64_t begin, int64_t samples, bool is_inside) {
    Block<Real> blocks[kMostBlocks];
    Work works[kMostBlocks];
    prepare_blocks(task.sampling, task.image, Samples{begin, samples}, blocks);
    const Work* works_end = works;
    for (int64_t first = 0; first < samples; first += kBlock) {
      works[first / kBlock].block = blocks + first / kBlock;
      prepare(task, begin + first, std::min<int64_t>(kBlock, samples - first), is_inside,
              works[first / kBlock]);
      ++works_end;
    }
    for (int64_t channel = 0; channel < task.input.channels; channel += kChannels) {
      const int64_t channels = std::min(kChannels, task.input.channels - channel);
      for (Work* work = works; work != works_end; ++work) {
        if (work->has_lines) {
          differentiate_lines(task, *work, channel, channels);
        } else if (kInput && (work->bits | work->owned) != 0) {
          differentiate_block(task, *work, channel, channel + channels);
        }
        if (task.outgrows_cache) prefetch(task, *work, channel, channels);
      }
    }
    // Without sums, whose order matters, where the pixels lie is found once for all channels.
    for (Work* work = works; !kInput && work != works_end; ++work) {
      if (!work->has_lines && work->owned != 0) differentiate_block(task, *work, 0, task.input.channels);
    }
    if constexpr (kGrid) {
      for (const Work* work = works; work != works_end; ++work) {
        if (work->owned != 0) store_gradients(task, *work);
      }
    }
  }

 private:
  // What the samples of a block have to do. products[tap][sample] are sums of grad_output times the pixel of the tap,
  // or, bilinear, times the differences of neighbouring pixels: those are exact where the products would cancel.
  struct Work {
    const Block<Real>* block;
    BlockLines<Tag, kTaps> lines;
    bool has_lines;
    int64_t first;  // sample
    int64_t count;
    uint32_t bits;   // of the samples that add to the band
    uint32_t owned;  // whose own gradients are wanted
    alignas(64) Real products[kTaps * kTaps][kBlock];
  };

  static HWY_INLINE void prepare(Task& task, int64_t first, int64_t count, bool is_inside, Work& work) {
    const Block<Real>& block = *work.block;
    work.first = first;
    work.count = count;
    const uint32_t all = (1u << count) - 1;
    const uint32_t bits = is_inside ? all : samples_of_band(block, count, task.band);
    work.bits = kInput ? bits : 0;
    work.owned = !kGrid ? 0 : is_inside ? all : bits & samples_owned(block, Box{{0, 1}, task.band});
    work.has_lines = false;
    if ((work.bits | work.owned) == 0) return;
    if constexpr (kInput) task.sums.zero_to(last_row_of(block));
    if constexpr (kGrid) {
      const Tag d;
      for (auto& of_tap : work.products) {
        for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) hn::Store(hn::Zero(d), d, of_tap + lane);
      }
    }
    if (kTaps == 4 || block.interior != kAllSamples) return;
    if (task.is_contiguous) work.has_lines = work.lines.find(block, task.input.width);
  }

  // Asks for what later blocks will be the first to read or to add to.
  static HWY_INLINE void prefetch(const Task& task, const Work& work, int64_t channel, int64_t channels) {
    constexpr int64_t kAhead = 4 * kMostSamples;
    const Block<Real>& block = *work.block;
    if (!work.has_lines) return;
    for (int64_t c = channel; c < channel + channels && task.is_contiguous; ++c)
      hwy::Prefetch(task.grad_output.channel<Real>(c) + work.first + kAhead);
    if constexpr (kGrid) prefetch_next_row<kTaps>(task.input, 0, channel, channels, block);
    if constexpr (kInput)
      prefetch_next_row<kTaps>(task.sums.rows, task.sums.first_row, channel, channels, block);
  }

  // ---- Here the arithmetic is.

  // Adds gradient * differences of the 2 x 2 pixels value(row, column), in the order of bilinear_gradients().
  template <class Value>
  static HWY_INLINE void add_differences(V gradient, V (&sums)[4], Value&& value) {
    const auto above_left = value(0, 0), above_right = value(0, 1);
    const auto below_left = value(1, 0), below_right = value(1, 1);
    sums[0] = hn::MulAdd(gradient, hn::Sub(above_right, above_left), sums[0]);
    sums[1] = hn::MulAdd(gradient, hn::Sub(below_right, below_left), sums[1]);
    sums[2] = hn::MulAdd(gradient, hn::Sub(below_left, above_left), sums[2]);
    sums[3] = hn::MulAdd(gradient, hn::Sub(below_right, above_right), sums[3]);
  }

  static HWY_INLINE void add_products(Work& work, size_t lane, const V (&sums)[4]) {
    const Tag d;
    for (int k = 0; k < 4; ++k) {
      Real* product = work.products[k] + lane;
      hn::Store(hn::Add(hn::Load(d, product), sums[k]), d, product);
    }
  }

  // Differentiates at the samples of a block by channels [first_channel, end_channel).
  static HWY_NOINLINE void differentiate_block(const Task& task, Work& work, int64_t first_channel,
                                               int64_t end_channel) {
    BlockPixels<Real, kTaps> pixels(*work.block, task.input, task.gathers, task.sampling.axes);
    for (int64_t channel = first_channel; channel < end_channel; channel += kChannels)
      differentiate_channels(task, work, pixels, channel, std::min(kChannels, end_channel - channel));
  }

  static HWY_INLINE void differentiate_channels(const Task& task, Work& work,
                                                BlockPixels<Real, kTaps>& pixels, int64_t first_channel,
                                                int64_t channels) {
    const Tag d;
    const Block<Real>& block = *work.block;
    const Real* from[kChannels];
    if constexpr (kGrid) pixels.find_channels(first_channel, channels, from);
    alignas(64) Real terms[kChannels][kTaps][kTaps][kBlock];
    alignas(64) Real gradients[kChannels][kBlock];
    load_block(task.grad_output, first_channel, channels, work.first, work.count, gradients);
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      const auto weights = load_weights<Tag, kTaps>(d, block, lane);
      if constexpr (kGrid && kDifferences) {
        V differences[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
        V values[kChannels][kTaps][kTaps];
        pixels.load_channels(from, channels, lane, values);
        for (int64_t c = 0; c < channels; ++c) {
          add_differences(hn::Load(d, gradients[c] + lane), differences,
                          [&](int row, int column) HWY_ATTR { return values[c][row][column]; });
        }
        add_products(work, lane, differences);
      }
      for (int row = 0; row < kTaps; ++row) {
        for (int column = 0; column < kTaps; ++column) {
          auto product = hn::Zero(d);
          for (int64_t c = 0; c < channels; ++c) {
            const auto gradient = hn::Load(d, gradients[c] + lane);
            if constexpr (kGrid && !kDifferences) {
              product = hn::MulAdd(gradient, pixels.gather_tap(from[c], row, column, lane), product);
            }
            if constexpr (kInput) {
              hn::Store(hn::Mul(weights.of(row, column), gradient), d, terms[c][row][column] + lane);
            }
          }
          if constexpr (kGrid && !kDifferences) {
            Real* total = work.products[row * kTaps + column] + lane;
            // Infinity times zero is no zero.
            product = hn::IfThenElseZero(pixels.is_pixel(row, column, lane), product);
            hn::Store(hn::Add(hn::Load(d, total), product), d, total);
          }
        }
      }
    }
    if constexpr (kInput) add_terms(task, work, first_channel, channels, terms);
  }

  // The same where the samples lie in lines.
  static HWY_INLINE void differentiate_lines(const Task& task, Work& work,
                                             [[maybe_unused]] int64_t first_channel,
                                             [[maybe_unused]] int64_t channels) {
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(Tag())) {
      work.lines.visit(lane, [&]([[maybe_unused]] const auto& lines) HWY_ATTR {
        if constexpr (kGrid && kDifferences) multiply_lines(task, work, lines, lane, first_channel, channels);
        if constexpr (kInput && kTaps <= 2) add_lines(task, work, lines, lane, first_channel, channels);
      });
    }
  }

  template <class SomeLines>
  static HWY_INLINE void multiply_lines(const Task& task, Work& work, const SomeLines& lines, size_t lane,
                                        int64_t first_channel, int64_t channels) {
    const Tag d;
    const Real* channel = task.input.channel<Real>(first_channel);
    const Real* gradients = task.grad_output.channel<Real>(first_channel) + work.first + lane;
    V differences[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (int64_t c = 0; c < channels; ++c) {
      add_differences(hn::LoadU(d, gradients), differences, [&](int row, int column) HWY_ATTR {
        return load_tap(d, lines, channel, task.input.row_stride, row, column);
      });
      channel += task.input.channel_stride;
      gradients += task.grad_output.channel_stride;
    }
    add_products(work, lane, differences);
  }

  // What the samples of lines add to the pixels, for each unit of grad_output: a pixel gets the right term of the sample
  // before its own, then the left one of its own.
  struct LineWeights {
    V left[kTaps];
    V right[kTaps];
    Real last_right[kTaps];

    HWY_INLINE LineWeights(const Block<Real>& block, size_t lane) {
      const Tag d;
      const auto weights = load_weights<Tag, kTaps>(d, block, lane);
      for (int row = 0; row < kTaps; ++row) {
        left[row] = weights.of(row, 0);
        right[row] = previous_lanes(d, weights.of(row, kTaps - 1));
        last_right[row] = block.y().weight[row][lane + kLast] * block.x().weight[kTaps - 1][lane + kLast];
      }
    }
  };

  template <class SomeLines>
  static HWY_INLINE void add_lines(const Task& task, const Work& work, const SomeLines& lines, size_t lane,
                                   int64_t first_channel, int64_t channels) {
    const Tag d;
    const Real* gradients = task.grad_output.channel<Real>(first_channel) + work.first + lane;
    const Image& rows = task.sums.rows;
    const LineWeights weights(*work.block, lane);
    for (int k = 0; k < lines.count; ++k) {
      const Line<Tag>& line = lines.line[k];
      bool has_row[kTaps];
      for (int row = 0; row < kTaps; ++row) has_row[row] = task.band.contains(line.row + row);
      Real* first_row = rows.channel<Real>(first_channel) + task.sums.offset(line.row, line.column);
      for (int64_t c = 0; c < channels; ++c, first_row += rows.channel_stride) {
        const Real* of_channel = gradients + c * task.grad_output.channel_stride;
        const V gradient = keep_line<Tag>(lines, k, hn::LoadU(d, of_channel));
        const V gradient_before = previous_lanes(d, gradient);
        for (int row = 0; row < kTaps; ++row) {
          if (!has_row[row]) continue;
          Real* to = first_row + row * rows.row_stride;
          V sum = hn::LoadU(d, to);
          if constexpr (kTaps == 2) sum = hn::Add(sum, hn::Mul(weights.right[row], gradient_before));
          hn::StoreU(hn::Add(sum, hn::Mul(weights.left[row], gradient)), d, to);
          if (kTaps == 2 && line.has_last_sample)
            to[kLast + 1] += weights.last_right[row] * of_channel[kLast];
        }
      }
    }
  }

  // Adds to input_grad what the samples that add to the band give to channels [first_channel, first_channel + channels).
  static void add_terms(const Task& task, const Work& work, int64_t first_channel, int64_t channels,
                        const Real (&terms)[kChannels][kTaps][kTaps][kBlock]) {
    const Block<Real>& block = *work.block;
    const RowBand band = task.band;
    const Sums& sums = task.sums;
    const int64_t channel_stride = sums.rows.channel_stride;
    const int64_t row_stride = sums.rows.row_stride;
    const int64_t column_stride = sums.rows.column_stride;
    for (uint32_t bits = work.bits; bits != 0; bits &= bits - 1) {
      const auto i = static_cast<size_t>(__builtin_ctz(bits));
      const int64_t first_row = block.y().first[i];
      Real* to = sums.rows.channel<Real>(first_channel);
      if ((block.interior >> i & 1) != 0 && first_row >= band.begin && first_row + kTaps <= band.end) {
        to += sums.offset(first_row, block.x().first[i]);
        for (int64_t c = 0; c < channels; ++c, to += channel_stride) {
          for (int row = 0; row < kTaps; ++row) {
            for (int column = 0; column < kTaps; ++column) {
              to[row * row_stride + column * column_stride] += terms[c][row][column][i];
            }
          }
        }
        continue;
      }
      const SampleTaps<kTaps> taps = sample_taps<kTaps>(block, i, task.sampling.axes);
      for (int64_t c = 0; c < channels; ++c, to += channel_stride) {
        for (int row = 0; row < kTaps; ++row) {
          if (!band.contains(taps.row[row])) continue;
          for (int column = 0; column < kTaps; ++column) {
            if (taps.column[column] < 0) continue;
            to[sums.offset(taps.row[row], taps.column[column])] += terms[c][row][column][i];
          }
        }
      }
    }
  }

  static void store_gradients(const Task& task, const Work& work) {
    const Tag d;
    alignas(64) Real of_samples[2][kBlock];
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      const auto slopes = [&]() HWY_ATTR {
        if constexpr (kDifferences) {
          return bilinear_gradients(d, *work.block, lane,
                                    [&](int k) HWY_ATTR { return hn::Load(d, work.products[k] + lane); });
        } else {
          return grid_gradients<kTaps>(d, *work.block, lane,
                                       [&](int k) HWY_ATTR { return hn::Load(d, work.products[k] + lane); });
        }
      }();
      for (int axis = 0; axis < 2; ++axis) hn::Store(slopes.along[axis], d, of_samples[axis] + lane);
    }
    store_grid_grad(task.grid_grad, Samples{work.first, work.count}, work.owned, of_samples);
  }
};

// Differentiates at `samples` samples of the task's image from the given one on, all of them inside of the band or not.
using DifferentiateChunk = void (*)(Task& task, int64_t begin, int64_t samples, bool is_inside);

template <class Real, int kTaps>
DifferentiateChunk choose_differentiate_chunk(const Sampling& sampling) {
  if constexpr (kTaps > 1) {
    if (sampling.wants_grid_grad) {
      return sampling.wants_input_grad ? Differentiation<Real, kTaps, true, true>::differentiate_chunk
                                       : Differentiation<Real, kTaps, false, true>::differentiate_chunk;
    }
  }
  return Differentiation<Real, kTaps, true, false>::differentiate_chunk;
}

DifferentiateChunk choose_differentiate_chunk(const Sampling& sampling) {
  DifferentiateChunk chosen = nullptr;
  visit_taps(sampling.interpolation, [&](auto taps) {
    chosen = sampling.type == DataType::float64 ? choose_differentiate_chunk<double, taps>(sampling)
                                                : choose_differentiate_chunk<float, taps>(sampling);
  });
  return chosen;
}

Task task_of(const Sampling& sampling, int64_t image, RowBand band, const Sums& sums) {
  Task task{sampling,
            image,
            band,
            sums,
            sampling.input[image],
            sampling.output[image],
            sampling.grid_grad[image],
            sampling.type == DataType::float64 ? can_gather<double>(sampling.input.first)
                                               : can_gather<float>(sampling.input.first),
            outgrows_cache(sampling),
            false};
  task.is_contiguous = size_of(sampling.type) != 2 && task.grad_output.has_contiguous_channels() &&
                       (!sampling.wants_grid_grad || task.input.column_stride == 1) &&
                       (!sampling.wants_input_grad || sums.rows.column_stride == 1);
  return task;
}

// Inline, or GCC 12 leaves the call out.
HWY_INLINE void prefetch_image(const Image& image, int64_t bytes) {
  const auto* from = static_cast<const std::byte*>(image.data);
  for (int64_t i = 0; i < bytes; i += 64) hwy::Prefetch(from + i);
}

// Small images are read and added to all over, which no hardware foresees: asks for the one after the given one as a
// whole, if most of it is needed and there is little else to do.
HWY_INLINE void prefetch_next_image(const Sampling& sampling, int64_t image) {
  constexpr int64_t kMostBytes = 32 << 10;
  const int64_t elements = sampling.channels * sampling.pixels;
  const int64_t bytes = elements * static_cast<int64_t>(size_of(sampling.type));
  const bool reads_most_lines = 4 * sampling.samples * sampling.channels >= bytes / 64;
  const bool waits = sampling.input.first.outgrows_caches || !sampling.wants_input_grad;
  if (image + 1 == sampling.batch || bytes > kMostBytes || !reads_most_lines || !waits) return;
  if (sampling.wants_grid_grad) prefetch_image(sampling.input[image + 1], bytes);
  if (sampling.wants_input_grad) prefetch_image(sampling.input_grad[image + 1], bytes);
}

void differentiate_band(const Sampling& sampling, const SamplesLayout& layout,
                        DifferentiateChunk differentiate, int64_t image, RowBand band, bool has_spans,
                        float* buffer) {
  Task task = task_of(sampling, image, band, layout.sums_of(sampling, image, band, buffer));
  if (band.begin == 0) prefetch_next_image(sampling, image);
  for (int64_t chunk = 0; chunk < layout.chunks; ++chunk) {
    const RowSpan span = has_spans ? layout.spans[image * layout.chunks + chunk] : RowSpan{0, 0};
    if (!span.meets(band)) continue;
    const int64_t first = chunk * kChunkSamples;
    differentiate(task, first, std::min(kChunkSamples, sampling.samples - first),
                  span.first >= band.begin && span.last < band.end);
  }
  task.sums.zero_to(band.end - 1);
  if (layout.adds_in_buffer) {
    const int64_t width = sampling.x_axis().size, count = (band.end - band.begin) * width;
    store_pixels(sampling.input_grad[image], 0, sampling.channels, band.begin * width, count, buffer, count);
  }
}

void run_by_samples(const Sampling& sampling, const SamplesLayout& layout) {
  const DifferentiateChunk differentiate = choose_differentiate_chunk(sampling);
  const double nanoseconds = gradient_nanoseconds(sampling);
  if (!sampling.wants_input_grad) {
    const RowBand all{0, sampling.y_axis().size};
    return parallel_for(sampling.batch * layout.chunks, nanoseconds, [&](int64_t index) {
      const int64_t image = index / layout.chunks, first = index % layout.chunks * kChunkSamples;
      if (first == 0) prefetch_next_image(sampling, image);
      Task task = task_of(sampling, image, all, Sums{});
      differentiate(task, first, std::min(kChunkSamples, sampling.samples - first), true);
    });
  }
  Bands bands = layout.bands_for(thread_count(), sampling);
  const bool has_spans = bands.count() > 1;
  if (has_spans) {
    find_spans(sampling, 0, sampling.batch, kChunkSamples, 0.2 * nanoseconds, layout.spans);
    bands = layout.bands_of_spans(bands, thread_count(), sampling);
  }
  for_each_band(bands, sampling.batch, nanoseconds, [&](int64_t image, int64_t band, int64_t slot) {
    float* buffer = layout.buffer(bands, slot);
    differentiate_band(sampling, layout, differentiate, image, bands.band(band), has_spans, buffer);
  });
}

}  // namespace
}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::grid_sampler {
namespace {

HWY_EXPORT(run_by_samples);

}  // namespace

size_t grad_by_samples_workspace_size(const Sampling& sampling) {
  if (sampling.axis_count == 3) return grad_volumes_by_samples_workspace_size(sampling);
  return size_of_workspace<SamplesLayout>(sampling);
}

void grad_by_samples(const Sampling& sampling, void* workspace) {
  if (sampling.axis_count == 3) return grad_volumes_by_samples(sampling, workspace);
  WorkspaceAllocator allocator(workspace);
  const SamplesLayout layout(sampling, allocator);
  HWY_DYNAMIC_DISPATCH(run_by_samples)(sampling, layout);
}

}  // namespace aclgrad::ops::grid_sampler

#endif
