// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Taps beside the edges of an image, some of which are no pixels.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_EDGES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_EDGES_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_EDGES_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_EDGES_INL_H_
#endif

#include "ops/grid_sampler/axis-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// A tap of each sample: the pixel that it reads, or one next to the edge where it is none.
template <class D>
struct PaddedTap {
  hn::Vec<D> pixel;
  hn::Mask<D> is_pixel;
};

template <int kTaps, class D, class V = hn::Vec<D>>
HWY_NOINLINE V mirror_taps(D d, V taps, const Axis& axis) {
  alignas(64) hn::TFromD<D> pixels[hn::MaxLanes(D())];
  hn::Store(taps, d, pixels);
  for (auto& pixel : pixels)
    pixel = static_cast<hn::TFromD<D>>(tap_pixel<kTaps>(static_cast<int64_t>(pixel), axis));
  return hn::Load(d, pixels);
}

template <int kTaps, class D>
HWY_INLINE PaddedTap<D> pad_tap(D d, hn::Vec<D> tap, const Axis& axis) {
  using Real = hn::TFromD<D>;
  const auto last = hn::Set(d, last_pixel<Real>(axis));
  auto is_pixel = hn::And(hn::Ge(tap, hn::Zero(d)), hn::Le(tap, last));
  if (kTaps == 4 && axis.padding != Padding::zeros) {
    is_pixel = hn::Gt(tap, hn::Set(d, static_cast<Real>(kNowhere + kTaps)));
    if (axis.padding == Padding::reflection) tap = mirror_taps<kTaps>(d, tap, axis);
  }
  return {hn::Min(hn::Max(tap, hn::Zero(d)), last), is_pixel};
}

// Moves the weights of bilinear samples from their taps, some of which may be no pixels, to the pixels of an axis that are
// next to each sample, or to the edge that it is beyond. Returns the first of the two, which of them are taps, and whether
// a tap is the other one of them.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V weigh_pair(D d, V last_first, V first_tap, V (&weight)[2], hn::Mask<D> (&is_tap)[2],
                        hn::Mask<D>& is_moved) {
  const V zero = hn::Zero(d), one = hn::Set(d, hn::TFromD<D>{1}),
          first = hn::Min(hn::Max(first_tap, zero), last_first);
  const V beyond = hn::Sub(first_tap, first);
  const auto is_inside = hn::Eq(beyond, zero);
  const auto is_before = hn::Eq(beyond, hn::Neg(one)), is_behind = hn::Eq(beyond, one);
  const V of_first = weight[0], of_second = weight[1];
  weight[0] = hn::IfThenElse(is_inside, of_first, hn::IfThenElseZero(is_before, of_second));
  weight[1] = hn::IfThenElse(is_inside, of_second, hn::IfThenElseZero(is_behind, of_first));
  is_tap[0] = hn::Or(is_inside, is_before);
  is_tap[1] = hn::Or(is_inside, is_behind);
  is_moved = hn::Or(is_before, is_behind);
  return first;
}

// Whether the pixels of all samples are next to each other in a row.
template <class D, int kAxes, class V = hn::Vec<D>>
HWY_INLINE bool are_neighbours(D d, const V (&pixels)[kAxes]) {
  auto is_next = hn::FirstN(d, hn::MaxLanes(D()));
  for (int k = 0; k < kAxes; ++k) {
    const V in_line = k == 0 ? hn::Sub(pixels[k], hn::Iota(d, hn::TFromD<D>{0})) : pixels[k];
    is_next = hn::And(is_next, hn::Eq(in_line, hn::Set(d, hn::GetLane(pixels[k]))));
  }
  return hn::AllTrue(d, is_next);
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
