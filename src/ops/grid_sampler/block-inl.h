// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Blocks of 16 samples: where their taps fall among the pixels of an image, and what follows from that; and what kernels
// call that is compiled once for all of them.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_BLOCK_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_BLOCK_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_BLOCK_INL_H_
#endif

#include <bit>

#include "base/caches.h"
#include "base/simd-inl.h"
#include "ops/grid_sampler/layout.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

using namespace aclgrad::HWY_NAMESPACE;

inline constexpr int kBlock = 16;  // samples
inline constexpr int kMostBlocks =
    4;  // that are prepared together, so that the processor need not wait for each
inline constexpr int64_t kMostSamples = kMostBlocks * kBlock;
inline constexpr uint32_t kAllSamples = (1u << kBlock) - 1;

template <class Real>
using BlockTag = hn::CappedTag<Real, kBlock>;

// The taps of a block along one axis, as many as the interpolation has: neighbours from `first` on.
template <class Real>
struct AxisTaps {
  alignas(64) int32_t first[kBlock];
  alignas(64) Real scale[kBlock];  // pixels by which a sample moves, for each unit of its grid coordinate
  alignas(64) Real weight[4][kBlock];
  alignas(
      64) Real slope[4][kBlock];  // of the weights, by the position in pixels; bicubic only: else -1 and 1
};

template <class Real, int kAxes = 2>
struct Block {
  AxisTaps<Real> taps[kAxes];  // x, y
  // Rows of the image from the first to the last one that a sample reads, at most as many as taps; row 0 if it reads
  // none. The owner of the first row writes the sample's gradient.
  alignas(64) int32_t first_row[kBlock];
  alignas(64) int32_t last_row[kBlock];
  uint32_t interior;  // a bit for each sample whose taps are all pixels, next to each other

  const AxisTaps<Real>& x() const { return taps[0]; }
  const AxisTaps<Real>& y() const { return taps[1]; }
};

// ---- In blocks_cpu.cpp

// Prepares `count` samples of an image from the given one on, at most kMostSamples, in as many blocks as that takes. A
// sample that is missing in the last block is like the one before.
template <class Real>
void prepare_blocks(const Sampling& sampling, int64_t image, int64_t first, int64_t count,
                    Block<Real>* blocks);

// The same for the rows alone: first_row and last_row.
void prepare_rows(const Sampling& sampling, int64_t image, int64_t first, int64_t count,
                  Block<float>* blocks);

// Prepares a block of these samples.
void prepare_samples(const Sampling& sampling, int64_t image, const int64_t* samples, Block<float>& block);

// Reads the coordinates of these samples.
void load_coordinates(const Image& grid, const int64_t* samples, float (&to)[kBlock][2]);

// Reads the coordinates of `count` samples from the given one on, and repeats the last up to the end of its block.
template <class Real>
void load_coordinates(const Image& grid, int64_t first, int64_t count, Real (&to)[2][kMostSamples]);

// Finds the rows that the samples of each chunk read, at most kMostSamples each: spans[images, chunks].
void find_spans(const Sampling& sampling, int64_t first_image, int64_t images, int64_t chunk_samples,
                double serial_nanoseconds, RowSpan* spans);

// Writes the gradients by x and y of those samples of a block whose bits are set: neighbours, or listed.
template <class Real>
void store_grid_grad(const Image& grid_grad, int64_t first, uint32_t bits, const Real* x, const Real* y);
template <class Real>
void store_grid_grad(const Image& grid_grad, const int64_t* samples, uint32_t bits, const Real* x,
                     const Real* y);

// ---- In images_cpu.cpp

// Images as they suit kernels vectorised over channels: pixel after pixel, the channels of each side by side as floats,
// filled up with zeros. `pixel_stride` floats lead from one pixel to the next.
void pack_pixels(const Image& image, int64_t first, int64_t pixels, float* to, int64_t pixel_stride);
void pack_images(const Images& images, int64_t first_image, int64_t count, double serial_nanoseconds,
                 float* to, int64_t pixel_stride);
