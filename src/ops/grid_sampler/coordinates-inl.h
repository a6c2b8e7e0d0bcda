// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The coordinates of a grid as vectors, and the loop over samples of the forward kernels that read them.
#if defined(ACLGRAD_OPS_GRID_SAMPLER_COORDINATES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_OPS_GRID_SAMPLER_COORDINATES_INL_H_
#undef ACLGRAD_OPS_GRID_SAMPLER_COORDINATES_INL_H_
#else
#define ACLGRAD_OPS_GRID_SAMPLER_COORDINATES_INL_H_
#endif

#include <algorithm>

#include "ops/grid_sampler/interleaved-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE {

// Reads a grid, whose vectors of samples are asked for in their order. What does not lie in memory as a vector is loaded
// some vectors ahead. Others are prefetched: kPrefetchVectors ahead, while the processor waits for pixels.
template <class Real, int kAxes, int64_t kPrefetchVectors = 4>
class GridReader {
 public:
  using D = BlockTag<Real>;
  using V = hn::Vec<D>;
  static constexpr int64_t kSamples = hn::MaxLanes(D());

  explicit GridReader(const Image& grid)
      : grid_(grid), has_vectors_(grid.type == data_type_of<Real> && has_interleaved_coordinates(grid)) {}

  // The grid of another image.
  void go_to(const Image& grid) {
    grid_.data = grid.data;
    begin_ = -kMaxSamples;
  }

  // Of samples [first, first + count), at most as many as a vector has lanes. The lanes behind them hold any others.
  HWY_INLINE void load(int64_t first, int64_t count, V (&to)[kAxes]) {
    if (HWY_LIKELY(has_vectors_ && count == kSamples)) {
      const Real* from = grid_.channel<Real>(0) + kAxes * first;
      for (int axis = 0; axis < kAxes; ++axis)
        hwy::Prefetch(from + (kAxes * kPrefetchVectors + axis) * kSamples);
      return load_interleaved(D(), from, to);
    }
    if (has_vectors_) {
      read_part(first, count);
    } else if (first < begin_ || first + kSamples > begin_ + kMaxSamples) {
      read_ahead(first);
    }
    for (int axis = 0; axis < kAxes; ++axis) to[axis] = hn::LoadU(D(), staged_[axis] + (first - begin_));
  }

  // Of those from `first` on, if that is cheap. Returns whether it is.
  HWY_INLINE bool look_ahead(int64_t first, V (&to)[kAxes]) const {
    if (!has_vectors_ || first + kSamples > grid_.pixels()) return false;
    load_interleaved(D(), grid_.channel<Real>(0) + kAxes * first, to);
    return true;
  }

 private:
  // Of a vector. The last sample stands for those behind it.
  HWY_NOINLINE void read_part(int64_t first, int64_t count) {
    const Real* from = grid_.channel<Real>(0) + kAxes * first;
    for (int axis = 0; axis < kAxes; ++axis) {
      for (int64_t k = 0; k < kSamples; ++k) staged_[axis][k] = from[kAxes * std::min(k, count - 1) + axis];
    }
    begin_ = first;
  }

  HWY_NOINLINE void read_ahead(int64_t first) {
    load_coordinates(grid_, Samples{first, std::min(kMaxSamples, grid_.pixels() - first)}, staged_);
    begin_ = first;
  }

  Image grid_;
  const bool has_vectors_;
  int64_t begin_ = -kMaxSamples;  // of what is staged
  alignas(64) Real staged_[kAxes][kMaxSamples];
};

// Calls body(first, count) for chunks of samples [begin, end), of whole vectors where there are as many samples: the last
// vector then may have samples of the one before.
template <int64_t kSamples, class Body>
HWY_INLINE void for_each_chunk(int64_t begin, int64_t end, int64_t chunk_samples, Body&& body) {
  const int64_t last = end - begin < kSamples ? begin : end - kSamples;
  while (begin < end) {
    const int64_t first = std::min(begin, last), left = end - first;
    const int64_t count = left < kSamples ? left : std::min(left / kSamples * kSamples, chunk_samples);
    body(first, count);
    begin = first + count;
  }
}

// Runs a forward kernel on all images: a new one for each run of samples, or for some images of few samples.
template <class Forward>
void sample_runs(const Sampling& sampling) {
  const auto sample = [](const Sampling& ordered, int64_t image, int64_t images, int64_t first, int64_t end) {
    Forward forward(ordered);
    for (int64_t k = 0; k < images; ++k) {
      forward.go_to(ordered, image + k);
      forward.sample(first, end);
    }
  };
  for_each_run(sampling, sampling.channels <= kFewChannels ? 2048 : Forward::kChunkSamples,
               forward_nanoseconds(sampling), +sample);  // a pointer, of one type for all kernels
}

}  // namespace aclgrad::ops::grid_sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
