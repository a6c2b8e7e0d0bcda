// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The gradient of multi-scale deformable attention on the CPU. How its work is shared out: grad_tasks.h.
#include "ops/multi_scale_deformable_attention/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/multi_scale_deformable_attention/grad_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/multi_scale_deformable_attention/gradient-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE {

// ---- Points

// Which gradients a kernel computes: those of value, and those of the points' locations and attention weights.
enum class Gradients { all, of_value, of_points };

// The rows of a head in a plane, each of value beside its sums: all addresses of a point follow from two, by distances that
// the compiler knows.
template <class T, int64_t kChunks>
struct PackedPixels {
  static constexpr int64_t kChannels = kChunks * kChunkChannels;
  static constexpr int64_t kValueBytes = kChannels * static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kRowBytes = kValueBytes + kChannels * static_cast<int64_t>(sizeof(float));

  std::byte* first;

  PackedPixels(const HeadTask&, const GradPlanes& planes)
      : first(reinterpret_cast<std::byte*>(planes.first) - kValueBytes) {}

  HWY_INLINE Pixel<T> operator[](int64_t row) const {
    std::byte* at = first + row * kRowBytes;
    return {reinterpret_cast<const T*>(at), reinterpret_cast<float*>(at + kValueBytes)};
  }
  HWY_INLINE Pixel<T> right_of(const Pixel<T>& pixel) const {
    return {pixel.value + kRowBytes / sizeof(T), pixel.grad_value + kRowBytes / sizeof(float)};
  }
};

// One corner of a point: adds weight * row to the gradient of its pixel. Returns row * value, a chunk's lanes summed over
// the chunks.
template <Gradients kGradients, class Row, class T>
HWY_INLINE Float16Lanes visit_corner(const Row& row, float weight, const Pixel<T>& pixel) {
  const Float16Lanes weights = broadcast16(weight);
  Float16Lanes product = zero16();
  for (int64_t i = 0; i < row.size(); ++i) {
    const Float16Lanes& chunk = row[i];
    if constexpr (kGradients != Gradients::of_value) {
      const Float16Lanes v = load16(pixel.value + kChunkChannels * i);
      product = i == 0 ? multiply(chunk, v) : multiply_add(chunk, v, product);
    }
    if constexpr (kGradients != Gradients::of_points) {
      float* sums = pixel.grad_value + kChunkChannels * i;
      store16(multiply_add(weights, chunk, load16(sums)), sums);
    }
  }
  return product;
}

// The inner products of a query's row with the four corners of point i, each as four partial sums.
template <Gradients kGradients, class Row, class Rows>
HWY_INLINE Float16Lanes visit_point(const Row& row, const Samples& samples, int64_t i, const Rows& pixels) {
  if (HWY_LIKELY(samples.is_interior[i] != 0)) {
    const auto above = pixels[samples.row[0][i]];
    const auto below = pixels[samples.row[2][i]];
    const auto product0 = visit_corner<kGradients>(row, samples.weight[0][i], above);
    const auto product1 = visit_corner<kGradients>(row, samples.weight[1][i], pixels.right_of(above));
    const auto product2 = visit_corner<kGradients>(row, samples.weight[2][i], below);
    const auto product3 = visit_corner<kGradients>(row, samples.weight[3][i], pixels.right_of(below));
    return sum16_to_4(product0, product1, product2, product3);
  }
  Float16Lanes products[4];
  for (int corner = 0; corner < 4; ++corner) {
    const int64_t pixel = samples.row[corner][i];
    products[corner] =
        pixel < 0 ? zero16() : visit_corner<kGradients>(row, samples.weight[corner][i], pixels[pixel]);
  }
  return sum16_to_4(products[0], products[1], products[2], products[3]);
}

// The inner products of each point with its corners, a run of points for each corner, from four partial sums for each.
using CornerProducts = float[4][kBlockPoints];

HWY_NOINLINE void add_partial_sums(const float* partial, int64_t count, CornerProducts& products) {
  for (int64_t i = 0; i < count; i += 4, partial += 64) {
    HWY_ALIGN float sums[16];
    store16(sum4(load16(partial), load16(partial + 16), load16(partial + 32), load16(partial + 48)), sums);
    for (int corner = 0; corner < 4; ++corner) std::memcpy(products[corner] + i, sums + 4 * corner, 16);
  }
}

