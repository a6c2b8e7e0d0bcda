// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Blocks of samples: their coordinates read, their taps prepared, their gradients written. This is where forward operator
// and gradient find out which pixels a sample reads.
#include "ops/grid_sampler/layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid_sampler/blocks_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/grid_sampler/axis-inl.h"
#include "ops/grid_sampler/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {
namespace {

// The elements of an interleaved grid, one after the other.
Image elements_of(const Image& grid) {
  return {grid.data, grid.type, 1, 1, 2 * grid.pixels(), 0, 0, 1};
}

}  // namespace

template <class Real>
void load_coordinates(const Image& grid, int64_t first, int64_t count, Real (&to)[2][kMostSamples]) {
  // The next calls', which the hardware does not prefetch beyond the end of a page.
  constexpr int64_t kPrefetchElements = 2 * 2 * kMostSamples;
  const BlockTag<Real> d;
  if (has_interleaved_coordinates(grid)) {
    alignas(64) Real loaded[2 * kMostSamples];
    const bool in_place = grid.type == data_type_of<Real> && count % kBlock == 0;
    if (!in_place) load_pixels(elements_of(grid), 0, 1, 2 * first, 2 * count, loaded, 0);
    const Real* pairs = in_place ? grid.channel<Real>(0) + 2 * first : loaded;
    for (size_t k = 0; k < static_cast<size_t>(count); k += hn::Lanes(d)) {
      hwy::Prefetch(pairs + 2 * k + kPrefetchElements);
      hwy::Prefetch(pairs + 2 * k + kPrefetchElements + hn::Lanes(d));
      auto xs = hn::Undefined(d), ys = hn::Undefined(d);
      hn::LoadInterleaved2(d, pairs + 2 * k, xs, ys);
      hn::Store(xs, d, to[0] + k);
      hn::Store(ys, d, to[1] + k);
    }
  } else {
    load_pixels(grid, 0, 2, first, count, to[0], kMostSamples);
  }
  for (auto& of_axis : to) {
    for (int64_t k = count; k % kBlock != 0; ++k) of_axis[k] = of_axis[count - 1];
  }
}

namespace {

template <int kTaps, class Real>
void prepare(const Axis (&axes)[2], const Image& grid, int64_t first, int64_t count, bool rows_only,
             Block<Real>* blocks) {
  alignas(64) Real coordinates[2][kMostSamples];
  load_coordinates(grid, first, count, coordinates);
  prepare_coordinates<kTaps>(axes, coordinates, rows_only ? 1 : 0, divide_up(count, kBlock), blocks);
  // So that only a full block is ever interior as a whole.
  if (count % kBlock != 0) blocks[count / kBlock].interior &= (1u << count % kBlock) - 1;
}

template <class Real>
auto choose_prepare(Interpolation interpolation) {
  auto* chosen = prepare<1, Real>;
  visit_taps(interpolation, [&](auto taps) { chosen = prepare<taps, Real>; });
  return chosen;
}

template <class Real>
RowSpan span_of_samples(const Sampling& sampling, int64_t image, int64_t first, int64_t count) {
  const IndexTag d;
  auto first_row = index_vector(-kNowhere);
  auto last_row = hn::Zero(d);
  Block<Real> blocks[kMostBlocks];
  choose_prepare<Real>(sampling.interpolation)(sampling.axes, sampling.grid[image], first, count, true,
                                               blocks);
  for (int64_t k = 0; k < divide_up(count, kBlock); ++k) {
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      first_row = hn::Min(first_row, hn::Load(d, blocks[k].first_row + lane));
      last_row = hn::Max(last_row, hn::Load(d, blocks[k].last_row + lane));
    }
  }
  return {hn::GetLane(hn::MinOfLanes(d, first_row)), hn::GetLane(hn::MaxOfLanes(d, last_row))};
}

}  // namespace

template <class Real>
void prepare_blocks(const Sampling& sampling, int64_t image, int64_t first, int64_t count,
                    Block<Real>* blocks) {
  choose_prepare<Real>(sampling.interpolation)(sampling.axes, sampling.grid[image], first, count, false,
                                               blocks);
}

