// Where the samples of a grid fall among the pixels of an image, 16 samples at a time.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_2D_SAMPLING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_2D_SAMPLING_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_2D_SAMPLING_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_2D_SAMPLING_INL_H_
#endif

#include <cmath>
#include <limits>

#include "base/simd-inl.h"
#include "ops/grid_sampler/image.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

using namespace aclgrad::HWY_NAMESPACE;

inline constexpr int kGroup = 16;  // samples that are planned together

template <class Real>
using GroupTag = hn::CappedTag<Real, kGroup>;

// Derivatives of the weights by the position in pixels. Those of two taps are -1 and 1.
template <class Real, int kTaps>
struct AxisSlopes {};

template <class Real>
struct AxisSlopes<Real, 4> {
  alignas(64) Real slope[4][kGroup];
};

// The taps of 16 samples along one axis: kTaps neighbours from `first` on.
template <class Real, int kTaps>
struct AxisTaps : AxisSlopes<Real, kTaps> {
  alignas(64) int32_t first[kGroup];
  alignas(64) Real scale[kGroup];  // pixels by which a sample moves, for each unit of its grid coordinate
  alignas(64) Real weight[kTaps][kGroup];
};

template <class Real, int kTaps>
struct SampleGroup {
  AxisTaps<Real, kTaps> x;
  AxisTaps<Real, kTaps> y;
  // Rows of the image from the first to the last one that a sample reads, at most kTaps; row 0 if it reads none.
  // The owner of the first row writes the sample's gradient.
  alignas(64) int32_t first_row[kGroup];
  alignas(64) int32_t last_row[kGroup];
  uint32_t interior;  // a bit for each sample whose taps are all pixels, next to each other
};

inline constexpr uint32_t kAllSamples = (1u << kGroup) - 1;

// ---- Vectors of samples

template <class D>
struct Position {
  hn::Vec<D> pixel;
  hn::Vec<D> scale;
};

template <class D>
HWY_INLINE Position<D> unnormalise(D d, const Axis& axis, hn::Vec<D> coordinate) {
  using Real = hn::TFromD<D>;
  const auto one = hn::Set(d, Real{1});
  const auto half = hn::Set(d, Real{0.5});
  const auto size = hn::Set(d, static_cast<Real>(axis.size));
  const auto shifted = hn::Add(coordinate, one);
  if (axis.align_corners) {
    const auto last = hn::Sub(size, one);
    return {hn::Mul(hn::Mul(shifted, half), last), hn::Mul(last, half)};
  }
  return {hn::Mul(hn::Sub(hn::Mul(shifted, size), one), half), hn::Mul(size, half)};
}

// Moves what is outside to the border, which has no gradient.
template <class D>
HWY_INLINE Position<D> clip(D d, const Axis& axis, Position<D> at) {
  using Real = hn::TFromD<D>;
  const auto zero = hn::Zero(d);
  const auto last = hn::Set(d, static_cast<Real>(axis.size - 1));
  const auto low = axis.forward ? hn::Not(hn::Gt(at.pixel, zero)) : hn::Le(at.pixel, zero);
  const auto high = hn::Ge(at.pixel, last);
  const auto pixel = hn::IfThenElse(low, zero, hn::IfThenElse(high, last, at.pixel));
  return {pixel, hn::IfThenZeroElse(hn::Or(low, high), at.scale)};
}

// dividend - quotient * divisor with the quotient rounded down, exactly; 0 <= dividend < 2^21, or NaN.
template <class D>
HWY_INLINE hn::Vec<D> remainder(D d, hn::Vec<D> dividend, hn::Vec<D> divisor, hn::Vec<D>& quotient) {
  using Real = hn::TFromD<D>;
  const auto one = hn::Set(d, Real{1});
  quotient = hn::Floor(hn::Div(dividend, divisor));
  auto rest = hn::Sub(dividend, hn::Mul(quotient, divisor));
  // The division may have rounded up to the next whole number, or the other way.
  const auto above = hn::Lt(rest, hn::Zero(d));
  quotient = hn::Sub(quotient, hn::IfThenElseZero(above, one));
  rest = hn::Add(rest, hn::IfThenElseZero(above, divisor));
  const auto below = hn::Ge(rest, divisor);
  quotient = hn::Add(quotient, hn::IfThenElseZero(below, one));
  rest = hn::Sub(rest, hn::IfThenElseZero(below, divisor));
  return rest;
}

