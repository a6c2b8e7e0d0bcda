// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The weights of taps as their samples move along grad_grad_grid. Bilinear and bicubic.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_DOUBLE_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_DOUBLE_BACKWARD_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_DOUBLE_BACKWARD_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_DOUBLE_BACKWARD_INL_H_
#endif

#include "ops/grid_sampler/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// grad_grad_grid of a block of samples, in pixels.
template <class Real>
struct Tangents {
  alignas(64) Real x[kBlock];
  alignas(64) Real y[kBlock];
};

// Whether a sample reads any pixel along an axis.
template <int kTaps>
bool reads_axis(int32_t first, const Axis& axis) {
  if (first > -kTaps && first < axis.size) return true;
  return kTaps == 4 && axis.padding != Padding::zeros && first > kNowhere;
}

// A sample that reads nothing has none, and neither has one along an axis on which it is clipped, whatever
// grad_grad_grid is: infinity times zero is no zero.
template <int kTaps, class Real>
HWY_INLINE void find_tangents(const Block<Real>& block, const Axis* axes, const Real* along_x,
                              const Real* along_y, Tangents<Real>& tangents) {
  for (size_t i = 0; i < kBlock; ++i) {
    const bool reads =
        reads_axis<kTaps>(block.x().first[i], axes[0]) && reads_axis<kTaps>(block.y().first[i], axes[1]);
    const Real x_scale = reads ? block.x().scale[i] : 0;
    const Real y_scale = reads ? block.y().scale[i] : 0;
    tangents.x[i] = x_scale == 0 ? 0 : x_scale * along_x[i];
    tangents.y[i] = y_scale == 0 ? 0 : y_scale * along_y[i];
  }
}

// The weights along one axis for the samples from `lane` on, with their first and second derivatives by the position in
// pixels.
template <class D, int kTaps>
struct AxisCurves {
  hn::Vec<D> weight[kTaps];
  hn::Vec<D> slope[kTaps];
  hn::Vec<D> curvature[kTaps];

  HWY_INLINE AxisCurves(D d, const AxisTaps<hn::TFromD<D>>& taps, size_t lane) {
    using Real = hn::TFromD<D>;
    for (int k = 0; k < kTaps; ++k) weight[k] = hn::Load(d, taps.weight[k] + lane);
    if constexpr (kTaps == 2) {
      slope[0] = hn::Set(d, Real{-1});
      slope[1] = hn::Set(d, Real{1});
      curvature[0] = curvature[1] = hn::Zero(d);
    } else {
      for (int k = 0; k < kTaps; ++k) slope[k] = hn::Load(d, taps.slope[k] + lane);
      // Those of the cubic convolution are linear in the position, and so is the sum of the outer slopes.
      const auto position = hn::Add(slope[0], slope[3]);
      const auto three_quarters = hn::Set(d, Real{0.75});
      curvature[0] = hn::NegMulAdd(hn::Set(d, Real{3}), position, three_quarters);
      curvature[1] = hn::MulSub(hn::Set(d, Real{5}), position, three_quarters);
      curvature[2] = hn::Neg(hn::MulAdd(hn::Set(d, Real{5}), position, three_quarters));
      curvature[3] = hn::MulAdd(hn::Set(d, Real{3}), position, three_quarters);
    }
  }
};

// What the samples from `lane` on give.
template <class D, int kTaps>
class BlockCurves {
 public:
  using Real = hn::TFromD<D>;
  using V = hn::Vec<D>;

  HWY_INLINE BlockCurves(D d, const Block<Real>& block, const Tangents<Real>& tangents, size_t lane)
      : x_(d, block.x(), lane),
        y_(d, block.y(), lane),
        along_x_(hn::Load(d, tangents.x + lane)),
        along_y_(hn::Load(d, tangents.y + lane)),
        x_scale_(hn::Load(d, block.x().scale + lane)),
        y_scale_(hn::Load(d, block.y().scale + lane)) {}

  // The derivative of a tap's weight along the tangents.
  HWY_INLINE V weight_along(int row, int column) const {
    return hn::MulAdd(hn::Mul(y_.weight[row], x_.slope[column]), along_x_,
                      hn::Mul(hn::Mul(y_.slope[row], x_.weight[column]), along_y_));
  }

  // The gradient of the grid: product(row, column) is the sum over all channels of grad_output times the input's pixel
  // of the tap, and grad_product(row, column) the same with grad_grad_input's.
  template <class Product, class GradProduct>
  HWY_INLINE Slopes<V> grid_gradient(D d, Product&& product, GradProduct&& grad_product) const {
    V x = hn::Zero(d), y = hn::Zero(d);                      // of grad_grad_input
    V xx = hn::Zero(d), xy = hn::Zero(d), yy = hn::Zero(d);  // of the input
    for (int row = 0; row < kTaps; ++row) {
      V weights = hn::Zero(d), slopes = hn::Zero(d);
      V grad_weights = hn::Zero(d), grad_slopes = hn::Zero(d), curvatures = hn::Zero(d);
      for (int column = 0; column < kTaps; ++column) {
        const V of_input = product(row, column);
        const V of_grad = grad_product(row, column);
        grad_weights = hn::MulAdd(x_.weight[column], of_grad, grad_weights);
        grad_slopes = hn::MulAdd(x_.slope[column], of_grad, grad_slopes);
        slopes = hn::MulAdd(x_.slope[column], of_input, slopes);
        if constexpr (kTaps == 4) {
          weights = hn::MulAdd(x_.weight[column], of_input, weights);
          curvatures = hn::MulAdd(x_.curvature[column], of_input, curvatures);
        }
      }
      x = hn::MulAdd(y_.weight[row], grad_slopes, x);
      y = hn::MulAdd(y_.slope[row], grad_weights, y);
      xy = hn::MulAdd(y_.slope[row], slopes, xy);
      if constexpr (kTaps == 4) {
        xx = hn::MulAdd(y_.weight[row], curvatures, xx);
        yy = hn::MulAdd(y_.curvature[row], weights, yy);
      }
    }
    x = hn::MulAdd(xy, along_y_, x);
    y = hn::MulAdd(xy, along_x_, y);
    if constexpr (kTaps == 4) {
      x = hn::MulAdd(xx, along_x_, x);
      y = hn::MulAdd(yy, along_y_, y);
    }
    return {hn::Mul(x, x_scale_), hn::Mul(y, y_scale_)};
  }

 private:
  AxisCurves<D, kTaps> x_;
  AxisCurves<D, kTaps> y_;
  V along_x_;
  V along_y_;
  V x_scale_;
  V y_scale_;
};

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
