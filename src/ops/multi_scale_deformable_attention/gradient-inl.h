// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the gradient and the gradient of the gradient share: a query's row of grad_output, the pixels beside its
// samples, and bilinear interpolation.
//
// Included by hwy/foreach_target.h, once for each instruction set.
#if defined(ACLGRAD_MSDA_GRADIENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_MSDA_GRADIENT_INL_H_
#undef ACLGRAD_MSDA_GRADIENT_INL_H_
#else
#define ACLGRAD_MSDA_GRADIENT_INL_H_
#endif

#include "base/simd-inl.h"
#include "ops/multi_scale_deformable_attention/grad_tasks.h"
#include "ops/multi_scale_deformable_attention/sampling-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE {

// ---- A query's row of grad_output, in chunks of 16 channels

template <int kChunks>
struct RegisterRow {
  Float16Lanes chunks[kChunks];

  template <class T>
  HWY_INLINE RegisterRow(const T* from, int64_t) {
    for (int64_t i = 0; i < kChunks; ++i) chunks[i] = load16(from + kChunkChannels * i);
  }
  static constexpr int64_t size() { return kChunks; }
  HWY_INLINE const Float16Lanes& operator[](int64_t i) const { return chunks[i]; }
};

template <class T>
struct MemoryRow {
  const T* from;
  int64_t chunks;
  Float16Lanes last;

  HWY_INLINE MemoryRow(const T* row, int64_t channels) : from(row), chunks(chunks_of(channels)) {
    const T* last_chunk = from + kChunkChannels * (chunks - 1);
    const auto count = static_cast<size_t>(from + channels - last_chunk);
    last = count == kChunkChannels ? load16(last_chunk) : load16(last_chunk, count);
  }
  int64_t size() const { return chunks; }
  HWY_INLINE Float16Lanes operator[](int64_t i) const {
    return i + 1 < chunks ? load16(from + kChunkChannels * i) : last;
  }
};

// Calls function(integral_constant) with the chunks of a row that registers hold, or 0.
template <class Function>
void with_chunks(int64_t channels, Function&& function) {
  switch (channels) {
    case 16:
      return function(std::integral_constant<int, 1>());
    case 32:
      return function(std::integral_constant<int, 2>());
    case 64:
      return function(std::integral_constant<int, 4>());
    default:
      return function(std::integral_constant<int, 0>());
  }
}

template <class T, int kChunks>
using RowOf = std::conditional_t<kChunks == 0, MemoryRow<T>, RegisterRow<kChunks>>;

// ---- Pixels

// One row of a head, of value and of the sums of its gradient.
template <class T>
struct Pixel {
  const T* value;
  float* grad_value;
};

// The rows of a head, of value, of what its gradient is multiplied with, and of the sums of its gradient.
template <class T>
struct Pixels {
  const T* value;
  int64_t value_stride;
  const T* grad_grad_value;
  int64_t grad_grad_stride;
  float* grad_value;
  int64_t grad_stride;

  Pixels(const HeadTask& task, const GradPlanes& planes)
      : value(static_cast<const T*>(task.value.first)),
        value_stride(task.value.stride),
        grad_grad_value(static_cast<const T*>(task.grad_grad_value.first)),
        grad_grad_stride(task.grad_grad_value.stride),
        grad_value(planes.first),
        grad_stride(planes.row_stride) {}

  HWY_INLINE Pixel<T> operator[](int64_t row) const {
    return {value + row * value_stride, grad_value + row * grad_stride};
  }
  HWY_INLINE Pixel<T> right_of(const Pixel<T>& pixel) const {
    return {pixel.value + value_stride, pixel.grad_value + grad_stride};
  }
};

// Where few rows are ever sampled: sets those to zero that the points are the first to touch, and asks for
// their values, which no cache holds yet. They are listed first, without a branch that nothing foretells.
template <class T>
HWY_NOINLINE void touch_rows(const Samples& samples, int64_t points, int64_t channels,
                             const Pixels<T>& pixels, bool* is_touched) {
  int64_t touched[4 * kBlockPoints];
  int64_t count = 0;
  for (int64_t i = 0; i < points; ++i) {
    for (const auto& rows : samples.row) {
      const int64_t row = rows[i];
      if (row < 0) continue;
      touched[count] = row;
      count += is_touched[row] ? 0 : 1;
      is_touched[row] = true;
    }
  }
  const int64_t bytes = channels * static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    const auto [value, grad_value] = pixels[touched[i]];
    prefetch_lines(value, bytes);
    if (pixels.grad_grad_value != nullptr)
      prefetch_lines(pixels.grad_grad_value + touched[i] * pixels.grad_grad_stride, bytes);
    for (int64_t c = 0; c < channels; c += kChunkChannels) store16(zero16(), grad_value + c);
  }
}

// ---- Interpolation

// Of four corners' numbers: the one at the sample, and its derivatives by x and y, in pixels.
struct Interpolation {
  FloatVector value;
  FloatVector x_slope;
  FloatVector y_slope;

  // `right` and `below` are the distances from the corners at the left and above.
  HWY_INLINE Interpolation(const FloatVector (&corner)[4], FloatVector right, FloatVector below) {
    const auto one = hn::Set(FloatTag(), 1.0f);
    const auto left = hn::Sub(one, right);
    const auto above = hn::Sub(one, below);
    x_slope = hn::MulAdd(below, hn::Sub(corner[3], corner[2]), hn::Mul(above, hn::Sub(corner[1], corner[0])));
    y_slope = hn::MulAdd(right, hn::Sub(corner[3], corner[1]), hn::Mul(left, hn::Sub(corner[2], corner[0])));
    const auto value_above = hn::MulAdd(right, corner[1], hn::Mul(left, corner[0]));
    const auto value_below = hn::MulAdd(right, corner[3], hn::Mul(left, corner[2]));
    value = hn::MulAdd(below, value_below, hn::Mul(above, value_above));
  }
};

// Rounds a block's gradients, which stand in place of what they belong to, to those that are wanted.
template <class T, class Problem>
HWY_NOINLINE void write_gradients(const Problem& problem, const HeadTask& task, const Block& block,
                                  const Samples& samples) {
  const auto [first_query, queries, first_point, points] = block;
  if (problem.grad_sampling_locations.defined()) {
    write_runs<T>(samples.location,
                  runs_of<T>(problem.grad_sampling_locations, task, 2 * first_point, 2 * points), first_query,
                  queries, task.last_query);
  }
  if (problem.grad_attention_weights.defined()) {
    write_runs<T>(samples.attention, runs_of<T>(problem.grad_attention_weights, task, first_point, points),
                  first_query, queries, task.last_query);
  }
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