// The same samples mirrored one by one.
template <class D>
HWY_NOINLINE Position<D> mirror_each(D d, const Axis& axis, Position<D> at) {
  using Real = hn::TFromD<D>;
  Real pixels[hn::MaxLanes(D())], scales[hn::MaxLanes(D())];
  hn::StoreU(at.pixel, d, pixels);
  hn::StoreU(at.scale, d, scales);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    const Mirrored<Real> mirrored = mirror(pixels[i], axis);
    pixels[i] = mirrored.pixel;
    if (mirrored.backwards) scales[i] = -scales[i];
  }
  return {hn::LoadU(d, pixels), hn::LoadU(d, scales)};
}

// Mirrors what is outside, and clips: without align_corners the mirror lies half a pixel beyond the border.
template <class D>
HWY_INLINE Position<D> reflect(D d, const Axis& axis, Position<D> at) {
  using Real = hn::TFromD<D>;
  const auto zero = hn::Zero(d);
  const Real low = axis.align_corners ? Real{0} : Real{-0.5};
  const auto span = static_cast<Real>(axis.align_corners ? axis.size - 1 : axis.size);
  if (span == 0) return clip(d, axis, Position<D>{hn::IfThenElse(hn::IsNaN(at.pixel), at.pixel, zero), zero});
  const auto distance = hn::Sub(at.pixel, hn::Set(d, low));
  const auto is_far = hn::Ge(hn::Abs(distance), hn::Set(d, Real{1 << 21}));
  if (HWY_UNLIKELY(!hn::AllFalse(d, is_far))) return clip(d, axis, mirror_each(d, axis, at));
  hn::Vec<D> flips = zero;
  const auto extra = remainder(d, hn::Abs(distance), hn::Set(d, span), flips);
  const auto halves = hn::Mul(flips, hn::Set(d, Real{0.5}));
  const auto odd = hn::Ne(halves, hn::Floor(halves));
  const auto mirrored = hn::IfThenElse(odd, hn::Sub(hn::Set(d, span), extra), extra);
  const auto backwards = hn::Xor(odd, hn::Lt(distance, zero));
  return clip(d, axis,
              Position<D>{hn::Add(mirrored, hn::Set(d, low)),
                          hn::IfThenElse(backwards, hn::Neg(at.scale), at.scale)});
}

template <class D>
HWY_INLINE hn::Mask<D> has_pixel_number(D d, hn::Vec<D> pixel) {
  return hn::Lt(hn::Abs(pixel), hn::Set(d, static_cast<hn::TFromD<D>>(-kNowhere - 64)));
}

template <class D>
HWY_INLINE Position<D> padded_position(D d, const Axis& axis, hn::Vec<D> coordinate) {
  const Position<D> at = unnormalise(d, axis, coordinate);
  if (axis.padding == Padding::zeros) return at;
  return axis.padding == Padding::border ? clip(d, axis, at) : reflect(d, axis, at);
}

