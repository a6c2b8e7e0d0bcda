// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of the gradient of multi-scale deformable attention on the CPU, in one pass over the samples. How its
// work is shared out: grad_tasks.h.
//
// The tangents are the gradients with respect to the first gradient's results: with them every weight of a corner,
// which is attention * bilinear weight, has a change, its derivative along the tangents of location and attention. With
// G the gradient of output and V' the tangent of value:
//
//   grad_grad_output         sums weight * V' + change * V over the corners of all samples of a query
//   grad_value               sums change * G over the samples beside a pixel
//   the gradients of a sample's location and attention weight follow from G * V and G * V' at its four corners
#include "ops/multi_scale_deformable_attention/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/multi_scale_deformable_attention/double_backward_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/multi_scale_deformable_attention/gradient-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE {

// ---- Sums of one query's output, in chunks of 16 channels, kept in memory from block to block

template <int kChunks>
struct RegisterSums {
  float* memory;
  Float16Lanes chunks[kChunks];

  explicit HWY_INLINE RegisterSums(float* sums) : memory(sums) {
    for (int64_t i = 0; i < kChunks; ++i) chunks[i] = load16(memory + kChunkChannels * i);
  }
  HWY_INLINE const Float16Lanes& get(int64_t i) const { return chunks[i]; }
  HWY_INLINE void set(int64_t i, const Float16Lanes& sum) { chunks[i] = sum; }
  HWY_INLINE void keep() const {
    for (int64_t i = 0; i < kChunks; ++i) store16(chunks[i], memory + kChunkChannels * i);
  }
};

struct MemorySums {
  float* memory;

  explicit HWY_INLINE MemorySums(float* sums) : memory(sums) {}
  HWY_INLINE Float16Lanes get(int64_t i) const { return load16(memory + kChunkChannels * i); }
  HWY_INLINE void set(int64_t i, const Float16Lanes& sum) { store16(sum, memory + kChunkChannels * i); }
  HWY_INLINE void keep() const {}
};

// ---- Samples

// The tangents of the samples of a block.
struct Tangents {
  HWY_ALIGN float location[2 * kBlockPoints] = {};  // x, y; becomes pixels
  HWY_ALIGN float attention[kBlockPoints] = {};
  HWY_ALIGN float change[4][kBlockPoints] = {};  // of the weight of each corner
};

// Reads those that are given; the others stay zero.
template <class T>
HWY_NOINLINE void read_tangents(const MultiScaleDeformableAttentionDoubleBackward& problem,
                                const HeadTask& task, const Block& block, Tangents& tangents) {
  const auto read = [&](const ConstTensor& tensor, int64_t numbers, float* to) HWY_ATTR {
    if (!tensor.defined()) return;
    const auto runs = runs_of<T>(tensor, task, numbers * block.first_point, numbers * block.points);
    const int64_t next_query = block.first_query + block.queries;
    prefetch_runs(runs, next_query, std::min(next_query + block.queries, task.last_query));
    read_runs<T>(runs, block.first_query, block.queries, to);
  };
  read(problem.grad_grad_sampling_locations, 2, tangents.location);
  read(problem.grad_grad_attention_weights, 1, tangents.attention);
}

