// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The weights of taps as their samples move along grad_grad_grid.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_DOUBLE_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_DOUBLE_BACKWARD_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_DOUBLE_BACKWARD_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_DOUBLE_BACKWARD_INL_H_
#endif

#include "ops/grid_sampler/axis-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// Whether a sample reads any pixel along an axis.
template <int kTaps>
bool reads_axis(int32_t first, const Axis& axis) {
  if (first > -kTaps && first < axis.size) return true;
  return kTaps == 4 && axis.padding != Padding::zeros && first > kNowhere;
}

// The tangents of a block of samples along x, y and z: grad_grad_grid in pixels. `along`: grad_grad_grid, of this block from
// `first` on. A sample that reads nothing has none, and neither has one along an axis on which it is clipped, whatever
// grad_grad_grid is: infinity times zero is no zero.
template <int kTaps, class Real, int kAxes>
HWY_INLINE void find_tangents(const Block<Real, kAxes>& block, const Axis* axes,
                              const Real (&along)[kAxes][kMaxSamples], int64_t first,
                              Real (&tangents)[kAxes][kBlock]) {
  for (int64_t i = 0; i < kBlock; ++i) {
    bool reads = true;
    for (int axis = 0; axis < kAxes; ++axis)
      reads &= reads_axis<kTaps>(block.taps[axis].first[i], axes[axis]);
    for (int axis = 0; axis < kAxes; ++axis) {
      const Real scale = reads ? block.taps[axis].scale[i] : 0;
      tangents[axis][i] = scale == 0 ? 0 : scale * along[axis][first + i];
    }
  }
}

// The weights of samples along one axis, with their first and second derivatives by the position in pixels.
template <class D, int kTaps>
struct AxisCurves {
  hn::Vec<D> weight[kTaps];
  hn::Vec<D> slope[kTaps];
  hn::Vec<D> curvature[kTaps];

  // Of the samples of a block from `lane` on.
  HWY_INLINE AxisCurves(D d, const AxisTaps<hn::TFromD<D>>& taps, size_t lane) {
    for (int k = 0; k < kTaps; ++k) weight[k] = hn::Load(d, taps.weight[k] + lane);
    for (int k = 0; kTaps == 4 && k < kTaps; ++k) slope[k] = hn::Load(d, taps.slope[k] + lane);
    find_curvatures(d);
  }

  HWY_INLINE AxisCurves(D d, const VectorTaps<D, kTaps>& taps) {
    for (int k = 0; k < kTaps; ++k) weight[k] = taps.weight[k];
    if constexpr (kTaps == 4) find_slopes(d, taps.fraction, slope);
    find_curvatures(d);
  }