// The cubic convolution kernel with A = -0.75 for distances up to 1 and from 1 to 2, and its derivatives.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V near_weight(D d, V x) {
  using Real = hn::TFromD<D>;
  const auto factor = hn::MulSub(hn::Set(d, Real{1.25}), x, hn::Set(d, Real{2.25}));
  return hn::MulAdd(hn::Mul(factor, x), x, hn::Set(d, Real{1}));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V far_weight(D d, V x) {
  using Real = hn::TFromD<D>;
  const auto square = hn::MulAdd(hn::Set(d, Real{-0.75}), x, hn::Set(d, Real{3.75}));
  return hn::MulAdd(hn::MulSub(square, x, hn::Set(d, Real{6})), x, hn::Set(d, Real{3}));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V near_slope(D d, V x) {
  using Real = hn::TFromD<D>;
  return hn::Mul(hn::MulSub(hn::Set(d, Real{3.75}), x, hn::Set(d, Real{4.5})), x);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V far_slope(D d, V x) {
  using Real = hn::TFromD<D>;
  return hn::MulSub(hn::MulAdd(hn::Set(d, Real{-2.25}), x, hn::Set(d, Real{7.5})), x, hn::Set(d, Real{6}));
}

HWY_INLINE void store_whole(GroupTag<float> d, hn::Vec<GroupTag<float>> whole, int32_t* to) {
  const hn::RebindToSigned<decltype(d)> integer;
  hn::StoreU(hn::ConvertTo(integer, whole), integer, to);
}

HWY_INLINE void store_whole(GroupTag<double> d, hn::Vec<GroupTag<double>> whole, int32_t* to) {
  const hn::Rebind<int32_t, decltype(d)> integer;
  hn::StoreU(hn::DemoteTo(integer, whole), integer, to);
}

// Brings whole pixels that are far away near the image. Where the neighbours of a pixel are the same number, all taps
// read it, and nothing depends on the coordinate.
template <class D>
HWY_NOINLINE Position<D> bring_near(D d, const Axis& axis, Position<D> whole) {
  using Real = hn::TFromD<D>;
  Real pixels[hn::MaxLanes(D())], scales[hn::MaxLanes(D())];
  hn::StoreU(whole.pixel, d, pixels);
  hn::StoreU(whole.scale, d, scales);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (!std::isfinite(pixels[i]) || std::fabs(pixels[i]) < kFar<Real>) continue;
    if (has_no_neighbours(pixels[i])) scales[i] = 0;
    pixels[i] = static_cast<Real>(near_index(pixels[i], axis));
  }
  return {hn::LoadU(d, pixels), hn::LoadU(d, scales)};
}

// Plans the samples from `lane` on, as many as a vector holds.
template <int kTaps, class D, class Real>
HWY_INLINE void plan_lanes(D d, const Axis& axis, hn::Vec<D> coordinate, size_t lane,
                           AxisTaps<Real, kTaps>& taps) {
  const auto one = hn::Set(d, Real{1});
  Position<D> at = padded_position(d, axis, coordinate);
  const auto has_place = has_pixel_number(d, at.pixel);
  at.pixel = hn::IfThenElse(has_place, at.pixel, hn::Set(d, static_cast<Real>(kNowhere)));
  hn::Store(hn::IfThenElseZero(has_place, at.scale), d, taps.scale + lane);

  const auto whole = kTaps == 1 ? hn::Round(at.pixel) : hn::Floor(at.pixel);
  store_whole(d, whole, taps.first + lane);
  if constexpr (kTaps == 1) {
    hn::Store(one, d, taps.weight[0] + lane);
  } else {
    hn::Store(hn::Sub(hn::Add(whole, one), at.pixel), d, taps.weight[0] + lane);
    hn::Store(hn::Sub(at.pixel, whole), d, taps.weight[1] + lane);
  }
}

// Bicubic: the taps are padded, not the sample. Forward, the weights of a sample that is not finite are NaN.
template <class D, class Real>
HWY_INLINE void plan_lanes(D d, const Axis& axis, hn::Vec<D> coordinate, size_t lane,
                           AxisTaps<Real, 4>& taps) {
  const auto one = hn::Set(d, Real{1});
  const Position<D> at = unnormalise(d, axis, coordinate);
  const auto has_place = hn::IsFinite(at.pixel);
  const auto pixel = axis.forward ? at.pixel : hn::IfThenElseZero(has_place, at.pixel);
  Position<D> whole{hn::Floor(pixel), hn::IfThenElseZero(has_place, at.scale)};
  const auto t = hn::Sub(pixel, whole.pixel);
  const auto u = hn::Sub(one, t);
  const auto is_far = hn::Ge(hn::Abs(whole.pixel), hn::Set(d, kFar<Real>));
  if (HWY_UNLIKELY(!hn::AllFalse(d, is_far))) whole = bring_near(d, axis, whole);
  hn::Store(whole.scale, d, taps.scale + lane);
  const auto nowhere = hn::Set(d, static_cast<Real>(kNowhere));
  store_whole(d, hn::IfThenElse(has_place, hn::Sub(whole.pixel, one), nowhere), taps.first + lane);

  hn::Store(far_weight(d, hn::Add(t, one)), d, taps.weight[0] + lane);
  hn::Store(near_weight(d, t), d, taps.weight[1] + lane);
  hn::Store(near_weight(d, u), d, taps.weight[2] + lane);
  hn::Store(far_weight(d, hn::Add(u, one)), d, taps.weight[3] + lane);
  hn::Store(far_slope(d, hn::Add(t, one)), d, taps.slope[0] + lane);
  hn::Store(near_slope(d, t), d, taps.slope[1] + lane);
  hn::Store(hn::Neg(near_slope(d, u)), d, taps.slope[2] + lane);
  hn::Store(hn::Neg(far_slope(d, hn::Add(u, one))), d, taps.slope[3] + lane);
}

// ---- Groups of samples

template <class T>
inline bool is_interleaved_grid(const Image<T>& grid) {
  return grid.is_flat() && grid.flat_stride() == 2 && grid.channel_stride == 1;
}

// Reads x and y of `count` > 0 samples from the given one on; the rest of the group repeats the last.
template <class T, class Real = RealOf<T>>
HWY_INLINE void load_coordinates(const Image<const T>& grid, int64_t first, int64_t count, Real* x, Real* y) {
  if (count == kGroup && is_interleaved_grid(grid)) {
    const GroupTag<Real> d;
    alignas(64) Real widened[2 * kGroup];
    const Real* pairs = widened;
    const T* from = grid.data + grid.offset(first);
    if constexpr (std::is_same_v<T, Real>) {
      pairs = from;
    } else {
      for (size_t i = 0; i < 2 * kGroup; i += kLanes) store(load(from + i), widened + i);
    }
    for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
      auto xs = hn::Undefined(d), ys = hn::Undefined(d);
      hn::LoadInterleaved2(d, pairs + 2 * lane, xs, ys);
      hn::Store(xs, d, x + lane);
      hn::Store(ys, d, y + lane);
    }
    return;
  }
  for_each_pixel(grid, first, count, [&](int64_t k, int64_t offset) {
    x[k] = to_real(grid.data[offset]);
    y[k] = to_real(grid.data[offset + grid.channel_stride]);
  });
  std::fill(x + count, x + kGroup, x[count - 1]);
  std::fill(y + count, y + kGroup, y[count - 1]);
}