void prepare_rows(const Sampling& sampling, int64_t image, int64_t first, int64_t count,
                  Block<float>* blocks) {
  choose_prepare<float>(sampling.interpolation)(sampling.axes, sampling.grid[image], first, count, true,
                                                blocks);
}

void load_coordinates(const Image& grid, const int64_t* samples, float (&to)[kBlock][2]) {
  visit_type<float>(grid.type, [&]<class T>(T) {
    const T* from = grid.channel<T>(0);
    for (int i = 0; i < kBlock; ++i) {
      const int64_t offset = grid.offset(samples[i]);
      to[i][0] = to_real(from[offset]);
      to[i][1] = to_real(from[offset + grid.channel_stride]);
    }
  });
}

void prepare_samples(const Sampling& sampling, int64_t image, const int64_t* samples, Block<float>& block) {
  float pairs[kBlock][2];
  load_coordinates(sampling.grid[image], samples, pairs);
  const Image listed{pairs, DataType::float32, 2, 1, kBlock, 1, 2 * kBlock, 2};
  choose_prepare<float>(sampling.interpolation)(sampling.axes, listed, 0, kBlock, false, &block);
}

void find_spans(const Sampling& sampling, int64_t first_image, int64_t images, int64_t chunk_samples,
                double serial_nanoseconds, RowSpan* spans) {
  const auto find = sampling.type == DataType::float64 ? span_of_samples<double> : span_of_samples<float>;
  const int64_t chunks = divide_up(sampling.samples, chunk_samples);
  parallel_for(images * chunks, serial_nanoseconds, [&](int64_t task) {
    const int64_t first = task % chunks * chunk_samples;
    spans[task] =
        find(sampling, first_image + task / chunks, first, std::min(chunk_samples, sampling.samples - first));
  });
}

template <class Real>
void store_grid_grad(const Image& grid_grad, int64_t first, uint32_t bits, const Real* x, const Real* y) {
  if (bits == kAllSamples && has_interleaved_coordinates(grid_grad)) {
    const BlockTag<Real> d;
    alignas(64) Real pairs[2 * kBlock];
    for (size_t lane = 0; lane < kBlock; lane += hn::Lanes(d)) {
      hn::StoreInterleaved2(hn::Load(d, x + lane), hn::Load(d, y + lane), d, pairs + 2 * lane);
    }
    if (grid_grad.type == data_type_of<Real>) {
      store_lines(pairs, grid_grad.outgrows_caches, grid_grad.channel<Real>(0) + 2 * first);
    } else {
      store_pixels(elements_of(grid_grad), 0, 1, 2 * first, 2 * kBlock, pairs, 0);
    }
    return;
  }
  int64_t samples[kBlock];
  for (int i = 0; i < kBlock; ++i) samples[i] = first + i;
  store_grid_grad(grid_grad, samples, bits, x, y);
}

template <class Real>
void store_grid_grad(const Image& grid_grad, const int64_t* samples, uint32_t bits, const Real* x,
                     const Real* y) {
  visit_type<Real>(grid_grad.type, [&]<class T>(T) {
    for (uint32_t rest = bits; rest != 0; rest &= rest - 1) {
      const auto i = static_cast<size_t>(__builtin_ctz(rest));
      T* to = grid_grad.channel<T>(0) + grid_grad.offset(samples[i]);
      to[0] = from_real<T>(x[i]);
      to[grid_grad.channel_stride] = from_real<T>(y[i]);
    }
  });
}

template void load_coordinates<float>(const Image&, int64_t, int64_t, float (&)[2][kMostSamples]);
template void load_coordinates<double>(const Image&, int64_t, int64_t, double (&)[2][kMostSamples]);
template void prepare_blocks<float>(const Sampling&, int64_t, int64_t, int64_t, Block<float>*);
template void prepare_blocks<double>(const Sampling&, int64_t, int64_t, int64_t, Block<double>*);
template void store_grid_grad<float>(const Image&, int64_t, uint32_t, const float*, const float*);
template void store_grid_grad<double>(const Image&, int64_t, uint32_t, const double*, const double*);
template void store_grid_grad<float>(const Image&, const int64_t*, uint32_t, const float*, const float*);

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
