// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Where the samples of a grid fall among the voxels of a volume, 16 samples at a time.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_VOLUME_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_VOLUME_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_VOLUME_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_VOLUME_INL_H_
#endif

#include <array>

#include "ops/grid_sampler/axis-inl.h"
#include "ops/grid_sampler/volume.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// Up to 16 samples of one image, in their order: neighbours, or listed. What is missing repeats the last.
struct SampleBlock {
  int64_t count;
  int64_t first;
  const uint32_t* listed = nullptr;  // numbers, counted from `first`

  int64_t operator[](int64_t k) const {
    const int64_t at = std::min(k, count - 1);
    return first + (listed == nullptr ? at : listed[at]);
  }
  // All of them, for what looks at them more than once.
  HWY_INLINE std::array<int64_t, kBlock> numbers() const {
    std::array<int64_t, kBlock> result;
    if (listed == nullptr) {
      for (int64_t k = 0; k < kBlock; ++k) result[k] = first + std::min(k, count - 1);
    } else {
      for (int64_t k = 0; k < kBlock; ++k) result[k] = first + listed[std::min(k, count - 1)];
    }
    return result;
  }
  bool is_consecutive() const {
    return count == kBlock && (listed == nullptr || listed[kBlock - 1] - listed[0] == kBlock - 1);
  }
};

// Where a block's samples lie in a volume with an element for each sample: side by side from at[0] on, or anywhere.
struct SampleOffsets {
  int64_t at[kBlock];
  bool are_contiguous;
};

// Calls body(k, offset of sample k) for all 16 samples of a block, in a volume with an element for each sample.
template <class T, class Body>
HWY_INLINE void for_each_offset(const Volume<T>& volume, const SampleBlock& block, Body&& body) {
  if (volume.is_flat()) {
    const int64_t stride = volume.flat_stride();
    for (int64_t k = 0; k < kBlock; ++k) body(k, block[k] * stride);
    return;
  }
  const auto sample = block.numbers();
  int64_t x = 0, y = 0, z = 0;
  for (int64_t k = 0; k < kBlock; ++k) {
    if (k > 0 && sample[k] == sample[k - 1] + 1) {
      if (++x == volume.width) x = 0, ++y;
      if (y == volume.height) y = 0, ++z;
    } else if (k == 0 || sample[k] != sample[k - 1]) {
      x = sample[k] % volume.width;
      y = sample[k] / volume.width % volume.height;
      z = sample[k] / volume.width / volume.height;
    }
    body(k, volume.offset(z, y, x));
  }
}

// Calls body(slice, first pixel there, k, count) for runs of neighbours in a slice, from sample k of the block on.
template <class T, class Body>
HWY_INLINE void for_each_run(const Volume<T>& volume, const SampleBlock& block, Body&& body) {
  const auto sample = block.numbers();
  const int64_t pixels = volume.height * volume.width;
  for (int64_t k = 0; k < block.count;) {
    const int64_t z = sample[k] / pixels, first = sample[k] % pixels;
    int64_t end = k + 1;
    while (end < block.count && sample[end] == sample[end - 1] + 1 && first + end - k < pixels) ++end;
    body(volume.slice(z), first, k, end - k);
    k = end;
  }
}

template <class T>
HWY_INLINE SampleOffsets offsets_of(const Volume<T>& volume, const SampleBlock& block) {
  SampleOffsets offsets;
  offsets.are_contiguous = block.is_consecutive() && volume.is_flat() && volume.flat_stride() == 1;
  if (offsets.are_contiguous) {
    offsets.at[0] = block[0];
  } else {
    for_each_offset(volume, block, [&](int64_t k, int64_t offset) { offsets.at[k] = offset; });
  }
  return offsets;
}

template <class Real, int kTaps>
struct VolumeGroup {
  AxisTaps<Real> x, y, z;
  uint32_t interior;  // a bit for each sample whose taps are all voxels
};