// A bit for each lane of the mask.
template <class D>
HWY_INLINE uint32_t bits_of(D d, hn::Mask<D> mask) {
  uint8_t bytes[8];
  hn::StoreMaskBits(d, mask, bytes);
  return hn::MaxLanes(d) > 8 ? static_cast<uint32_t>(bytes[0] | bytes[1] << 8) : bytes[0];
}

using IndexTag = hn::CappedTag<int32_t, kGroup>;

HWY_INLINE hn::Vec<IndexTag> index_vector(int64_t index) {
  const int64_t most = -kNowhere;
  return hn::Set(IndexTag(), static_cast<int32_t>(index < most ? index : most));
}

template <int kTaps, class Real>
HWY_INLINE void find_rows(const Axis& axis, SampleGroup<Real, kTaps>& group) {
  const IndexTag d;
  const auto last = index_vector(axis.size - 1);
  for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
    const auto first_tap = hn::Load(d, group.y.first + lane);
    const auto last_tap = hn::Add(first_tap, hn::Set(d, kTaps - 1));
    hn::Store(hn::Min(hn::Max(first_tap, hn::Zero(d)), last), d, group.first_row + lane);
    hn::Store(hn::Min(hn::Max(last_tap, hn::Zero(d)), last), d, group.last_row + lane);
  }
  if (kTaps != 4 || axis.padding != Padding::reflection) return;
  // Mirrored taps are still neighbours, but elsewhere.
  for (size_t i = 0; i < kGroup; ++i) {
    const int64_t first_tap = group.y.first[i];
    if (first_tap >= 0 && first_tap + kTaps <= axis.size) continue;
    int64_t rows[kTaps];
    for (int k = 0; k < kTaps; ++k) rows[k] = std::max<int64_t>(0, tap_pixel<kTaps>(first_tap + k, axis));
    group.first_row[i] = static_cast<int32_t>(*std::min_element(rows, rows + kTaps));
    group.last_row[i] = static_cast<int32_t>(*std::max_element(rows, rows + kTaps));
  }
}

// Lanes whose taps along one axis are all pixels.
template <int kTaps, class Real>
HWY_INLINE hn::Mask<IndexTag> inside(const AxisTaps<Real, kTaps>& taps, const Axis& axis, size_t lane) {
  const auto first = hn::Load(IndexTag(), taps.first + lane);
  return hn::And(hn::Gt(first, hn::Set(IndexTag(), -1)), hn::Lt(first, index_vector(axis.size - kTaps + 1)));
}