HWY_NOINLINE void prepare_changes(const Samples& samples, int64_t count, Tangents& tangents) {
  const FloatTag d;
  const auto one = hn::Set(d, 1.0f);
  for (int64_t i = 0; i < count; i += kLanes) {
    const auto right = hn::Load(d, samples.x_fraction + i);
    const auto below = hn::Load(d, samples.y_fraction + i);
    const auto left = hn::Sub(one, right);
    const auto above = hn::Sub(one, below);
    FloatVector x, y;
    hn::LoadInterleaved2(d, tangents.location + 2 * i, x, y);
    x = hn::Mul(x, hn::Load(d, samples.width + i));
    y = hn::Mul(y, hn::Load(d, samples.height + i));
    hn::StoreInterleaved2(x, y, d, tangents.location + 2 * i);
    const auto attention = hn::Load(d, samples.attention + i);
    const auto tangent = hn::Load(d, tangents.attention + i);
    const auto x_change = hn::Mul(attention, x);
    const auto y_change = hn::Mul(attention, y);
    // Of attention * left and attention * right.
    const auto left_change = hn::MulSub(left, tangent, x_change);
    const auto right_change = hn::MulAdd(right, tangent, x_change);
    hn::Store(hn::NegMulAdd(left, y_change, hn::Mul(above, left_change)), d, tangents.change[0] + i);
    hn::Store(hn::NegMulAdd(right, y_change, hn::Mul(above, right_change)), d, tangents.change[1] + i);
    hn::Store(hn::MulAdd(left, y_change, hn::Mul(below, left_change)), d, tangents.change[2] + i);
    hn::Store(hn::MulAdd(right, y_change, hn::Mul(below, right_change)), d, tangents.change[3] + i);
  }
}

// The inner products of a query's row of grad_output with value and with its tangent.
template <class Number>
struct Products {
  Number of_value;
  Number of_tangent;
};

// One corner of a sample: adds to the sums of its query and of its pixel. Returns partial sums of the products.
template <bool kHasTangent, bool kScatters, class Row, class Sums, class T>
HWY_INLINE Products<FourVector> visit_corner(const Row& row, Sums& sums, float weight, float change,
                                             const Pixels<T>& pixels, int64_t pixel) {
  const T* value = pixels.value + pixel * pixels.value_stride;
  const Float16Lanes weights = broadcast16(weight);
  const Float16Lanes changes = broadcast16(change);
  Float16Lanes of_value = zero16();
  Float16Lanes of_tangent = zero16();
  for (int64_t i = 0; i < row.size(); ++i) {
    const int64_t c = kChunkChannels * i;
    const Float16Lanes& grad_output = row[i];
    const Float16Lanes v = load16(value + c);
    of_value = multiply_add(grad_output, v, of_value);
    Float16Lanes sum = multiply_add(changes, v, sums.get(i));
    if constexpr (kHasTangent) {
      const Float16Lanes tangent = load16(pixels.grad_grad_value + pixel * pixels.grad_grad_stride + c);
      of_tangent = multiply_add(grad_output, tangent, of_tangent);
      sum = multiply_add(weights, tangent, sum);
    }
    sums.set(i, sum);
    if constexpr (kScatters) {
      float* grad_value = pixels.grad_value + pixel * pixels.grad_stride + c;
      store16(multiply_add(changes, grad_output, load16(grad_value)), grad_value);
    }
  }
  return {sum16_to_4(of_value), sum16_to_4(of_tangent)};
}

// The four corners of sample i. One without any does not count, whatever its tangents hold.
template <bool kHasTangent, bool kScatters, class Row, class Sums, class T>
HWY_INLINE Products<FourVector> visit_point(const Row& row, Sums& sums, const Pixels<T>& pixels, int64_t i,
                                            Samples& samples, Tangents& tangents) {
  Products<FourVector> at[4];
  const auto visit = [&](int corner, int64_t pixel) HWY_ATTR {
    at[corner] = visit_corner<kHasTangent, kScatters>(row, sums, samples.weight[corner][i],
                                                      tangents.change[corner][i], pixels, pixel);
  };
  if (HWY_LIKELY(samples.is_interior[i] != 0)) {
    const int64_t above = samples.row[0][i];
    const int64_t below = samples.row[2][i];
    visit(0, above);
    visit(1, above + 1);
    visit(2, below);
    visit(3, below + 1);
  } else {
    bool counts = false;
    for (int corner = 0; corner < 4; ++corner) {
      const int64_t pixel = samples.row[corner][i];
      at[corner] = {hn::Zero(FourTag()), hn::Zero(FourTag())};
      if (pixel < 0) continue;
      counts = true;
      visit(corner, pixel);
    }
    if (!counts) {
      samples.attention[i] = tangents.attention[i] = 0;
      tangents.location[2 * i] = tangents.location[2 * i + 1] = 0;
    }
  }
  return {sum4(at[0].of_value, at[1].of_value, at[2].of_value, at[3].of_value),
          sum4(at[0].of_tangent, at[1].of_tangent, at[2].of_tangent, at[3].of_tangent)};
}

