// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// From a coordinate to the taps of an axis: unnormalised, padded, with weights and derivatives. For 16 samples at a time,
// and any axis of an image or a volume.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_AXIS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_AXIS_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_AXIS_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_AXIS_INL_H_
#endif

#include "ops/grid_sampler/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

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

// Stores whole numbers less `step`, which the numbers themselves may be too large for.
HWY_INLINE void store_whole(BlockTag<float> d, hn::Vec<BlockTag<float>> whole, int32_t step, int32_t* to) {
  const hn::RebindToSigned<decltype(d)> integer;
  hn::StoreU(hn::Sub(hn::ConvertTo(integer, whole), hn::Set(integer, step)), integer, to);
}

HWY_INLINE void store_whole(BlockTag<double> d, hn::Vec<BlockTag<double>> whole, int32_t step, int32_t* to) {
  const hn::Rebind<int32_t, decltype(d)> integer;
  hn::StoreU(hn::Sub(hn::DemoteTo(integer, whole), hn::Set(integer, step)), integer, to);
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

// Prepares the taps of as many samples as a vector holds, from `lane` on.
template <int kTaps, class D, class Real>
HWY_INLINE void prepare_padded_lanes(D d, const Axis& axis, hn::Vec<D> coordinate, size_t lane,
                                     AxisTaps<Real>& taps) {
  const auto one = hn::Set(d, Real{1});
  Position<D> at = padded_position(d, axis, coordinate);
  const auto has_place = has_pixel_number(d, at.pixel);
  at.pixel = hn::IfThenElse(has_place, at.pixel, hn::Set(d, static_cast<Real>(kNowhere)));
  hn::Store(hn::IfThenElseZero(has_place, at.scale), d, taps.scale + lane);

  const auto whole = kTaps == 1 ? hn::Round(at.pixel) : hn::Floor(at.pixel);
  store_whole(d, whole, 0, taps.first + lane);
  if constexpr (kTaps == 1) {
    hn::Store(one, d, taps.weight[0] + lane);
  } else {
    // From 2^24 on, the next whole number may be the same in float.
    const auto to_next = hn::Sub(hn::Add(whole, one), at.pixel);
    hn::Store(hn::IfThenElse(hn::Eq(whole, at.pixel), one, to_next), d, taps.weight[0] + lane);
    hn::Store(hn::Sub(at.pixel, whole), d, taps.weight[1] + lane);
  }
}

// Bicubic: the taps are padded, not the sample. Forward, the weights of a sample that is not finite are NaN.
template <class D, class Real>
HWY_INLINE void prepare_cubic_lanes(D d, const Axis& axis, hn::Vec<D> coordinate, size_t lane,
                                    AxisTaps<Real>& taps) {
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
  store_whole(d, hn::IfThenElse(has_place, whole.pixel, nowhere), 1, taps.first + lane);

  hn::Store(far_weight(d, hn::Add(t, one)), d, taps.weight[0] + lane);
  hn::Store(near_weight(d, t), d, taps.weight[1] + lane);
  hn::Store(near_weight(d, u), d, taps.weight[2] + lane);
  hn::Store(far_weight(d, hn::Add(u, one)), d, taps.weight[3] + lane);
  hn::Store(far_slope(d, hn::Add(t, one)), d, taps.slope[0] + lane);
  hn::Store(near_slope(d, t), d, taps.slope[1] + lane);
  hn::Store(hn::Neg(near_slope(d, u)), d, taps.slope[2] + lane);
  hn::Store(hn::Neg(far_slope(d, hn::Add(u, one))), d, taps.slope[3] + lane);
}

// The first and the last pixel that each sample of a block reads along an axis; 0 if it reads none.
template <int kTaps, class Real>
HWY_INLINE void find_span(const Axis& axis, const AxisTaps<Real>& taps, int32_t* first, int32_t* last) {
  const IndexTag d;
  const auto end = index_vector(axis.size - 1);
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
    const auto first_tap = hn::Load(d, taps.first + lane);
    const auto last_tap = hn::Add(first_tap, hn::Set(d, kTaps - 1));
    hn::Store(hn::Min(hn::Max(first_tap, hn::Zero(d)), end), d, first + lane);
    hn::Store(hn::Min(hn::Max(last_tap, hn::Zero(d)), end), d, last + lane);
  }
  if (kTaps != 4 || axis.padding != Padding::reflection) return;
  // Mirrored taps are still neighbours, but elsewhere.
  for (size_t i = 0; i < kBlock; ++i) {
    const int64_t first_tap = taps.first[i];
    if (first_tap >= 0 && first_tap + kTaps <= axis.size) continue;
    int64_t pixels[kTaps];
    for (int k = 0; k < kTaps; ++k) pixels[k] = std::max<int64_t>(0, tap_pixel<kTaps>(first_tap + k, axis));
    first[i] = static_cast<int32_t>(*std::min_element(pixels, pixels + kTaps));
    last[i] = static_cast<int32_t>(*std::max_element(pixels, pixels + kTaps));
  }
}

// Lanes whose taps along one axis are all pixels.
template <int kTaps, class Real>
HWY_INLINE hn::Mask<IndexTag> inside(const AxisTaps<Real>& taps, const Axis& axis, size_t lane) {
  const auto first = hn::Load(IndexTag(), taps.first + lane);
  return hn::And(hn::Gt(first, hn::Set(IndexTag(), -1)), hn::Lt(first, index_vector(axis.size - kTaps + 1)));
}

// Prepares one axis of blocks of samples at these coordinates.
template <int kTaps, class Real, int kAxes>
HWY_INLINE void prepare_axis(const Axis& of_axis, int k, const Real* coordinates, int64_t count,
                             Block<Real, kAxes>* blocks) {
  const BlockTag<Real> d;
  const Axis axis = of_axis;
  for (Block<Real, kAxes>* block = blocks; block != blocks + count; ++block, coordinates += kBlock) {
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      const auto coordinate = hn::Load(d, coordinates + lane);
      if constexpr (kTaps == 4) {
        prepare_cubic_lanes(d, axis, coordinate, lane, block->taps[k]);
      } else {
        prepare_padded_lanes<kTaps>(d, axis, coordinate, lane, block->taps[k]);
      }
    }
  }
}

// Prepares blocks of samples at coordinates[axis][sample]: the axes from the given one on. The last one is that of rows.
template <int kTaps, class Real, int kAxes>
HWY_INLINE void prepare_coordinates(const Axis (&axes)[kAxes], const Real (&coordinates)[kAxes][kMostSamples],
                                    int first_axis, int64_t count, Block<Real, kAxes>* blocks) {
  for (int k = first_axis; k < kAxes; ++k) prepare_axis<kTaps>(axes[k], k, coordinates[k], count, blocks);
  for (Block<Real, kAxes>* block = blocks; block != blocks + count; ++block) {
    find_span<kTaps>(axes[kAxes - 1], block->taps[kAxes - 1], block->first_row, block->last_row);
    block->interior = 0;
    if (first_axis != 0) continue;
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(IndexTag())) {
      auto interior = inside<kTaps>(block->taps[0], axes[0], lane);
      for (int k = 1; k < kAxes; ++k)
        interior = hn::And(interior, inside<kTaps>(block->taps[k], axes[k], lane));
      block->interior |= bits_of(IndexTag(), interior) << lane;
    }
  }
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