void unpack_pixels(const float* from, int64_t pixel_stride, const Image& image, int64_t first,
                   int64_t pixels);

// Pixels [first, first + count) of channels [channel, channel + channels), `stride` Reals from one channel to the next.
template <class Real>
void load_pixels(const Image& image, int64_t channel, int64_t channels, int64_t first, int64_t count,
                 Real* to, int64_t stride);
template <class Real>
void store_pixels(const Image& image, int64_t channel, int64_t channels, int64_t first, int64_t count,
                  const Real* from, int64_t stride);

// to[row][column][i] becomes the element of one channel at rows[row][i] + columns[column][i], for a block of samples.
template <class Real>
void load_taps(const Image& image, int64_t channel, int taps, const int64_t* rows, const int64_t* columns,
               Real* to);

// ---- Vectors of elements

// Copies elements, past the caches if that is wanted and `to` is the beginning of a line.
template <class Real, size_t kCount>
HWY_INLINE void store_lines(const Real (&from)[kCount], bool past_caches, Real* to) {
  static_assert(sizeof from % 64 == 0);
  if (!past_caches || reinterpret_cast<uintptr_t>(to) % 64 != 0) {
    std::memcpy(to, from, sizeof from);
    return;
  }
  const BlockTag<Real> d;
  for (size_t i = 0; i < kCount; i += hn::Lanes(d)) hn::Stream(hn::Load(d, from + i), d, to + i);
}

// Elements side by side, as many as a vector has lanes.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_lanes(D d, const T* from) {
  if constexpr (std::is_same_v<T, double>) {
    return hn::LoadU(d, from);
  } else {
    return load(from);
  }
}

template <class D, class T>
HWY_INLINE void store_lanes(D d, hn::Vec<D> v, T* to) {
  if constexpr (std::is_same_v<T, double>) {
    hn::StoreU(v, d, to);
  } else {
    store(v, to);
  }
}

// The same past the caches; `to` lies on a boundary of so many elements.
template <class D, class T>
HWY_INLINE void stream_lanes(D d, hn::Vec<D> v, T* to) {
  if constexpr (std::is_same_v<T, double>) {
    hn::Stream(v, d, to);
  } else {
    stream(v, to);
  }
}

// Calls function(tag of the vectors) for images of so many channels.
template <class Function>
HWY_INLINE void visit_channel_tag(int64_t channels, Function&& function) {
  if (channel_block(channels) == 4) {
    function(FourTag());
  } else {
    function(FloatTag());
  }
}

// A vector of blocks of four floats: of rows[0], rows[4], rows[8], ...
HWY_INLINE auto load_blocks(hn::FixedTag<float, 4> d, const float* const* rows, int64_t at) {
  return hn::LoadU(d, rows[0] + at);
}

template <size_t kSize>
HWY_INLINE auto load_blocks(hn::Simd<float, kSize, 0> d, const float* const* rows, int64_t at) {
  const hn::FixedTag<float, kSize / 2> half;
  return hn::Combine(d, load_blocks(half, rows + kSize / 2, at), load_blocks(half, rows, at));
}

// Transposes four floats of each of as many rows as a vector has lanes: columns[j] becomes float `at` + j of all rows.
template <class D>
HWY_INLINE void transpose_rows(D d, const float* const* rows, int64_t at, hn::Vec<D> (&columns)[4]) {
  const hn::Repartition<double, D> wide;
  hn::Vec<D> v[4];
  for (int j = 0; j < 4; ++j) v[j] = load_blocks(d, rows + j, at);
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, v[0], v[1]));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, v[2], v[3]));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, v[0], v[1]));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, v[2], v[3]));
  columns[0] = hn::BitCast(d, hn::InterleaveLower(wide, low01, low23));
  columns[1] = hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23));
  columns[2] = hn::BitCast(d, hn::InterleaveLower(wide, high01, high23));
  columns[3] = hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23));
}