// Plans the samples at these coordinates.
template <int kTaps, class Real>
HWY_INLINE void plan_coordinates(const Real* x, const Real* y, const Axis& x_axis, const Axis& y_axis,
                                 SampleGroup<Real, kTaps>& group) {
  const GroupTag<Real> d;
  for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
    plan_lanes(d, x_axis, hn::Load(d, x + lane), lane, group.x);
    plan_lanes(d, y_axis, hn::Load(d, y + lane), lane, group.y);
  }
  find_rows(y_axis, group);
  group.interior = 0;
  for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(IndexTag())) {
    const auto interior = hn::And(inside(group.x, x_axis, lane), inside(group.y, y_axis, lane));
    group.interior |= bits_of(IndexTag(), interior) << lane;
  }
}

// Plans `count` samples from the given one on.
template <int kTaps, class T>
HWY_INLINE void plan_group(const Image<const T>& grid, const Axis& x_axis, const Axis& y_axis, int64_t first,
                           int64_t count, SampleGroup<RealOf<T>, kTaps>& group) {
  alignas(64) RealOf<T> x[kGroup];
  alignas(64) RealOf<T> y[kGroup];
  load_coordinates(grid, first, count, x, y);
  plan_coordinates(x, y, x_axis, y_axis, group);
  group.interior &= (1u << count) - 1;  // so that only a full group is ever interior as a whole
}

// Plans the y axis alone.
template <int kTaps, class T>
HWY_INLINE void plan_rows(const Image<const T>& grid, const Axis& y_axis, int64_t first, int64_t count,
                          SampleGroup<RealOf<T>, kTaps>& group) {
  const GroupTag<RealOf<T>> d;
  alignas(64) RealOf<T> x[kGroup];
  alignas(64) RealOf<T> y[kGroup];
  load_coordinates(grid, first, count, x, y);
  for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
    plan_lanes(d, y_axis, hn::Load(d, y + lane), lane, group.y);
  }
  find_rows(y_axis, group);
}

// Rows that `count` samples from the given one on have to do with.
template <int kTaps, class T>
RowSpan rows_of_samples(const Image<const T>& grid, Axis y_axis, int64_t first, int64_t count) {
  const IndexTag d;
  auto first_row = index_vector(-kNowhere);
  auto last_row = hn::Zero(d);
  for (int64_t k = 0; k < count; k += kGroup) {
    SampleGroup<RealOf<T>, kTaps> group;
    plan_rows(grid, y_axis, first + k, std::min<int64_t>(kGroup, count - k), group);
    for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
      first_row = hn::Min(first_row, hn::Load(d, group.first_row + lane));
      last_row = hn::Max(last_row, hn::Load(d, group.last_row + lane));
    }
  }
  return {hn::GetLane(hn::MinOfLanes(d, first_row)), hn::GetLane(hn::MaxOfLanes(d, last_row))};
}

// The last row that a sample of the group reads.
template <int kTaps, class Real>
HWY_INLINE int64_t last_row_of(const SampleGroup<Real, kTaps>& group) {
  const IndexTag d;
  auto last_row = hn::Zero(d);
  for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
    last_row = hn::Max(last_row, hn::Load(d, group.last_row + lane));
  }
  return hn::GetLane(hn::MaxOfLanes(d, last_row));
}

// A bit for each of `count` samples of a group that has to do with the band.
template <int kTaps, class Real>
HWY_INLINE uint32_t samples_of_band(const SampleGroup<Real, kTaps>& group, int64_t count, RowBand band) {
  const IndexTag d;
  uint32_t bits = 0;
  for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
    const auto meets = hn::And(hn::Gt(hn::Load(d, group.last_row + lane), index_vector(band.begin - 1)),
                               hn::Lt(hn::Load(d, group.first_row + lane), index_vector(band.end)));
    bits |= bits_of(d, meets) << lane;
  }
  return bits & ((1u << count) - 1);
}

