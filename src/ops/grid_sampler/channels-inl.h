// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The arithmetic of grid sampling vectorised over channels, on channels-last images of floats.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_CHANNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_CHANNELS_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_CHANNELS_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_CHANNELS_INL_H_
#endif

#include "ops/grid_sampler/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// Rows of a channels-last image, from `first_row` of the whole image on.
template <class Float>
struct Rows {
  Float* data = nullptr;
  int64_t first_row = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 0;

  Float* at(int64_t row, int64_t column) const {
    return data + (row - first_row) * row_stride + column * column_stride;
  }
};

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

// ---- Gradient

// What a band of rows works on.
struct BandTask {
  RowBand band;
  Axis x_axis;
  Axis y_axis;
  int64_t channels;         // in whole blocks
  Rows<const float> input;  // the rows that samples of the band read
  Rows<float> sums;  // of input_grad: the band, and kTaps - 1 rows on either side for what falls out of it
  const float* no_pixel;  // zeros, to read where a tap is no pixel
  float* no_sum;          // to write where a tap is no pixel of the band
};

// Taps are worked on four at a time, so that weights and sums fit the registers: those of a row of bicubic
// interpolation, all of the others.
template <int kTaps>
struct TapSet {
  static constexpr int kCount = kTaps == 1 ? 1 : 4;
  static constexpr int kSets = kTaps == 4 ? 4 : 1;

  const float* input[kCount];
  float* sums[kCount];
};

// Adds to the sums of the taps what one sample gives, and returns the products of its gradient with them.
template <int kChannels, bool kInput, bool kGrid, class Taps>
HWY_INLINE FourVector differentiate_taps(const Taps& taps, const float* weights, const float* gradients,
                                         int64_t channels) {
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
      for (int k = 0; k < Taps::kCount; ++k) {
        if constexpr (kGrid) {
          auto& sum = product[k].part[part];
          sum = hn::MulAdd(gradient, hn::LoadU(d, taps.input[k] + channel), sum);
        }
        if constexpr (kInput) {
          float* at = taps.sums[k] + channel;
          hn::StoreU(hn::MulAdd(weight[k], gradient, hn::LoadU(d, at)), d, at);
        }
      }
    }
  }
  if constexpr (!kGrid) {
    return hn::Zero(FourTag());
  } else {
    return sum4(Channels::to_4(product[0]), Channels::to_4(product[1]), Channels::to_4(product[2]),
                Channels::to_4(product[3]));
  }
}

// Of 16 samples: the weights of their taps, and what differentiate_taps returns.
template <int kTaps>
struct BlockTaps {
  alignas(64) float weight[kTaps * kTaps][kBlock];
  alignas(64) float product[TapSet<kTaps>::kSets][kBlock][4];
};

// All taps of the sample are pixels, next to each other.
template <int kTaps, int kChannels, bool kInput, bool kGrid>
HWY_INLINE void differentiate_interior(Rows<const float> input, Rows<float> sums, int64_t channels,
                                       const Block<float>& block, size_t i, const float* gradients,
                                       BlockTaps<kTaps>& block_taps) {
  using Set = TapSet<kTaps>;
  for (int set = 0; set < Set::kSets; ++set) {
    const int64_t row = block.y().first[i] + set;
    const int64_t column = block.x().first[i];
    Set taps;
    for (int k = 0; k < Set::kCount; ++k) {
      if constexpr (kGrid) {
        taps.input[k] =
            input.at(row, column) + k / kTaps * input.row_stride + k % kTaps * input.column_stride;
      }
      if constexpr (kInput) {
        taps.sums[k] = sums.at(row, column) + k / kTaps * sums.row_stride + k % kTaps * sums.column_stride;
      }
    }
    const FourVector product = differentiate_taps<kChannels, kInput, kGrid>(
        taps, block_taps.weight[set * Set::kCount] + i, gradients, channels);
    if constexpr (kGrid) hn::Store(product, FourTag(), block_taps.product[set][i]);
  }
}

template <int kTaps, int kChannels, bool kInput, bool kGrid>
HWY_NOINLINE void differentiate_edge(const BandTask& task, const Block<float>& block, size_t i,
                                     const float* gradients, BlockTaps<kTaps>& block_taps) {
  using Set = TapSet<kTaps>;
  const SampleTaps<kTaps> sample = sample_taps<kTaps>(block, i, task.x_axis, task.y_axis);
  for (int set = 0; set < Set::kSets; ++set) {
    Set taps;
    bool is_pixel[Set::kCount];
    for (int k = 0; k < Set::kCount; ++k) {
      const int64_t row = sample.row[(set * Set::kCount + k) / kTaps];
      const int64_t column = sample.column[k % kTaps];
      is_pixel[k] = row >= 0 && column >= 0;
      const bool adds = kInput && is_pixel[k] && task.band.contains(row);
      taps.input[k] = kGrid && is_pixel[k] ? task.input.at(row, column) : task.no_pixel;
      taps.sums[k] = adds ? task.sums.at(row, column) : task.no_sum;
    }
    const FourVector product = differentiate_taps<kChannels, kInput, kGrid>(
        taps, block_taps.weight[set * Set::kCount] + i, gradients, task.channels);
    if constexpr (kGrid) {
      hn::Store(product, FourTag(), block_taps.product[set][i]);
      // Infinity times zero is no zero.
      for (int k = 0; k < Set::kCount; ++k) {
        if (!is_pixel[k]) block_taps.product[set][i][k] = 0.0f;
      }
    }
  }
}