 private:
  HWY_INLINE void find_curvatures(D d) {
    using Real = hn::TFromD<D>;
    if constexpr (kTaps == 2) {
      slope[0] = hn::Set(d, Real{-1});
      slope[1] = hn::Set(d, Real{1});
      curvature[0] = curvature[1] = hn::Zero(d);
    } else {
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

// What samples give: those of a block from `lane` on, or of a vector.
template <class D, int kTaps, int kAxes = 2>
class SampleCurves {
 public:
  using Real = hn::TFromD<D>;
  using V = hn::Vec<D>;

  HWY_INLINE SampleCurves(D d, const Block<Real>& block, const Real (&tangents)[2][kBlock], size_t lane)
      : x_(d, block.x(), lane),
        y_(d, block.y(), lane),
        along_x_(hn::Load(d, tangents[0] + lane)),
        along_y_(hn::Load(d, tangents[1] + lane)),
        x_scale_(hn::Load(d, block.x().scale + lane)),
        y_scale_(hn::Load(d, block.y().scale + lane)) {}

  HWY_INLINE SampleCurves(D d, const VectorTaps<D, kTaps> (&taps)[2], const V (&along)[2])
      : x_(d, taps[0]),
        y_(d, taps[1]),
        along_x_(along[0]),
        along_y_(along[1]),
        x_scale_(taps[0].scale),
        y_scale_(taps[1].scale) {}

  HWY_INLINE V weight(TapIndex<kTaps> tap) const {
    return hn::Mul(y_.weight[tap.row], x_.weight[tap.column]);
  }

  // The derivative of a tap's weight along the tangents.
  HWY_INLINE V weight_along(TapIndex<kTaps> tap) const {
    return hn::MulAdd(hn::Mul(y_.weight[tap.row], x_.slope[tap.column]), along_x_,
                      hn::Mul(hn::Mul(y_.slope[tap.row], x_.weight[tap.column]), along_y_));
  }

  // The gradient of the grid: product(k) is the sum over all channels of grad_output times the input's pixel of tap k, and
  // grad_product(k) the same with grad_grad_input's.
  template <class Product, class GradProduct>
  HWY_INLINE Slopes<V> grid_gradient(D d, Product&& product, GradProduct&& grad_product) const {
    V x = hn::Zero(d), y = hn::Zero(d);                      // of grad_grad_input
    V xx = hn::Zero(d), xy = hn::Zero(d), yy = hn::Zero(d);  // of the input
    for (int row = 0; row < kTaps; ++row) {
      V weights = hn::Zero(d), slopes = hn::Zero(d);
      V grad_weights = hn::Zero(d), grad_slopes = hn::Zero(d), curvatures = hn::Zero(d);
      for (int column = 0; column < kTaps; ++column) {
        const V of_input = product(row * kTaps + column);
        const V of_grad = grad_product(row * kTaps + column);
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

// The same of volumes.
template <class D>
class SampleCurves<D, 2, 3> {
 public:
  using Real = hn::TFromD<D>;
  using V = hn::Vec<D>;

  HWY_INLINE SampleCurves(D d, const Block<Real, 3>& block, const Real (&tangents)[3][kBlock], size_t lane)
      : weights_(load_weights<D, 2>(d, block, lane)) {
    for (int axis = 0; axis < 3; ++axis) {
      along_[axis] = hn::Load(d, tangents[axis] + lane);
      scales_[axis] = hn::Load(d, block.taps[axis].scale + lane);
    }
  }

  HWY_INLINE SampleCurves(D, const VectorTaps<D, 2> (&taps)[3], const V (&along)[3])
      : weights_(weights_of(taps)) {
    for (int axis = 0; axis < 3; ++axis) {
      along_[axis] = along[axis];
      scales_[axis] = taps[axis].scale;
    }
  }

  HWY_INLINE V weight(TapIndex<2> tap) const { return weights_.of(tap); }

  HWY_INLINE V weight_along(TapIndex<2> tap) const {
    const V z = weights_.z()[tap.slice], y = weights_.y()[tap.row], x = weights_.x()[tap.column];
    const auto times = [](int side, V v) HWY_ATTR { return side == 0 ? hn::Neg(v) : v; };
    const V across = hn::MulAdd(y, times(tap.slice, along_[2]), hn::Mul(z, times(tap.row, along_[1])));
    return hn::MulAdd(x, across, hn::Mul(hn::Mul(z, y), times(tap.column, along_[0])));
  }

  template <class Product, class GradProduct>
  HWY_INLINE Slopes<V, 3> grid_gradient(D d, Product&& product, GradProduct&& grad_product) const {
    const auto of_input = slopes_along(product), of_grad = trilinear_slopes(d, weights_, grad_product);
    Slopes<V, 3> sum;
    for (int axis = 0; axis < 3; ++axis)
      sum.along[axis] = hn::Mul(hn::Add(of_input.along[axis], of_grad.along[axis]), scales_[axis]);
    return sum;
  }

 private:
  // The derivatives of trilinear_slopes() along the tangents. Along its own axis a slope does not change.
  template <class Value>
  HWY_INLINE Slopes<V, 3> slopes_along(Value&& v) const {
    const auto mix = [](const V(&weights)[2], V a, V b)
                         HWY_ATTR { return hn::MulAdd(weights[1], b, hn::Mul(weights[0], a)); };
    // How a difference of two taps, `a` from each other, changes over `b` taps.
    const auto twist = [&](int tap, int a, int b) HWY_ATTR {
      return hn::Sub(hn::Sub(v(tap + a + b), v(tap + b)), hn::Sub(v(tap + a), v(tap)));
    };
    const V xy = mix(weights_.z(), twist(0, 1, 2), twist(4, 1, 2));
    const V xz = mix(weights_.y(), twist(0, 1, 4), twist(2, 1, 4));
    const V yz = mix(weights_.x(), twist(0, 2, 4), twist(1, 2, 4));
    const V *x = &along_[0], *y = &along_[1], *z = &along_[2];
    return {hn::MulAdd(xy, *y, hn::Mul(xz, *z)), hn::MulAdd(xy, *x, hn::Mul(yz, *z)),
            hn::MulAdd(xz, *x, hn::Mul(yz, *y))};
  }

  TapWeights<D, 2, 3> weights_;
  V along_[3];
  V scales_[3];
};

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