// From the inner products at the corners of each sample, grad_location in place of location and
// grad_attention_weight in place of attention.
HWY_NOINLINE void finish_points(const Products<const float*>& products, const Tangents& tangents,
                                int64_t count, Samples& samples) {
  const FloatTag d;
  for (int64_t i = 0; i < count; i += kLanes) {
    FloatVector value[4], tangent[4], x, y;
    hn::LoadInterleaved4(d, products.of_value + 4 * i, value[0], value[1], value[2], value[3]);
    hn::LoadInterleaved4(d, products.of_tangent + 4 * i, tangent[0], tangent[1], tangent[2], tangent[3]);
    hn::LoadInterleaved2(d, tangents.location + 2 * i, x, y);
    const auto right = hn::Load(d, samples.x_fraction + i);
    const auto below = hn::Load(d, samples.y_fraction + i);
    const Interpolation of_value(value, right, below);
    const Interpolation of_tangent(tangent, right, below);
    const auto twist = hn::Sub(hn::Sub(value[3], value[2]), hn::Sub(value[1], value[0]));
    const auto attention = hn::Load(d, samples.attention + i);
    const auto change = hn::Load(d, tangents.attention + i);
    const auto x_slope =
        hn::MulAdd(attention, hn::MulAdd(y, twist, of_tangent.x_slope), hn::Mul(change, of_value.x_slope));
    const auto y_slope =
        hn::MulAdd(attention, hn::MulAdd(x, twist, of_tangent.y_slope), hn::Mul(change, of_value.y_slope));
    hn::StoreInterleaved2(hn::Mul(hn::Load(d, samples.width + i), x_slope),
                          hn::Mul(hn::Load(d, samples.height + i), y_slope), d, samples.location + 2 * i);
    hn::Store(hn::MulAdd(x, of_value.x_slope, hn::MulAdd(y, of_value.y_slope, of_tangent.value)), d,
              samples.attention + i);
  }
}

// ---- Tasks

template <class T>
void round_sums(const float* sums, int64_t channels, T* to) {
  int64_t c = 0;
  for (; c + kChunkChannels <= channels; c += kChunkChannels) store16(load16(sums + c), to + c);
  if (c < channels) store16(load16(sums + c), to + c, static_cast<size_t>(channels - c));
}

template <class T, int kChunks, bool kHasTangent, bool kScatters>
void accumulate_typed(const MultiScaleDeformableAttentionDoubleBackward& problem, const HeadTask& task,
                      const GradPlanes& planes, float* query_sums) {
  using Row = RowOf<T, kChunks>;
  using Sums = std::conditional_t<kChunks == 0, MemorySums, RegisterSums<kChunks>>;
  const auto grad_output = runs_of<T>(problem.grad_output, task, 0, problem.channels());
  Tangents tangents;
  HWY_ALIGN float of_value[4 * kBlockPoints] = {};
  HWY_ALIGN float of_tangent[4 * kBlockPoints] = {};
  for_each_block<T>(problem, task, [&](const Block& block, Samples& samples) HWY_ATTR {
    const Pixels<T> pixels(task, planes);
    const auto [first_query, queries, first_point, points] = block;
    const bool is_last = first_point + points == problem.levels() * problem.samples();
    if (planes.is_touched != nullptr)
      touch_rows(samples, queries * points, problem.channels(), pixels, planes.is_touched);
    prefetch_runs(grad_output, first_query + queries, std::min(first_query + 2 * queries, task.last_query));
    read_tangents<T>(problem, task, block, tangents);
    prepare_changes(samples, queries * points, tangents);
    for (int64_t q = 0; q < queries; ++q) {
      if (first_point == 0) std::fill_n(query_sums, chunks_of(problem.channels()) * kChunkChannels, 0.0f);
      const Row row(grad_output.of(first_query + q), problem.channels());
      Sums sums(query_sums);
      for (int64_t i = q * points; i < (q + 1) * points; ++i) {
        const auto products = visit_point<kHasTangent, kScatters>(row, sums, pixels, i, samples, tangents);
        hn::Store(products.of_value, FourTag(), of_value + 4 * i);
        hn::Store(products.of_tangent, FourTag(), of_tangent + 4 * i);
      }
      sums.keep();
      if (is_last && problem.grad_grad_output.defined()) {
        const auto output = runs_of<T>(problem.grad_grad_output, task, 0, problem.channels());
        round_sums(query_sums, problem.channels(), output.of(first_query + q));
      }
    }
    finish_points({of_value, of_tangent}, tangents, queries * points, samples);
    write_gradients<T>(problem, task, block, samples);
  });
}