// From the inner products of each point with its corners, grad_location in place of location and
// grad_attention_weight in place of attention.
HWY_NOINLINE void finish_points(const CornerProducts& products, int64_t count, Samples& samples) {
  const FloatTag d;
  for (int64_t i = 0; i < count; i += kLanes) {
    const FloatVector product[4] = {hn::Load(d, products[0] + i), hn::Load(d, products[1] + i),
                                    hn::Load(d, products[2] + i), hn::Load(d, products[3] + i)};
    const Interpolation of(product, hn::Load(d, samples.x_fraction + i), hn::Load(d, samples.y_fraction + i));
    const auto attention = hn::Load(d, samples.attention + i);
    const auto x_scale = hn::Mul(attention, hn::Load(d, samples.width + i));
    const auto y_scale = hn::Mul(attention, hn::Load(d, samples.height + i));
    hn::StoreInterleaved2(hn::Mul(x_scale, of.x_slope), hn::Mul(y_scale, of.y_slope), d,
                          samples.location + 2 * i);
    hn::Store(of.value, d, samples.attention + i);
  }
}

template <class T, Gradients kGradients, class Row, class Rows>
void accumulate_typed(const MultiScaleDeformableAttentionBackward& problem, const HeadTask& task,
                      const GradPlanes& planes) {
  const auto grad_output = runs_of<T>(problem.grad_output, task, 0, problem.channels());
  HWY_ALIGN float partial_sums[16 * kBlockPoints] = {};
  HWY_ALIGN CornerProducts products = {};
  for_each_block<T>(problem, task, [&](const Block& block, Samples& samples) HWY_ATTR {
    // Copies of its own, or the compiler would read them again after each store.
    const Rows rows(task, planes);
    const auto [first_query, queries, first_point, points] = block;
    if constexpr (std::is_same_v<Rows, Pixels<T>>) {
      if (planes.is_touched != nullptr)
        touch_rows(samples, queries * points, problem.channels(), rows, planes.is_touched);
    }
    prefetch_runs(grad_output, first_query + queries, std::min(first_query + 2 * queries, task.last_query));
    for (int64_t q = 0; q < queries; ++q) {
      const Row row(grad_output.of(first_query + q), problem.channels());
      for (int64_t p = 0; p < points; ++p) {
        const int64_t i = q * points + p;
        store16(visit_point<kGradients>(row, samples, i, rows), partial_sums + 16 * i);
      }
    }
    if (kGradients == Gradients::of_value) return;
    add_partial_sums(partial_sums, queries * points, products);
    finish_points(products, queries * points, samples);
    write_gradients<T>(problem, task, block, samples);
  });
}

template <class T, Gradients kGradients>
void accumulate_gradients(const MultiScaleDeformableAttentionBackward& problem, const HeadTask& task,
                          const GradPlanes& planes) {
  with_chunks(problem.channels(), [&]<int kChunks>(std::integral_constant<int, kChunks>) {
    using Row = RowOf<T, kChunks>;
    if constexpr (kGradients == Gradients::all && kChunks > 0) {
      if (packs_value(problem))
        return accumulate_typed<T, kGradients, Row, PackedPixels<T, kChunks>>(problem, task, planes);
    }
    accumulate_typed<T, kGradients, Row, Pixels<T>>(problem, task, planes);
  });
}

void accumulate(const MultiScaleDeformableAttentionBackward& problem, const HeadTask& task,
                const GradPlanes& planes) {
  visit_float_type(problem.value.type, [&]<class T>(T) {
    if (!wants_samples(problem)) {
      accumulate_gradients<T, Gradients::of_value>(problem, task, planes);
    } else if (!problem.grad_value.defined()) {
      accumulate_gradients<T, Gradients::of_points>(problem, task, planes);
    } else {
      accumulate_gradients<T, Gradients::all>(problem, task, planes);
    }
  });
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace aclgrad::ops::multi_scale_deformable_attention {
namespace {

HWY_EXPORT(accumulate);

GradNeeds needs_of(const MultiScaleDeformableAttentionBackward& problem) {
  return {.value = wants_samples(problem), .grad_value = problem.grad_value};
}

}  // namespace

size_t kernel_workspace_size(const MultiScaleDeformableAttentionBackward& problem) {
  if (problem.value.type == DataType::float64) return 0;
  return grad_workspace_bytes(problem, needs_of(problem));
}

double kernel_nanoseconds(const MultiScaleDeformableAttentionBackward& problem) {
  const auto heads = static_cast<double>(problem.batches() * problem.heads());
  const auto channels = static_cast<double>(problem.channels());
  const double points = heads * static_cast<double>(problem.queries() * problem.levels() * problem.samples());
  return points * (8.0 + 0.5 * channels) + 0.5 * heads * static_cast<double>(problem.rows()) * channels;
}

void run_kernel(const MultiScaleDeformableAttentionBackward& problem, void* workspace) {
  if (problem.value.type == DataType::float64) return run_in_double(problem);
  if (!problem.grad_value.defined() && !wants_samples(problem)) return;
  run_grad_tasks(problem, needs_of(problem), workspace, kernel_nanoseconds(problem),
                 [&](const HeadTask& task, const GradPlanes& planes, float*) {
                   HWY_DYNAMIC_DISPATCH(accumulate)(problem, task, planes);
                 });
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention

#endif  // HWY_ONCE