// Whether x, y and z of the block's samples lie side by side.
template <class T>
inline bool is_interleaved(const Volume<T>& grid, const SampleBlock& block) {
  return block.is_consecutive() && grid.is_flat() && grid.flat_stride() == 3 && grid.channel_stride == 1;
}

template <class T, class Real = RealOf<T>>
HWY_INLINE void load_coordinates(const Volume<const T>& grid, const SampleBlock& block,
                                 Real (&to)[3][kBlock]) {
  const BlockTag<Real> d;
  if (is_interleaved(grid, block)) {
    alignas(64) Real widened[3 * kBlock];
    const Real* triples = widened;
    const T* from = grid.data + 3 * block[0];
    if constexpr (std::is_same_v<T, Real>) {
      triples = from;
    } else {
      for (size_t i = 0; i < 3 * kBlock; i += kLanes) store(load(from + i), widened + i);
    }
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      auto x = hn::Undefined(d), y = hn::Undefined(d), z = hn::Undefined(d);
      hn::LoadInterleaved3(d, triples + 3 * lane, x, y, z);
      hn::Store(x, d, to[0] + lane);
      hn::Store(y, d, to[1] + lane);
      hn::Store(z, d, to[2] + lane);
    }
    return;
  }
  for_each_offset(grid, block, [&](int64_t k, int64_t offset) {
    for (int64_t axis = 0; axis < 3; ++axis)
      to[axis][k] = to_real(grid.data[offset + axis * grid.channel_stride]);
  });
}

template <int kTaps, class Real>
HWY_INLINE void plan_axis(const Axis& of_axis, const Real* coordinates, AxisTaps<Real>& taps) {
  const BlockTag<Real> d;
  const VectorAxis<BlockTag<Real>> axis(of_axis);
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
    prepare_lanes<kTaps>(d, axis, hn::Load(d, coordinates + lane), lane, taps);
  }
}

// Not inline, nor is what else happens once a block: a copy in each kernel is more code and gains nothing.
template <int kTaps, class T>
HWY_NOINLINE void plan_block(const Volume<const T>& grid, const VolumeAxes& axes, const SampleBlock& block,
                             VolumeGroup<RealOf<T>, kTaps>& group) {
  alignas(64) RealOf<T> coordinates[3][kBlock];
  load_coordinates(grid, block, coordinates);
  plan_axis<kTaps>(axes.x, coordinates[0], group.x);
  plan_axis<kTaps>(axes.y, coordinates[1], group.y);
  plan_axis<kTaps>(axes.z, coordinates[2], group.z);
  group.interior = 0;
  for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(IndexTag())) {
    const auto interior =
        hn::And(hn::And(inside<kTaps>(group.x, axes.x, lane), inside<kTaps>(group.y, axes.y, lane)),
                inside<kTaps>(group.z, axes.z, lane));
    group.interior |= bits_of(IndexTag(), interior) << lane;
  }
  group.interior &= (1u << block.count) - 1;  // so that only a full block is ever interior as a whole
}

// Writes the gradients, x, y and z, of those samples of a block whose bits are set.
template <class T, class Real = RealOf<T>>
HWY_NOINLINE void store_grid_grad(const Volume<T>& grid_grad, const SampleBlock& block, uint32_t bits,
                                  const Real (&slopes)[3][kBlock]) {
  if constexpr (std::is_same_v<T, Real>) {
    if (bits == kAllSamples && is_interleaved(grid_grad, block)) {
      const BlockTag<Real> d;
      alignas(64) Real triples[3 * kBlock];
      for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
        hn::StoreInterleaved3(hn::Load(d, slopes[0] + lane), hn::Load(d, slopes[1] + lane),
                              hn::Load(d, slopes[2] + lane), d, triples + 3 * lane);
      }
      store_lines(triples, grid_grad.outgrows_caches, grid_grad.data + 3 * block[0]);
      return;
    }
  }
  for_each_offset(grid_grad, block, [&](int64_t k, int64_t offset) {
    if ((bits >> k & 1) == 0) return;
    for (int64_t axis = 0; axis < 3; ++axis)
      grid_grad.data[offset + axis * grid_grad.channel_stride] = from_real<T>(slopes[axis][k]);
  });
}