template <class T, bool kHasTangent, bool kScatters>
void accumulate_gradients(const MultiScaleDeformableAttentionDoubleBackward& problem, const HeadTask& task,
                          const GradPlanes& planes, float* query_sums) {
  with_chunks(problem.channels(), [&]<int kChunks>(std::integral_constant<int, kChunks>) {
    accumulate_typed<T, kChunks, kHasTangent, kScatters>(problem, task, planes, query_sums);
  });
}

void accumulate_twice(const MultiScaleDeformableAttentionDoubleBackward& problem, const HeadTask& task,
                      const GradPlanes& planes, float* query_sums) {
  const bool scatters = problem.grad_value.defined();
  visit_float_type(problem.value.type, [&]<class T>(T) {
    if (problem.grad_grad_value.defined()) {
      (scatters ? accumulate_gradients<T, true, true>
                : accumulate_gradients<T, true, false>)(problem, task, planes, query_sums);
    } else {
      (scatters ? accumulate_gradients<T, false, true>
                : accumulate_gradients<T, false, false>)(problem, task, planes, query_sums);
    }
  });
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::multi_scale_deformable_attention {
namespace {

HWY_EXPORT(accumulate_twice);

GradNeeds needs_of(const MultiScaleDeformableAttentionDoubleBackward& problem) {
  return {.value = true,
          .grad_grad_value = problem.grad_grad_value,
          .grad_value = problem.grad_value,
          .query_sums = true};
}

}  // namespace

size_t kernel_workspace_size(const MultiScaleDeformableAttentionDoubleBackward& problem) {
  if (problem.value.type == DataType::float64) return 0;
  return grad_workspace_bytes(problem, needs_of(problem));
}

double kernel_nanoseconds(const MultiScaleDeformableAttentionDoubleBackward& problem) {
  const auto heads = static_cast<double>(problem.batches() * problem.heads());
  const auto channels = static_cast<double>(problem.channels());
  const double points = heads * static_cast<double>(problem.queries() * problem.levels() * problem.samples());
  return points * (16.0 + channels) + 0.7 * heads * static_cast<double>(problem.rows()) * channels;
}

void run_kernel(const MultiScaleDeformableAttentionDoubleBackward& problem, void* workspace) {
  if (problem.value.type == DataType::float64) return run_in_double(problem);
  if (!problem.grad_grad_output.defined() && !problem.grad_value.defined() && !wants_samples(problem)) return;
  run_grad_tasks(problem, needs_of(problem), workspace, kernel_nanoseconds(problem),
                 [&](const HeadTask& task, const GradPlanes& planes, float* query_sums) {
                   HWY_DYNAMIC_DISPATCH(accumulate_twice)(problem, task, planes, query_sums);
                 });
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention

#endif  // HWY_ONCE
