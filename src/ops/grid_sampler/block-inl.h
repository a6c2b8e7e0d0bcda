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
#include "ops/grid_sampler/boxes.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

using namespace aclgrad::HWY_NAMESPACE;

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

// The pixels from the first to the last one that each sample reads along an axis, at most as many as taps; pixel 0 if it
// reads none.
struct Span {
  alignas(64) int32_t first[kBlock];
  alignas(64) int32_t last[kBlock];
};

template <class Real, int kAxes = 2>
struct Block {
  AxisTaps<Real> taps[kAxes];  // x, y and z
  Span spans[kAxes - 1];       // of rows and slices; the owner of the first ones writes the sample's gradient
  uint32_t interior;           // a bit for each sample whose taps are all pixels, next to each other

  const AxisTaps<Real>& x() const { return taps[0]; }
  const AxisTaps<Real>& y() const { return taps[1]; }
  const AxisTaps<Real>& z() const { return taps[2]; }
  const Span& rows() const { return spans[0]; }
  const Span& slices() const { return spans[1]; }
};

// ---- In blocks_cpu.cpp

// Prepares samples of an image, at most kMaxSamples, in as many blocks as that takes. A sample that is missing in the
// last block is like the one before.
template <int kAxes>
void prepare_blocks(const Sampling& sampling, int64_t image, const Samples& samples,
                    Block<float, kAxes>* blocks);

// Reads the coordinates of samples, and repeats the last up to the end of its block.
template <class Real, int kAxes>
void load_coordinates(const Image& grid, const Samples& samples, Real (&to)[kAxes][kMaxSamples]);

// Finds the rows, of volumes the slices, that each chunk of kMaxSamples samples reads: spans[batch, chunks].
void find_spans(const Sampling& sampling, double serial_nanoseconds, RowSpan* spans);

// Lists the samples of images [first_image, first_image + images) for the boxes of a cut.
void list_samples(const Sampling& sampling, const SampleLists& lists, const BoxCut& cut, int64_t first_image,
                  int64_t images, double serial_nanoseconds);

// Writes the gradients by x, y and z of those samples of a block whose bits are set.
template <class Real, int kAxes>
void store_grid_grad(const Image& grid_grad, const Samples& samples, uint32_t bits,
                     const Real (&slopes)[kAxes][kBlock]);

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

// ---- Vectors of elements

// Those of double; simd-inl.h has those of the other element types.
using aclgrad::HWY_NAMESPACE::load, aclgrad::HWY_NAMESPACE::store, aclgrad::HWY_NAMESPACE::stream;
using DoubleTag = BlockTag<double>;
using DoubleVector = hn::Vec<DoubleTag>;

HWY_INLINE DoubleVector load(const double* from) {
  return hn::LoadU(DoubleTag(), from);
}

HWY_INLINE void store(DoubleVector value, double* to) {
  hn::StoreU(value, DoubleTag(), to);
}