// ---- Bits of samples

// A bit for each lane of the mask.
template <class D>
HWY_INLINE uint32_t bits_of(D d, hn::Mask<D> mask) {
  static_assert(std::endian::native == std::endian::little);
  uint32_t bits = 0;
  hn::StoreMaskBits(d, mask, reinterpret_cast<uint8_t*>(&bits));
  return bits;
}

// The mask of the lanes whose bits are set.
template <class D>
HWY_INLINE hn::Mask<D> mask_of(D d, uint32_t bits) {
  const uint8_t bytes[8] = {static_cast<uint8_t>(bits), static_cast<uint8_t>(bits >> 8)};
  return hn::LoadMaskBits(d, bytes);
}

using IndexTag = hn::CappedTag<int32_t, kBlock>;

HWY_INLINE hn::Vec<IndexTag> index_vector(int64_t index) {
  const int64_t most = -kNowhere;
  return hn::Set(IndexTag(), static_cast<int32_t>(index < most ? index : most));
}

// The last row that a sample of the block reads.
template <class Real>
HWY_INLINE int64_t last_row_of(const Block<Real>& block) {
  const IndexTag d;
  auto last_row = hn::Zero(d);
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
    last_row = hn::Max(last_row, hn::Load(d, block.last_row + lane));
  }
  return hn::GetLane(hn::MaxOfLanes(d, last_row));
}

// A bit for each of `count` samples of a block that has to do with the band.
template <class Real>
HWY_INLINE uint32_t samples_of_band(const Block<Real>& block, int64_t count, RowBand band) {
  const IndexTag d;
  uint32_t bits = 0;
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
    const auto meets = hn::And(hn::Gt(hn::Load(d, block.last_row + lane), index_vector(band.begin - 1)),
                               hn::Lt(hn::Load(d, block.first_row + lane), index_vector(band.end)));
    bits |= bits_of(d, meets) << lane;
  }
  return bits & ((1u << count) - 1);
}

// A bit for each sample of a block whose gradient the band writes.
template <class Real>
HWY_INLINE uint32_t samples_owned(const Block<Real>& block, RowBand band) {
  const IndexTag d;
  uint32_t bits = 0;
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
    const auto first_row = hn::Load(d, block.first_row + lane);
    const auto owned =
        hn::And(hn::Gt(first_row, index_vector(band.begin - 1)), hn::Lt(first_row, index_vector(band.end)));
    bits |= bits_of(d, owned) << lane;
  }
  return bits;
}

// The taps of one sample, padded. -1 is no pixel.
template <int kTaps>
struct SampleTaps {
  int64_t row[kTaps];
  int64_t column[kTaps];
};

template <int kTaps, class Real>
HWY_INLINE SampleTaps<kTaps> sample_taps(const Block<Real>& block, size_t i, const Axis& x_axis,
                                         const Axis& y_axis) {
  SampleTaps<kTaps> taps;
  for (int k = 0; k < kTaps; ++k) {
    taps.row[k] = tap_pixel<kTaps>(int64_t{block.y().first[i]} + k, y_axis);
    taps.column[k] = tap_pixel<kTaps>(int64_t{block.x().first[i]} + k, x_axis);
  }
  return taps;
}

// ---- What samples give, lane by lane: lanes are channels of one sample, or samples

template <class D, int kTaps>
struct TapWeights {
  hn::Vec<D> x[kTaps];
  hn::Vec<D> y[kTaps];

  HWY_INLINE hn::Vec<D> of(int row, int column) const { return hn::Mul(y[row], x[column]); }
};