// Differentiates at those samples of a block whose bits are set, with gradients[i] of the output. `owned` are those
// whose own gradients x and y are wanted; those of the other samples are left without a meaning.
template <int kTaps, int kChannels, bool kInput, bool kGrid>
void differentiate_block(const BandTask& task, const Block<float>& block, uint32_t bits, uint32_t owned,
                         const float* const* gradients, float* x, float* y) {
  const FloatTag d;
  BlockTaps<kTaps> taps;
  for (size_t lane = 0; lane < kBlock; lane += kLanes) {
    const auto weights = load_weights<FloatTag, kTaps>(d, block, lane);
    for (int k = 0; k < kTaps * kTaps; ++k)
      hn::Store(weights.of(k / kTaps, k % kTaps), d, taps.weight[k] + lane);
  }
  if (kGrid && owned != kAllSamples) {
    float* products = taps.product[0][0];
    for (size_t k = 0; k < sizeof taps.product / sizeof(float); k += kLanes)
      hn::Store(hn::Zero(d), d, products + k);
  }
  const Rows<const float> input = task.input;
  const Rows<float> sums = task.sums;
  const int64_t channels = task.channels;
  const auto differentiate = [&]<bool kOwned>(size_t i, std::bool_constant<kOwned>) HWY_ATTR {
    if (HWY_LIKELY(block.interior >> i & 1)) {
      differentiate_interior<kTaps, kChannels, kInput, kOwned>(input, sums, channels, block, i, gradients[i],
                                                               taps);
    } else {
      differentiate_edge<kTaps, kChannels, kInput, kOwned>(task, block, i, gradients[i], taps);
    }
  };
  for (; bits != 0; bits &= bits - 1) {
    const auto i = static_cast<size_t>(__builtin_ctz(bits));
    if constexpr (kGrid) {
      if ((owned >> i & 1) != 0) {
        differentiate(i, std::true_type());
        continue;
      }
    }
    if constexpr (kInput) differentiate(i, std::false_type());
  }
  if constexpr (kGrid) {
    for (size_t lane = 0; lane < kBlock; lane += kLanes) {
      FloatVector product[kTaps * kTaps];
      for (int set = 0; set < TapSet<kTaps>::kSets; ++set) {
        FloatVector* of_set = product + set * 4;
        hn::LoadInterleaved4(d, taps.product[set][lane], of_set[0], of_set[1], of_set[2], of_set[3]);
      }
      const auto gradient = grid_gradients<kTaps>(
          d, block, lane, [&](int row, int column) HWY_ATTR { return product[row * kTaps + column]; });
      hn::Store(gradient.x, d, x + lane);
      hn::Store(gradient.y, d, y + lane);
    }
  }
}

using DifferentiateBlock = void (*)(const BandTask&, const Block<float>&, uint32_t, uint32_t,
                                    const float* const*, float*, float*);

template <int kTaps, int kChannels>
DifferentiateBlock choose_differentiate_block(bool wants_input_grad, bool wants_grid_grad) {
  if constexpr (kTaps > 1) {
    if (wants_grid_grad) {
      return wants_input_grad ? differentiate_block<kTaps, kChannels, true, true>
                              : differentiate_block<kTaps, kChannels, false, true>;
    }
  }
  return differentiate_block<kTaps, kChannels, true, false>;
}

// ---- Forward

// Channels [first, first + count) of one sample, filled up to whole vectors.
template <int kTaps, class D>
HWY_INLINE void sample_channels(D d, const Rows<const float>& input, const Axis& x_axis, const Axis& y_axis,
                                const Block<float>& block, size_t i, int64_t first, int64_t count,
                                float* to) {
  const auto weights = broadcast_weights<D, kTaps>(d, block, i);
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  if (HWY_LIKELY(block.interior >> i & 1)) {
    const float* from = input.at(block.y().first[i], block.x().first[i]) + first;
    for (int64_t c = 0; c < count; c += lanes) {
      const auto value = image_value<kTaps>(d, weights, [&](int row, int column) HWY_ATTR {
        return hn::LoadU(d, from + row * input.row_stride + column * input.column_stride + c);
      });
      hn::StoreU(value, d, to + c);
    }
    return;
  }
  const SampleTaps<kTaps> taps = sample_taps<kTaps>(block, i, x_axis, y_axis);
  for (int64_t c = 0; c < count; c += lanes) {
    const auto value = image_value<kTaps>(d, weights, [&](int row, int column) HWY_ATTR {
      if (taps.row[row] < 0 || taps.column[column] < 0) return hn::Zero(d);
      return hn::LoadU(d, input.at(taps.row[row], taps.column[column]) + first + c);
    });
    hn::StoreU(value, d, to + c);
  }
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
