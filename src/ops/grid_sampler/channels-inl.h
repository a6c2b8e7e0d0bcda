// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The arithmetic of grid sampling vectorised over channels, on channels-last images of floats.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_CHANNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_CHANNELS_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_CHANNELS_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_CHANNELS_INL_H_
#endif

#include "ops/grid_sampler/double_backward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// A channels-last image, from a slice and a row on.
template <class Float>
struct Rows {
  Float* data = nullptr;
  int64_t first_slice = 0;
  int64_t first_row = 0;
  int64_t slice_stride = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 0;

  Float* at(int64_t slice, int64_t row, int64_t column) const {
    return at(row, column) + (slice - first_slice) * slice_stride;
  }
  Float* at(int64_t row, int64_t column) const {  // of images
    return data + (row - first_row) * row_stride + column * column_stride;
  }
};

// An image whose channels lie side by side already.
inline Rows<const float> rows_in_place(const Image& image) {
  return {image.channel<float>(0), 0, 0, image.slice_stride, image.row_stride, image.column_stride};
}

// A box in a buffer, with as much beside it as taps may reach: behind it, or before it, too.
inline Rows<float> buffer_rows(const BoxBuffers& buffers, const BoxCut& cut, const Box& box, int64_t sides,
                               float* buffer) {
  const int64_t before = (sides - 1) * (buffers.taps - 1);
  return {buffer,
          box.slices.begin - (buffers.has_slices ? before : 0),
          box.rows.begin - before,
          buffers.rows(cut, sides) * buffers.row_floats,
          buffers.row_floats,
          buffers.channels};
}

// Calls body(slice, first row, pixels) for rows of a box, together where they follow each other without a gap.
template <class Body>
void for_each_row(const BoxBuffers& buffers, const Box& box, Body&& body) {
  const bool has_gaps = buffers.row_floats != buffers.width * buffers.channels;
  const int64_t step = has_gaps ? 1 : box.rows.end - box.rows.begin;
  for (int64_t slice = box.slices.begin; slice < box.slices.end; ++slice) {
    for (int64_t row = box.rows.begin; row < box.rows.end; row += step)
      body(slice, row, step * buffers.width);
  }
}

// Brings what the samples of a box read into a buffer.
inline Rows<const float> pack_box(const Image& image, const BoxBuffers& buffers, const BoxCut& cut, Box box,
                                  float* buffer) {
  const Rows<float> rows = buffer_rows(buffers, cut, box, 1, buffer);
  if (buffers.has_slices) box.slices.end = std::min(box.slices.end + buffers.taps - 1, image.depth);
  box.rows.end = std::min(box.rows.end + buffers.taps - 1, image.height);
  for_each_row(buffers, box, [&](int64_t slice, int64_t row, int64_t pixels) {
    pack_pixels(image, (slice * image.height + row) * image.width, pixels, rows.at(slice, row, 0),
                buffers.channels);
  });
  return {buffer, rows.first_slice, rows.first_row, rows.slice_stride, rows.row_stride, rows.column_stride};
}

inline void unpack_box(const Rows<float>& rows, const BoxBuffers& buffers, const Box& box,
                       const Image& image) {
  for_each_row(buffers, box, [&](int64_t slice, int64_t row, int64_t pixels) {
    unpack_pixels(rows.at(slice, row, 0), buffers.channels, image, (slice * image.height + row) * image.width,
                  pixels);
  });
}

// Blocks of 16 channels, or of 4 where there are few. Sums over channels have as many lanes on every instruction set.
template <int kChannels>
struct ChannelBlock;

template <>
struct ChannelBlock<16> {
  using Tag = FloatTag;
  using Sum = Float16Lanes;
  static HWY_INLINE Sum zero() { return zero16(); }
  static HWY_INLINE FourVector to_4(const Sum& sum) { return sum16_to_4(sum); }
};

template <>
struct ChannelBlock<4> {
  using Tag = FourTag;
  struct Sum {
    FourVector part[1];
  };
  static HWY_INLINE Sum zero() { return {{hn::Zero(Tag())}}; }
  static HWY_INLINE FourVector to_4(const Sum& sum) { return sum.part[0]; }
};

// ---- Gradient, and its gradient

// What a sample reads: the input, and for the gradient's gradient grad_grad_input, too.
enum Source { kInput, kGradGradInput, kSources };

// What the samples of a box work on.
struct BoxTask {
  int64_t image;  // in the round
  Box box;
  const Axis* axes;
  int64_t channels;                     // in whole blocks
  Rows<const float> sources[kSources];  // what samples of the box read
  bool has_source[kSources];
  Rows<float>
      sums;  // of input_grad: the box, and a tap less than a sample has on each side for what falls out of it
  const float* no_pixel;  // zeros, to read where a tap is no pixel
  float* no_sum;          // to write where a tap is no pixel of the box
  float* run_gradients;   // room for those of a run of samples
  float* results;         // and for the results of a block
};