// The weights of one sample in all lanes.
template <class D, int kTaps>
HWY_INLINE TapWeights<D, kTaps> broadcast_weights(D d, const Block<hn::TFromD<D>>& block, size_t i) {
  TapWeights<D, kTaps> weights;
  for (int k = 0; k < kTaps; ++k) {
    weights.x[k] = hn::Set(d, block.x().weight[k][i]);
    weights.y[k] = hn::Set(d, block.y().weight[k][i]);
  }
  return weights;
}

// The weights of the samples from `lane` on.
template <class D, int kTaps>
HWY_INLINE TapWeights<D, kTaps> load_weights(D d, const Block<hn::TFromD<D>>& block, size_t lane) {
  TapWeights<D, kTaps> weights;
  for (int k = 0; k < kTaps; ++k) {
    weights.x[k] = hn::LoadU(d, block.x().weight[k] + lane);
    weights.y[k] = hn::LoadU(d, block.y().weight[k] + lane);
  }
  return weights;
}

template <class V>
struct Slopes {
  V x;
  V y;
};

// The gradients of the samples from `lane` on: product(row, column) is the sum over all channels of grad_output times
// the pixel of the tap.
template <int kTaps, class D, class Product>
HWY_INLINE Slopes<hn::Vec<D>> grid_gradients(D d, const Block<hn::TFromD<D>>& block, size_t lane,
                                             Product&& product) {
  using V = hn::Vec<D>;
  const auto weights = load_weights<D, kTaps>(d, block, lane);
  V x = hn::Zero(d);
  V y = hn::Zero(d);
  if constexpr (kTaps == 2) {
    x = hn::Mul(weights.y[0], hn::Sub(product(0, 1), product(0, 0)));
    x = hn::MulAdd(weights.y[1], hn::Sub(product(1, 1), product(1, 0)), x);
    y = hn::Mul(weights.x[0], hn::Sub(product(1, 0), product(0, 0)));
    y = hn::MulAdd(weights.x[1], hn::Sub(product(1, 1), product(0, 1)), y);
  } else {
    for (int r = 0; r < kTaps; ++r) {
      V row = hn::Zero(d);
      V row_slope = hn::Zero(d);
      for (int c = 0; c < kTaps; ++c) {
        row = hn::MulAdd(weights.x[c], product(r, c), row);
        row_slope = hn::MulAdd(hn::LoadU(d, block.x().slope[c] + lane), product(r, c), row_slope);
      }
      x = hn::MulAdd(weights.y[r], row_slope, x);
      y = hn::MulAdd(hn::LoadU(d, block.y().slope[r] + lane), row, y);
    }
  }
  return {hn::Mul(x, hn::LoadU(d, block.x().scale + lane)), hn::Mul(y, hn::LoadU(d, block.y().scale + lane))};
}

// The same from products with the differences of 2 x 2 pixels: right minus left, above and below, then below minus
// above, left and right.
template <class D, class Difference>
HWY_INLINE Slopes<hn::Vec<D>> bilinear_gradients(D d, const Block<hn::TFromD<D>>& block, size_t lane,
                                                 Difference&& difference) {
  const auto weights = load_weights<D, 2>(d, block, lane);
  const auto x = hn::MulAdd(weights.y[1], difference(1), hn::Mul(weights.y[0], difference(0)));
  const auto y = hn::MulAdd(weights.x[1], difference(3), hn::Mul(weights.x[0], difference(2)));
  return {hn::Mul(x, hn::LoadU(d, block.x().scale + lane)), hn::Mul(y, hn::LoadU(d, block.y().scale + lane))};
}

// The interpolated image.
template <int kTaps, class D, class Value>
HWY_INLINE hn::Vec<D> image_value(D d, const TapWeights<D, kTaps>& weights, Value&& value) {
  hn::Vec<D> sum = hn::Zero(d);
  for (int r = 0; r < kTaps; ++r) {
    for (int c = 0; c < kTaps; ++c) sum = hn::MulAdd(weights.of(r, c), value(r, c), sum);
  }
  return sum;
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
