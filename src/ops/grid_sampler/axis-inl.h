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

// An axis whose numbers are in vectors already, for kernels that come to many samples.
template <class D>
struct VectorAxis {
  using Real = hn::TFromD<D>;
  using V = hn::Vec<D>;

  Axis axis;
  V factor, offset, last_factor;  // from a shifted coordinate to a pixel
  V scale;                        // pixels for each unit of a coordinate
  V last;                         // pixel

  HWY_INLINE explicit VectorAxis(const Axis& of) : axis(of) {
    const D d;
    const Real half{0.5}, one{1}, end = static_cast<Real>(of.size) - one;
    factor = hn::Set(d, of.align_corners ? half : static_cast<Real>(of.size));
    offset = hn::Set(d, of.align_corners ? Real{0} : one);
    last_factor = hn::Set(d, of.align_corners ? end : half);
    scale = hn::Set(d, (of.align_corners ? end : static_cast<Real>(of.size)) * half);
    last = hn::Set(d, last_pixel<Real>(of));
  }

  HWY_INLINE V unnormalise(V coordinate) const {
    const auto shifted = hn::Add(coordinate, hn::Set(D(), Real{1}));
    return hn::Mul(hn::Sub(hn::Mul(shifted, factor), offset), last_factor);
  }
};

// Moves what is outside to the border, which has no gradient.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void clip(D d, const VectorAxis<D>& of, V& pixel, V& scale) {
  const auto zero = hn::Zero(d);
  const auto low = of.axis.forward ? hn::Not(hn::Gt(pixel, zero)) : hn::Le(pixel, zero);
  const auto high = hn::Ge(pixel, of.last);
  pixel = hn::IfThenElse(low, zero, hn::IfThenElse(high, of.last, pixel));
  scale = hn::IfThenZeroElse(hn::Or(low, high), scale);
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
template <class D, class V = hn::Vec<D>>
HWY_NOINLINE void mirror_each(D d, const Axis& axis, V& pixel, V& scale) {
  using Real = hn::TFromD<D>;
  Real pixels[hn::MaxLanes(D())], scales[hn::MaxLanes(D())];
  hn::StoreU(pixel, d, pixels);
  hn::StoreU(scale, d, scales);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    const Mirrored<Real> mirrored = mirror(pixels[i], axis);
    pixels[i] = mirrored.pixel;
    if (mirrored.backwards) scales[i] = -scales[i];
  }
  pixel = hn::LoadU(d, pixels);
  scale = hn::LoadU(d, scales);
}

// Mirrors what is outside: without align_corners the mirror lies half a pixel beyond the border.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void reflect(D d, const VectorAxis<D>& of, V& pixel, V& scale) {
  using Real = hn::TFromD<D>;
  const auto zero = hn::Zero(d);
  const Axis& axis = of.axis;
  const Real low = axis.align_corners ? Real{0} : Real{-0.5};
  const auto span = static_cast<Real>(axis.align_corners ? axis.size - 1 : axis.size);
  if (span == 0) {
    pixel = hn::IfThenElse(hn::IsNaN(pixel), pixel, zero);
    scale = zero;
    return;
  }
  const auto distance = hn::Sub(pixel, hn::Set(d, low));
  const auto is_far = hn::Ge(hn::Abs(distance), hn::Set(d, Real{1 << 21}));
  if (HWY_UNLIKELY(!hn::AllFalse(d, is_far))) {
    V far_pixel = pixel, far_scale = scale;  // copies, so that the others need no memory
    mirror_each(d, axis, far_pixel, far_scale);
    pixel = far_pixel;
    scale = far_scale;
    return;
  }
  hn::Vec<D> flips = zero;
  const auto extra = remainder(d, hn::Abs(distance), hn::Set(d, span), flips);
  const auto halves = hn::Mul(flips, hn::Set(d, Real{0.5}));
  const auto odd = hn::Ne(halves, hn::Floor(halves));
  const auto mirrored = hn::IfThenElse(odd, hn::Sub(hn::Set(d, span), extra), extra);
  const auto backwards = hn::Xor(odd, hn::Lt(distance, zero));
  pixel = hn::Add(mirrored, hn::Set(d, low));
  scale = hn::IfThenElse(backwards, hn::Neg(scale), scale);
}

template <class D>
HWY_INLINE hn::Mask<D> has_pixel_number(D d, hn::Vec<D> pixel) {
  return hn::Lt(hn::Abs(pixel), hn::Set(d, static_cast<hn::TFromD<D>>(-kNowhere - 64)));
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
template <class D, class V = hn::Vec<D>>
HWY_NOINLINE void bring_near(D d, const Axis& axis, V& whole, V& scale) {
  using Real = hn::TFromD<D>;
  Real pixels[hn::MaxLanes(D())], scales[hn::MaxLanes(D())];
  hn::StoreU(whole, d, pixels);
  hn::StoreU(scale, d, scales);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (!std::isfinite(pixels[i]) || std::fabs(pixels[i]) < kFar<Real>) continue;
    if (has_no_neighbours(pixels[i])) scales[i] = 0;
    pixels[i] = static_cast<Real>(near_index(pixels[i], axis));
  }
  whole = hn::LoadU(d, pixels);
  scale = hn::LoadU(d, scales);
}