// 16 samples.
template <int kAxes>
struct BlockTask {
  const Block<float, kAxes>& block;
  uint32_t bits = 0;   // of those that are worked on
  uint32_t owned = 0;  // whose own results are wanted; those of the others are left without a meaning
  const float* gradients[kBlock];
  float* results[kBlock];                     // of the gradient's gradient
  alignas(64) float tangents[kAxes][kBlock];  // the same

  explicit BlockTask(const Block<float, kAxes>& samples) : block(samples) {}  // to clear arrays takes long
};

// Taps are worked on four at a time, so that weights and sums fit the registers: those of a row of bicubic
// interpolation, those of a slice of the others.
template <int kTaps, int kAxes>
struct TapSet {
  static constexpr int kCount = kTaps == 1 ? 1 : 4;
  static constexpr int kSets = kTapsOfSample<kTaps, kAxes> / kCount;

  const float* pixels[kCount];
  float* sums[kCount];
};

// What is done with a sample's taps, each of which has a weight.
template <bool sums, bool reads, bool results>
struct TapWork {
  static constexpr bool kSums = sums;        // adds weighted gradients to the sums
  static constexpr bool kReads = reads;      // multiplies gradients with pixels
  static constexpr bool kResults = results;  // adds weighted pixels to the result
};

// Adds to the sums of the taps what one sample gives, and returns the products of its gradient with their pixels. Its
// `result` becomes what it was `before`, plus the weighted pixels.
template <int kChannels, class Work, class Taps>
HWY_INLINE FourVector visit_taps_of_sample(const Taps& taps, const float* weights, const float* gradients,
                                           const float* before, float* result, int64_t channels) {
  using Channels = ChannelBlock<kChannels>;
  using Tag = typename Channels::Tag;
  const Tag d;
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(Tag()));
  hn::Vec<Tag> weight[Taps::kCount];
  typename Channels::Sum product[Taps::kCount];
  for (int k = 0; k < Taps::kCount; ++k) {
    weight[k] = hn::Set(d, weights[k * kBlock]);
    product[k] = Channels::zero();
  }
  for (int64_t first = 0; first < channels; first += kChannels) {
    for (int64_t part = 0; part < kChannels / lanes; ++part) {
      const int64_t channel = first + part * lanes;
      const auto gradient = hn::LoadU(d, gradients + channel);
      [[maybe_unused]] auto value = hn::Zero(d);
      if constexpr (Work::kResults) value = hn::LoadU(d, before + channel);
      for (int k = 0; k < Taps::kCount; ++k) {
        if constexpr (Work::kReads) {
          const auto pixel = hn::LoadU(d, taps.pixels[k] + channel);
          auto& sum = product[k].part[part];
          sum = hn::MulAdd(gradient, pixel, sum);
          if constexpr (Work::kResults) value = hn::MulAdd(weight[k], pixel, value);
        }
        if constexpr (Work::kSums) {
          float* at = taps.sums[k] + channel;
          hn::StoreU(hn::MulAdd(weight[k], gradient, hn::LoadU(d, at)), d, at);
        }
      }
      if constexpr (Work::kResults) hn::StoreU(value, d, result + channel);
    }
  }
  if constexpr (!Work::kReads) {
    return hn::Zero(FourTag());
  } else {
    return sum4(Channels::to_4(product[0]), Channels::to_4(product[1]), Channels::to_4(product[2]),
                Channels::to_4(product[3]));
  }
}

// Of 16 samples: for each source the weights of the taps, and what visit_taps_of_sample returns.
template <int kTaps, int kAxes, int kCount>
struct BlockTaps {
  alignas(64) float weight[kCount][kTapsOfSample<kTaps, kAxes>][kBlock];
  alignas(64) float product[kCount][TapSet<kTaps, kAxes>::kSets][kBlock][4];
};

// The taps of a sample from the given one on, whose pixels lie next to each other.
template <int kTaps, class Float, int kAxes, size_t kCount>
HWY_INLINE void find_neighbours(const Rows<Float>& rows, const Block<float, kAxes>& block, size_t i,
                                TapIndex<kTaps> tap, Float* (&to)[kCount]) {
  const int64_t row = block.y().first[i] + tap.row, column = block.x().first[i];
  Float* first = rows.at(row, column);
  if constexpr (kAxes == 3) first = rows.at(block.z().first[i] + tap.slice, row, column);
  for (size_t k = 0; k < kCount; ++k)
    to[k] = first + static_cast<int64_t>(k / kTaps) * rows.row_stride +
            static_cast<int64_t>(k % kTaps) * rows.column_stride;
}