// A bit for each sample of a group whose gradient the band writes.
template <int kTaps, class Real>
HWY_INLINE uint32_t samples_owned(const SampleGroup<Real, kTaps>& group, RowBand band) {
  const IndexTag d;
  uint32_t bits = 0;
  for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
    const auto first_row = hn::Load(d, group.first_row + lane);
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
HWY_INLINE SampleTaps<kTaps> sample_taps(const SampleGroup<Real, kTaps>& group, size_t i, const Axis& x_axis,
                                         const Axis& y_axis) {
  SampleTaps<kTaps> taps;
  for (int k = 0; k < kTaps; ++k) {
    taps.row[k] = tap_pixel<kTaps>(int64_t{group.y.first[i]} + k, y_axis);
    taps.column[k] = tap_pixel<kTaps>(int64_t{group.x.first[i]} + k, x_axis);
  }
  return taps;
}

// Writes the gradients, x and y, of those samples of a group whose bits are set.
template <class T, class Real = RealOf<T>>
HWY_INLINE void store_grid_grad(const Image<T>& grid_grad, int64_t first, uint32_t bits, const Real* x,
                                const Real* y) {
  if (bits == kAllSamples && is_interleaved_grid(grid_grad)) {
    const GroupTag<Real> d;
    T* to = grid_grad.data + grid_grad.offset(first);
    alignas(64) Real rounded_later[2 * kGroup];
    Real* pairs = rounded_later;
    if constexpr (std::is_same_v<T, Real>) pairs = to;
    for (size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
      hn::StoreInterleaved2(hn::Load(d, x + lane), hn::Load(d, y + lane), d, pairs + 2 * lane);
    }
    if constexpr (!std::is_same_v<T, Real>) {
      for (size_t i = 0; i < 2 * kGroup; i += kLanes) store(load(pairs + i), to + i);
    }
    return;
  }
  for (; bits != 0; bits &= bits - 1) {
    const auto i = static_cast<size_t>(__builtin_ctz(bits));
    T* to = grid_grad.data + grid_grad.offset(first + static_cast<int64_t>(i));
    to[0] = from_real<T>(x[i]);
    to[grid_grad.channel_stride] = from_real<T>(y[i]);
  }
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
HWY_INLINE TapWeights<D, kTaps> broadcast_weights(D d, const SampleGroup<hn::TFromD<D>, kTaps>& group,
                                                  size_t i) {
  TapWeights<D, kTaps> weights;
  for (int k = 0; k < kTaps; ++k) {
    weights.x[k] = hn::Set(d, group.x.weight[k][i]);
    weights.y[k] = hn::Set(d, group.y.weight[k][i]);
  }
  return weights;
}

// The weights of the samples from `lane` on.
template <class D, int kTaps>
HWY_INLINE TapWeights<D, kTaps> load_weights(D d, const SampleGroup<hn::TFromD<D>, kTaps>& group,
                                             size_t lane) {
  TapWeights<D, kTaps> weights;
  for (int k = 0; k < kTaps; ++k) {
    weights.x[k] = hn::LoadU(d, group.x.weight[k] + lane);
    weights.y[k] = hn::LoadU(d, group.y.weight[k] + lane);
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
HWY_INLINE Slopes<hn::Vec<D>> grid_gradients(D d, const SampleGroup<hn::TFromD<D>, kTaps>& group, size_t lane,
                                             Product&& product) {
  using V = hn::Vec<D>;
  const auto weights = load_weights<D, kTaps>(d, group, lane);
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
        row_slope = hn::MulAdd(hn::LoadU(d, group.x.slope[c] + lane), product(r, c), row_slope);
      }
      x = hn::MulAdd(weights.y[r], row_slope, x);
      y = hn::MulAdd(hn::LoadU(d, group.y.slope[r] + lane), row, y);
    }
  }
  return {hn::Mul(x, hn::LoadU(d, group.x.scale + lane)), hn::Mul(y, hn::LoadU(d, group.y.scale + lane))};
}

// The same from products with the differences of 2 x 2 pixels: right minus left, above and below, then below minus
// above, left and right.
template <class D, class Difference>
HWY_INLINE Slopes<hn::Vec<D>> bilinear_gradients(D d, const SampleGroup<hn::TFromD<D>, 2>& group, size_t lane,
                                                 Difference&& difference) {
  const auto weights = load_weights<D, 2>(d, group, lane);
  const auto x = hn::MulAdd(weights.y[1], difference(1), hn::Mul(weights.y[0], difference(0)));
  const auto y = hn::MulAdd(weights.x[1], difference(3), hn::Mul(weights.x[0], difference(2)));
  return {hn::Mul(x, hn::LoadU(d, group.x.scale + lane)), hn::Mul(y, hn::LoadU(d, group.y.scale + lane))};
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