template <int kTaps, class D>
HWY_INLINE hn::Vec<D> first_tap(D d, hn::Vec<D> pixel) {
  if constexpr (kTaps == 1) return hn::Round(pixel);
  const auto whole = hn::Floor(pixel);
  return kTaps == 2 ? whole : hn::Sub(whole, hn::Set(d, hn::TFromD<D>{1}));
}

// From the first tap of a sample to its whole number, which is exact where that of the first tap may not be.
template <int kTaps>
inline constexpr int kTapsBefore = kTaps == 4 ? 1 : 0;

// The taps of as many samples along an axis as a vector holds, neighbours from `first` on: a whole number.
template <class D, int kTaps>
struct VectorTaps {
  hn::Vec<D> first;
  hn::Vec<D> whole;  // the first one's number; that of the second where there are four
  hn::Vec<D> scale;  // pixels by which a sample moves, for each unit of its grid coordinate
  hn::Vec<D> weight[kTaps];
  hn::Vec<D> fraction;  // of a bicubic sample: its distance from its second tap

  // Of samples that are at these positions and need no padding any more.
  HWY_INLINE void find_at(D d, hn::Vec<D> pixel) {
    const auto one = hn::Set(d, hn::TFromD<D>{1});
    whole = kTaps == 1 ? hn::Round(pixel) : hn::Floor(pixel);
    first = first_tap<kTaps>(d, pixel);
    if constexpr (kTaps == 1) {
      weight[0] = one;
    } else if constexpr (kTaps == 2) {
      weight[0] = hn::Sub(hn::Add(first, one), pixel);
      weight[1] = hn::Sub(pixel, first);
    } else {
      fraction = hn::Sub(pixel, whole);
      const auto t = fraction, u = hn::Sub(one, t);
      weight[0] = far_weight(d, hn::Add(t, one));
      weight[1] = near_weight(d, t);
      weight[2] = near_weight(d, u);
      weight[3] = far_weight(d, hn::Add(u, one));
    }
  }

  // Of samples at any positions. Those without a place are nowhere. Bicubic, where the taps are padded and not the
  // sample, the weights of a sample that is not finite are NaN forward.
  HWY_INLINE void find_anywhere(D d, const VectorAxis<D>& of, hn::Vec<D> pixel) {
    const auto nowhere = hn::Set(d, static_cast<hn::TFromD<D>>(kNowhere));
    if constexpr (kTaps == 4) {
      const auto is_finite = hn::IsFinite(pixel);
      scale = hn::IfThenElseZero(is_finite, scale);
      // One NaN for all: of two that differ, a product is either, as the compiler orders them.
      pixel = hn::IfThenElse(is_finite, pixel, of.axis.forward ? hn::NaN(d) : hn::Zero(d));
      find_at(d, pixel);
      const auto is_far = hn::Ge(hn::Abs(whole), hn::Set(d, kFar<hn::TFromD<D>>));
      if (HWY_UNLIKELY(!hn::AllFalse(d, is_far))) {
        auto near_whole = whole, near_scale = scale;  // copies, so that the others need no memory
        bring_near(d, of.axis, near_whole, near_scale);
        whole = near_whole;
        scale = near_scale;
      }
      whole = hn::IfThenElse(is_finite, whole, nowhere);
      first = hn::Sub(whole, hn::Set(d, hn::TFromD<D>{1}));
    } else {
      const auto has_place = has_pixel_number(d, pixel);
      scale = hn::IfThenElseZero(has_place, scale);
      pixel = hn::IfThenElse(has_place, pixel, nowhere);
      find_at(d, pixel);
      // From 2^24 on, the next whole number may be the same in float.
      if (kTaps == 2)
        weight[0] = hn::IfThenElse(hn::Eq(whole, pixel), hn::Set(d, hn::TFromD<D>{1}), weight[0]);
    }
  }
};

template <class D, int kTaps, int kAxes>
HWY_INLINE TapWeights<D, kTaps, kAxes> weights_of(const VectorTaps<D, kTaps> (&taps)[kAxes]) {
  TapWeights<D, kTaps, kAxes> weights;
  for (int axis = 0; axis < kAxes; ++axis) {
    for (int k = 0; k < kTaps; ++k) weights.along[axis][k] = taps[axis].weight[k];
  }
  return weights;
}