template <int kTaps, int kChannels, class Work, int kAxes>
HWY_INLINE void visit_interior(const Rows<const float>& pixels, const Rows<float>& sums, int64_t channels,
                               const Block<float, kAxes>& block, size_t i, const float* gradients,
                               const float* before, float* result, const float (*weights)[kBlock],
                               float (*products)[kBlock][4]) {
  using Set = TapSet<kTaps, kAxes>;
  for (int set = 0; set < Set::kSets; ++set) {
    const TapIndex<kTaps> first(set * Set::kCount);
    Set taps;
    if constexpr (Work::kReads) find_neighbours(pixels, block, i, first, taps.pixels);
    if constexpr (Work::kSums) find_neighbours(sums, block, i, first, taps.sums);
    const FourVector product = visit_taps_of_sample<kChannels, Work>(taps, weights[set * Set::kCount] + i,
                                                                     gradients, before, result, channels);
    if constexpr (Work::kReads) hn::Store(product, FourTag(), products[set][i]);
    before = result;
  }
}

template <int kTaps, int kChannels, class Work, int kAxes>
HWY_NOINLINE void visit_edge(const BoxTask& task, Source source, const Block<float, kAxes>& block, size_t i,
                             const float* gradients, const float* before, float* result,
                             const float (*weights)[kBlock], float (*products)[kBlock][4]) {
  using Set = TapSet<kTaps, kAxes>;
  const SampleTaps<kTaps> sample = sample_taps<kTaps>(block, i, task.axes);
  for (int set = 0; set < Set::kSets; ++set) {
    Set taps;
    bool is_pixel[Set::kCount];
    for (int k = 0; k < Set::kCount; ++k) {
      const TapIndex<kTaps> tap(set * Set::kCount + k);
      const int64_t slice = sample.slice[tap.slice], row = sample.row[tap.row];
      const int64_t column = sample.column[tap.column];
      is_pixel[k] = slice >= 0 && row >= 0 && column >= 0;
      const bool adds = Work::kSums && is_pixel[k] && task.box.contains(slice, row);
      taps.pixels[k] =
          Work::kReads && is_pixel[k] ? task.sources[source].at(slice, row, column) : task.no_pixel;
      taps.sums[k] = adds ? task.sums.at(slice, row, column) : task.no_sum;
    }
    const FourVector product = visit_taps_of_sample<kChannels, Work>(
        taps, weights[set * Set::kCount] + i, gradients, before, result, task.channels);
    before = result;
    if constexpr (Work::kReads) {
      hn::Store(product, FourTag(), products[set][i]);
      // Infinity times zero is no zero.
      for (int k = 0; k < Set::kCount; ++k) {
        if (!is_pixel[k]) products[set][i][k] = 0.0f;
      }
    }
  }
}

// `pixels` and `sums` are those of the task, in copies that need not be read again after what is stored.
template <int kTaps, int kChannels, class Work, int kAxes>
HWY_INLINE void visit_source(const BoxTask& task, Source source, const Rows<const float>& pixels,
                             const Rows<float>& sums, int64_t channels, const BlockTask<kAxes>& samples,
                             size_t i, const float* before, const float (*weights)[kBlock],
                             float (*products)[kBlock][4]) {
  float* result = Work::kResults ? samples.results[i] : nullptr;
  if (HWY_LIKELY(samples.block.interior >> i & 1)) {
    visit_interior<kTaps, kChannels, Work>(pixels, sums, channels, samples.block, i, samples.gradients[i],
                                           before, result, weights, products);
  } else {
    visit_edge<kTaps, kChannels, Work>(task, source, samples.block, i, samples.gradients[i], before, result,
                                       weights, products);
  }
}

// The products of one source with the samples from `lane` on.
template <int kTaps, int kAxes>
HWY_INLINE void load_products(const float (*products)[kBlock][4], size_t lane,
                              FloatVector (&to)[kTapsOfSample<kTaps, kAxes>]) {
  for (int set = 0; set < TapSet<kTaps, kAxes>::kSets; ++set) {
    FloatVector* of = to + set * 4;
    hn::LoadInterleaved4(FloatTag(), products[set][lane], of[0], of[1], of[2], of[3]);
  }
}