// Calls body(k) for k in [0, kCount), each a std::integral_constant, so that vectors in arrays stay in registers.
template <int kCount, class Body>
HWY_INLINE void unroll(Body&& body) {
  [&]<int... kIndices>(std::integer_sequence<int, kIndices...>) HWY_ATTR {
    (body(std::integral_constant<int, kIndices>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

// ---- Arithmetic, lane by lane: lanes are channels of one sample, or samples

template <class D, int kTaps>
struct VolumeWeights {
  hn::Vec<D> x[kTaps], y[kTaps], z[kTaps];

  HWY_INLINE hn::Vec<D> of(int slice, int row, int column) const {
    return hn::Mul(hn::Mul(z[slice], y[row]), x[column]);
  }
};

// The weights of the samples from `lane` on.
template <class D, int kTaps>
HWY_INLINE VolumeWeights<D, kTaps> load_weights(D d, const VolumeGroup<hn::TFromD<D>, kTaps>& group,
                                                size_t lane) {
  VolumeWeights<D, kTaps> weights;
  for (int k = 0; k < kTaps; ++k) {
    weights.x[k] = hn::Load(d, group.x.weight[k] + lane);
    weights.y[k] = hn::Load(d, group.y.weight[k] + lane);
    weights.z[k] = hn::Load(d, group.z.weight[k] + lane);
  }
  return weights;
}

template <int kTaps>
inline constexpr int kVoxelTaps = kTaps* kTaps* kTaps;

// Tap k of a sample along each axis.
template <int kTaps>
struct TapIndex {
  int slice, row, column;
  constexpr explicit TapIndex(int k) : slice(k / kTaps / kTaps), row(k / kTaps % kTaps), column(k % kTaps) {}
};

// The sum of the values of the taps, each with its weight.
template <int kTaps, class D>
HWY_INLINE hn::Vec<D> interpolated(D d, const VolumeWeights<D, kTaps>& weights,
                                   const hn::Vec<D> (&values)[kVoxelTaps<kTaps>]) {
  auto sum = hn::Zero(d);
  unroll<kVoxelTaps<kTaps>>([&](auto k) HWY_ATTR {
    constexpr TapIndex<kTaps> tap(k);
    sum = hn::MulAdd(weights.of(tap.slice, tap.row, tap.column), values[k], sum);
  });
  return sum;
}

template <class V>
struct VolumeSlopes {
  V x, y, z;
};

// Derivatives of the interpolated value(slice, row, column) by the place, in voxels.
template <class D, class Value>
HWY_INLINE VolumeSlopes<hn::Vec<D>> trilinear_slopes(D, const VolumeWeights<D, 2>& w, Value&& value) {
  const auto mix = [](const hn::Vec<D>(&weights)[2], hn::Vec<D> a, hn::Vec<D> b)
                       HWY_ATTR { return hn::MulAdd(weights[1], b, hn::Mul(weights[0], a)); };
  const auto step = [&](int slice, int row)
                        HWY_ATTR { return hn::Sub(value(slice, row, 1), value(slice, row, 0)); };
  const auto along_x = [&](int slice, int row)
                           HWY_ATTR { return mix(w.x, value(slice, row, 0), value(slice, row, 1)); };
  const auto v00 = along_x(0, 0), v01 = along_x(0, 1), v10 = along_x(1, 0), v11 = along_x(1, 1);
  return {mix(w.z, mix(w.y, step(0, 0), step(0, 1)), mix(w.y, step(1, 0), step(1, 1))),
          mix(w.z, hn::Sub(v01, v00), hn::Sub(v11, v10)), mix(w.y, hn::Sub(v10, v00), hn::Sub(v11, v01))};
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