// The position in pixels of samples, padded unless it is the taps that are, and its derivative by the coordinate.
template <int kTaps, class D, class V = hn::Vec<D>>
HWY_INLINE V find_position(D d, const VectorAxis<D>& of, V coordinate, V& scale) {
  V pixel = of.unnormalise(coordinate);
  scale = of.scale;
  if (kTaps == 4 || of.axis.padding == Padding::zeros) return pixel;
  if (of.axis.padding == Padding::reflection) reflect(d, of, pixel, scale);
  clip(d, of, pixel, scale);
  return pixel;
}

// The derivatives of bicubic weights by the position in pixels.
template <class D>
HWY_INLINE void find_slopes(D d, hn::Vec<D> t, hn::Vec<D> (&slopes)[4]) {
  const auto one = hn::Set(d, hn::TFromD<D>{1});
  const auto u = hn::Sub(one, t);
  slopes[0] = far_slope(d, hn::Add(t, one));
  slopes[1] = near_slope(d, t);
  slopes[2] = hn::Neg(near_slope(d, u));
  slopes[3] = hn::Neg(far_slope(d, hn::Add(u, one)));
}

// Prepares the taps of as many samples as a vector holds, from `lane` on.
template <int kTaps, class D, class Real>
HWY_INLINE void prepare_lanes(D d, const VectorAxis<D>& axis, hn::Vec<D> coordinate, size_t lane,
                              AxisTaps<Real>& taps) {
  VectorTaps<D, kTaps> found;
  const auto pixel = find_position<kTaps>(d, axis, coordinate, found.scale);
  found.find_anywhere(d, axis, pixel);
  store_whole(d, found.whole, kTapsBefore<kTaps>, taps.first + lane);
  hn::Store(found.scale, d, taps.scale + lane);
  for (int k = 0; k < kTaps; ++k) hn::Store(found.weight[k], d, taps.weight[k] + lane);
  if constexpr (kTaps == 4) {
    hn::Vec<D> slopes[4];
    find_slopes(d, found.fraction, slopes);
    for (int k = 0; k < 4; ++k) hn::Store(slopes[k], d, taps.slope[k] + lane);
  }
}

// The first and the last pixel that each sample of a block reads along an axis; 0 if it reads none.
template <int kTaps, class Real>
HWY_INLINE void find_span(const Axis& axis, const AxisTaps<Real>& taps, Span& span) {
  const IndexTag d;
  const auto end = index_vector(axis.size - 1);
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
    const auto first_tap = hn::Load(d, taps.first + lane);
    const auto last_tap = hn::Add(first_tap, hn::Set(d, kTaps - 1));
    hn::Store(hn::Min(hn::Max(first_tap, hn::Zero(d)), end), d, span.first + lane);
    hn::Store(hn::Min(hn::Max(last_tap, hn::Zero(d)), end), d, span.last + lane);
  }
  if (kTaps != 4 || axis.padding != Padding::reflection) return;
  // Mirrored taps are still neighbours, but elsewhere.
  for (size_t i = 0; i < kBlock; ++i) {
    const int64_t first_tap = taps.first[i];
    if (first_tap >= 0 && first_tap + kTaps <= axis.size) continue;
    int64_t pixels[kTaps];
    for (int k = 0; k < kTaps; ++k) pixels[k] = std::max<int64_t>(0, tap_pixel<kTaps>(first_tap + k, axis));
    span.first[i] = static_cast<int32_t>(*std::min_element(pixels, pixels + kTaps));
    span.last[i] = static_cast<int32_t>(*std::max_element(pixels, pixels + kTaps));
  }
}

// Lanes whose taps along one axis are all pixels.
template <int kTaps, class Real>
HWY_INLINE hn::Mask<IndexTag> inside(const AxisTaps<Real>& taps, const Axis& axis, size_t lane) {
  const auto first = hn::Load(IndexTag(), taps.first + lane);
  return hn::And(hn::Gt(first, hn::Set(IndexTag(), -1)), hn::Lt(first, index_vector(axis.size - kTaps + 1)));
}

// Prepares blocks of samples at coordinates[axis][sample]: the axes from the given one on.
template <int kTaps, class Real, int kAxes>
HWY_INLINE void prepare_coordinates(const Axis* axes, const Real (&coordinates)[kAxes][kMaxSamples],
                                    int first_axis, int64_t count, Block<Real, kAxes>* blocks) {
  const BlockTag<Real> d;
  for (int k = first_axis; k < kAxes; ++k) {
    const VectorAxis<BlockTag<Real>> axis(axes[k]);
    const Real* from = coordinates[k];
    for (Block<Real, kAxes>* block = blocks; block != blocks + count; ++block, from += kBlock) {
      for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d))
        prepare_lanes<kTaps>(d, axis, hn::Load(d, from + lane), lane, block->taps[k]);
    }
  }
  for (Block<Real, kAxes>* block = blocks; block != blocks + count; ++block) {
    for (int k = 1; k < kAxes; ++k) find_span<kTaps>(axes[k], block->taps[k], block->spans[k - 1]);
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