// Differentiates at the samples of a block: adds to the sums, and finds their gradients by the grid.
template <int kTaps, int kChannels, bool kSums, bool kReads, int kAxes>
void differentiate_block(const BoxTask& task, const BlockTask<kAxes>& samples,
                         float (&slopes)[kAxes][kBlock]) {
  const FloatTag d;
  BlockTaps<kTaps, kAxes, 1> taps;
  for (size_t lane = 0; lane < kBlock; lane += kLanes) {
    const auto weights = load_weights<FloatTag, kTaps>(d, samples.block, lane);
    for (int k = 0; k < kTapsOfSample<kTaps, kAxes>; ++k)
      hn::Store(weights.of(TapIndex<kTaps>(k)), d, taps.weight[0][k] + lane);
  }
  if (kReads && samples.owned != kAllSamples) std::memset(taps.product, 0, sizeof taps.product);
  const Rows<const float> pixels = task.sources[kInput];
  const Rows<float> sums = task.sums;
  const int64_t channels = task.channels;
  for (uint32_t bits = samples.bits; bits != 0; bits &= bits - 1) {
    const auto i = static_cast<size_t>(__builtin_ctz(bits));
    const auto visit = [&]<bool kOwned>(std::bool_constant<kOwned>) HWY_ATTR {
      visit_source<kTaps, kChannels, TapWork<kSums, kOwned, false>>(
          task, kInput, pixels, sums, channels, samples, i, nullptr, taps.weight[0], taps.product[0]);
    };
    if constexpr (kReads) {
      if ((samples.owned >> i & 1) != 0) {
        visit(std::true_type());
        continue;
      }
    }
    if constexpr (kSums) visit(std::false_type());
  }
  if constexpr (kReads) {
    for (size_t lane = 0; lane < kBlock; lane += kLanes) {
      FloatVector product[kTapsOfSample<kTaps, kAxes>];
      load_products<kTaps, kAxes>(taps.product[0], lane, product);
      const auto gradient =
          grid_gradients<kTaps>(d, samples.block, lane, [&](int k) HWY_ATTR { return product[k]; });
      for (int axis = 0; axis < kAxes; ++axis) hn::Store(gradient.along[axis], d, slopes[axis] + lane);
    }
  }
}

// The same of the gradient. Also finds the results.
template <int kTaps, int kChannels, bool kSums, int kAxes>
void differentiate_gradient(const BoxTask& task, const BlockTask<kAxes>& samples,
                            float (&slopes)[kAxes][kBlock]) {
  using Curves = SampleCurves<FloatTag, kTaps, kAxes>;
  constexpr int kTapCount = kTapsOfSample<kTaps, kAxes>;
  const FloatTag d;
  BlockTaps<kTaps, kAxes, kSources> taps;
  std::memset(taps.product, 0, sizeof taps.product);
  for (size_t lane = 0; lane < kBlock; lane += kLanes) {
    const Curves curves(d, samples.block, samples.tangents, lane);
    const auto weights = load_weights<FloatTag, kTaps>(d, samples.block, lane);
    for (int k = 0; k < kTapCount; ++k) {
      const TapIndex<kTaps> tap(k);
      hn::Store(curves.weight_along(tap), d, taps.weight[kInput][k] + lane);
      hn::Store(weights.of(tap), d, taps.weight[kGradGradInput][k] + lane);
    }
  }
  const Rows<const float> input = task.sources[kInput], grad_grad_input = task.sources[kGradGradInput];
  const Rows<float> sums = task.sums;
  const int64_t channels = task.channels;
  for (uint32_t bits = samples.bits; bits != 0; bits &= bits - 1) {
    const auto i = static_cast<size_t>(__builtin_ctz(bits));
    const auto visit = [&]<class Work>(Work, Source source, const float* before) HWY_ATTR {
      visit_source<kTaps, kChannels, Work>(task, source, source == kInput ? input : grad_grad_input, sums,
                                           channels, samples, i, before, taps.weight[source],
                                           taps.product[source]);
    };
    if ((samples.owned >> i & 1) == 0) {
      if constexpr (kSums) visit(TapWork<true, false, false>(), kInput, nullptr);
      continue;
    }
    const float* before = task.no_pixel;
    if (task.has_source[kInput]) {
      visit(TapWork<kSums, true, true>(), kInput, before);
      before = samples.results[i];
    }
    if (task.has_source[kGradGradInput]) visit(TapWork<false, true, true>(), kGradGradInput, before);
  }
  for (size_t lane = 0; lane < kBlock; lane += kLanes) {
    FloatVector product[kSources][kTapCount];
    for (int source = 0; source < kSources; ++source)
      load_products<kTaps, kAxes>(taps.product[source], lane, product[source]);
    const auto of = [&](Source source) HWY_ATTR {
      return [&product, source](int k) HWY_ATTR { return product[source][k]; };
    };
    const auto gradient =
        Curves(d, samples.block, samples.tangents, lane).grid_gradient(d, of(kInput), of(kGradGradInput));
    for (int axis = 0; axis < kAxes; ++axis) hn::Store(gradient.along[axis], d, slopes[axis] + lane);
  }
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