HWY_INLINE void stream(DoubleVector value, double* to) {
  hn::Stream(value, DoubleTag(), to);
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

// Lane i of the result is lane i - 1 of the vector, lane 0 is zero.
template <class D>
HWY_INLINE hn::Vec<D> previous_lanes(D d, hn::Vec<D> v) {
  using Index = hwy::MakeSigned<hn::TFromD<D>>;
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  alignas(64) Index indices[lanes];
  for (int64_t i = 0; i < lanes; ++i) indices[i] = static_cast<Index>(i == 0 ? 0 : i - 1);
  const auto moved = hn::TableLookupLanes(v, hn::SetTableIndices(d, indices));
  return hn::IfThenZeroElse(hn::FirstN(d, 1), moved);
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

// Of the rows that are the given one or below it.
template <class D>
HWY_INLINE uint32_t rows_from(D d, hn::Vec<D> rows, int64_t begin) {
  return bits_of(d, hn::Ge(rows, hn::Set(d, static_cast<hn::TFromD<D>>(begin))));
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

// Lanes whose row is in the band.
HWY_INLINE hn::Mask<IndexTag> are_in(const int32_t* rows, RowBand band) {
  const auto row = hn::Load(IndexTag(), rows);
  return hn::And(hn::Gt(row, index_vector(band.begin - 1)), hn::Lt(row, index_vector(band.end)));
}

// A bit for each sample of a block whose gradient the box writes: that of its first slice and row.
template <class Real, int kAxes>
HWY_INLINE uint32_t samples_owned(const Block<Real, kAxes>& block, const Box& box) {
  uint32_t bits = 0;
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(IndexTag())) {
    auto owned = are_in(block.rows().first + lane, box.rows);
    if constexpr (kAxes == 3) owned = hn::And(owned, are_in(block.slices().first + lane, box.slices));
    bits |= bits_of(IndexTag(), owned) << lane;
  }
  return bits;
}

// The taps of one sample, padded. -1 is no pixel.
template <int kTaps>
struct SampleTaps {
  int64_t slice[kTaps];
  int64_t row[kTaps];
  int64_t column[kTaps];
};

template <int kTaps, class Real, int kAxes>
HWY_INLINE SampleTaps<kTaps> sample_taps(const Block<Real, kAxes>& block, size_t i, const Axis* axes) {
  SampleTaps<kTaps> taps;
  for (int k = 0; k < kTaps; ++k) {
    taps.column[k] = tap_pixel<kTaps>(int64_t{block.x().first[i]} + k, axes[0]);
    taps.row[k] = tap_pixel<kTaps>(int64_t{block.y().first[i]} + k, axes[1]);
    taps.slice[k] = 0;
    if constexpr (kAxes == 3) taps.slice[k] = tap_pixel<kTaps>(int64_t{block.z().first[i]} + k, axes[2]);
  }
  return taps;
}

// ---- What samples give, lane by lane: lanes are channels of one sample, or samples

template <int kTaps, int kAxes>
inline constexpr int kTapsOfSample = kTaps* kTaps*(kAxes == 3 ? kTaps : 1);

// Tap k of a sample along each axis.
template <int kTaps>
struct TapIndex {
  int slice, row, column;
  constexpr explicit TapIndex(int k) : slice(k / kTaps / kTaps), row(k / kTaps % kTaps), column(k % kTaps) {}
};

template <class D, int kTaps, int kAxes = 2>
struct TapWeights {
  hn::Vec<D> along[kAxes][kTaps];

  const hn::Vec<D> (&x() const)[kTaps] { return along[0]; }
  const hn::Vec<D> (&y() const)[kTaps] { return along[1]; }
  const hn::Vec<D> (&z() const)[kTaps] { return along[2]; }

  HWY_INLINE hn::Vec<D> of(TapIndex<kTaps> tap) const {
    if constexpr (kAxes == 2) return hn::Mul(y()[tap.row], x()[tap.column]);
    return hn::Mul(hn::Mul(along[kAxes - 1][tap.slice], y()[tap.row]), x()[tap.column]);
  }
};

// The weights of the samples from `lane` on.
template <class D, int kTaps, int kAxes>
HWY_INLINE TapWeights<D, kTaps, kAxes> load_weights(D d, const Block<hn::TFromD<D>, kAxes>& block,
                                                    size_t lane) {
  TapWeights<D, kTaps, kAxes> weights;
  for (int k = 0; k < kTaps; ++k) {
    for (int axis = 0; axis < kAxes; ++axis)
      weights.along[axis][k] = hn::LoadU(d, block.taps[axis].weight[k] + lane);
  }
  return weights;
}

template <class V, int kAxes = 2>
struct Slopes {
  V along[kAxes];
};

// By the place in pixels: what slopes are by the grid's coordinates.
template <class D, int kAxes>
HWY_INLINE Slopes<hn::Vec<D>, kAxes> scaled(D d, const Block<hn::TFromD<D>, kAxes>& block, size_t lane,
                                            Slopes<hn::Vec<D>, kAxes> slopes) {
  for (int axis = 0; axis < kAxes; ++axis)
    slopes.along[axis] = hn::Mul(slopes.along[axis], hn::LoadU(d, block.taps[axis].scale + lane));
  return slopes;
}

// Derivatives of an interpolated volume by the place, in pixels: value(k) is that of tap k.
template <class D, class Value>
HWY_INLINE Slopes<hn::Vec<D>, 3> trilinear_slopes(D, const TapWeights<D, 2, 3>& w, Value&& value) {
  const auto mix = [](const hn::Vec<D>(&weights)[2], hn::Vec<D> a, hn::Vec<D> b)
                       HWY_ATTR { return hn::MulAdd(weights[1], b, hn::Mul(weights[0], a)); };
  const auto step = [&](int row) HWY_ATTR { return hn::Sub(value(2 * row + 1), value(2 * row)); };
  const auto along_x = [&](int row) HWY_ATTR { return mix(w.x(), value(2 * row), value(2 * row + 1)); };
  const auto v00 = along_x(0), v01 = along_x(1), v10 = along_x(2), v11 = along_x(3);
  return {mix(w.z(), mix(w.y(), step(0), step(1)), mix(w.y(), step(2), step(3))),
          mix(w.z(), hn::Sub(v01, v00), hn::Sub(v11, v10)), mix(w.y(), hn::Sub(v10, v00), hn::Sub(v11, v01))};
}

// The gradients of the samples from `lane` on: product(k) is the sum over all channels of grad_output times the pixel of
// tap k.
template <int kTaps, class D, int kAxes, class Product>
HWY_INLINE Slopes<hn::Vec<D>, kAxes> grid_gradients(D d, const Block<hn::TFromD<D>, kAxes>& block,
                                                    size_t lane, Product&& product) {
  const auto weights = load_weights<D, kTaps>(d, block, lane);
  if constexpr (kAxes == 3) {
    return scaled(d, block, lane, trilinear_slopes(d, weights, product));
  } else {
    auto x = hn::Zero(d), y = hn::Zero(d);
    if constexpr (kTaps == 2) {
      x = hn::Mul(weights.y()[0], hn::Sub(product(1), product(0)));
      x = hn::MulAdd(weights.y()[1], hn::Sub(product(3), product(2)), x);
      y = hn::Mul(weights.x()[0], hn::Sub(product(2), product(0)));
      y = hn::MulAdd(weights.x()[1], hn::Sub(product(3), product(1)), y);
    } else {
      for (int r = 0; r < kTaps; ++r) {
        auto row = hn::Zero(d), row_slope = hn::Zero(d);
        for (int c = 0; c < kTaps; ++c) {
          row = hn::MulAdd(weights.x()[c], product(r * kTaps + c), row);
          row_slope = hn::MulAdd(hn::LoadU(d, block.x().slope[c] + lane), product(r * kTaps + c), row_slope);
        }
        x = hn::MulAdd(weights.y()[r], row_slope, x);
        y = hn::MulAdd(hn::LoadU(d, block.y().slope[r] + lane), row, y);
      }
    }
    return scaled(d, block, lane, {x, y});
  }
}

// Calls body(k) for k in [0, kCount), each a std::integral_constant, so that vectors in arrays stay in registers.
template <int kCount, class Body>
HWY_INLINE void unroll(Body&& body) {
  [&]<int... kIndices>(std::integer_sequence<int, kIndices...>) HWY_ATTR {
    (body(std::integral_constant<int, kIndices>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

// In a loop the compiler would see a block of memory to be filled, and keep the vectors there.
template <class V, int kCount>
HWY_INLINE void set_to_zero(V (&vectors)[kCount]) {
  unroll<kCount>([&](auto k) HWY_ATTR { vectors[k] = hn::Zero(hn::DFromV<V>()); });
}

// The same in memory, for rows as long as a vector.
template <class Real, int kCount, int kSamples>
HWY_INLINE void set_to_zero(Real (&rows)[kCount][kSamples]) {
  const BlockTag<Real> d;
  static_assert(kSamples == hn::MaxLanes(BlockTag<Real>()));
  unroll<kCount>([&](auto k) HWY_ATTR { hn::Store(hn::Zero(d), d, rows[k]); });
}

// The interpolated image: value(k) is that of tap k.
template <class D, int kTaps, int kAxes, class Value>
HWY_INLINE hn::Vec<D> image_value(D d, const TapWeights<D, kTaps, kAxes>& weights, Value&& value) {
  if constexpr (kTaps == 1) return value(std::integral_constant<int, 0>());  // as it is
  hn::Vec<D> sum = hn::Zero(d);
  unroll<kTapsOfSample<kTaps, kAxes>>(
      [&](auto k) HWY_ATTR { sum = hn::MulAdd(weights.of(TapIndex<kTaps>(k)), value(k), sum); });
  return hn::Add(sum, hn::Zero(d));  // products that vanish leave no sign
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
