// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A task owns one head of one batch, so that no other task adds to its rows of grad_value.
#include "ops/multi_scale_deformable_attention/double_cpu.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "ops/multi_scale_deformable_attention/kernel.h"
#include "ops/multi_scale_deformable_attention/levels.h"

namespace aclgrad::ops::multi_scale_deformable_attention {
namespace {

// The blocks of one head, one for each row or query.
template <class T>
struct HeadBlocks {
  T* first;
  int64_t stride;

  T* operator[](int64_t row) const { return first + row * stride; }
  explicit operator bool() const { return first != nullptr; }
};

// Nothing where they are not wanted.
void clear(const HeadBlocks<double>& blocks, int64_t count, int64_t length) {
  if (!blocks) return;
  for (int64_t i = 0; i < count; ++i) std::fill_n(blocks[i], length, 0.0);
}

struct Head {
  int64_t batch;
  int64_t head;

  // Of what is not given or not wanted, none.
  HeadBlocks<const double> blocks(const ConstTensor& tensor) const {
    if (!tensor.defined()) return {};
    const int64_t first = batch * tensor.stride(0) + head * tensor.stride(2);
    return {static_cast<const double*>(tensor.data) + first, tensor.stride(1)};
  }
  HeadBlocks<double> blocks(const Tensor& tensor) const {
    if (!tensor.defined()) return {};
    const int64_t first = batch * tensor.stride(0) + head * tensor.stride(2);
    return {static_cast<double*>(tensor.data) + first, tensor.stride(1)};
  }
};

// A pixel beside a point.
struct Corner {
  int64_t row;
  double weight;
  double x_slope;  // derivative of the weight by x, in pixels
  double y_slope;
  double twist;  // derivative by x and y
};

// Calls visit(corner) for each pixel that counts.
template <class Visit>
void for_each_corner(const Level& level, int64_t rows, const double* location, Visit&& visit) {
  const LevelPoint point(level, location);
  if (!point.counts) return;
  for (int dy = 0; dy < 2; ++dy) {
    for (int dx = 0; dx < 2; ++dx) {
      const int64_t row =
          level.row_of(static_cast<int64_t>(point.top) + dy, static_cast<int64_t>(point.left) + dx, rows);
      if (row < 0) continue;
      const double x_weight = dx == 1 ? point.x_fraction : 1 - point.x_fraction;
      const double y_weight = dy == 1 ? point.y_fraction : 1 - point.y_fraction;
      visit(Corner{row, x_weight * y_weight, dx == 1 ? y_weight : -y_weight, dy == 1 ? x_weight : -x_weight,
                   dx == dy ? 1.0 : -1.0});
    }
  }
}

// Calls visit(query, level, point) for each point of a head; points are numbered through the levels.
template <class Visit>
void for_each_point(const MultiScaleDeformableSampling& problem, Visit&& visit) {
  for (int64_t query = 0; query < problem.queries(); ++query) {
    for (int64_t l = 0; l < problem.levels(); ++l) {
      const Level level(problem, l);
      for (int64_t p = 0; p < problem.samples(); ++p) visit(query, level, l * problem.samples() + p);
    }
  }
}

template <class Body>
void for_each_head(const MultiScaleDeformableSampling& problem, double nanoseconds, Body&& body) {
  parallel_for(problem.batches() * problem.heads(), nanoseconds, [&](int64_t task) {
    body(Head{task / problem.heads(), task % problem.heads()});
  });
}

double inner_product(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double scale, const double* from, int64_t count, double* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += scale * from[i];
}

void attend_head(const MultiScaleDeformableAttention& problem, const Head& head) {
  const auto value = head.blocks(problem.value);
  const auto location = head.blocks(problem.sampling_locations);
  const auto attention = head.blocks(problem.attention_weights);
  const auto output = head.blocks(problem.output);
  clear(output, problem.queries(), problem.channels());
  for_each_point(problem, [&](int64_t q, const Level& level, int64_t point) {
    for_each_corner(level, problem.rows(), location[q] + 2 * point, [&](const Corner& corner) {
      add_scaled(attention[q][point] * corner.weight, value[corner.row], problem.channels(), output[q]);
    });
  });
}

void attend_head_backward(const MultiScaleDeformableAttentionBackward& problem, const Head& head) {
  const auto value = head.blocks(problem.value);
  const auto location = head.blocks(problem.sampling_locations);
  const auto attention = head.blocks(problem.attention_weights);
  const auto grad_output = head.blocks(problem.grad_output);
  const auto grad_value = head.blocks(problem.grad_value);
  const auto grad_location = head.blocks(problem.grad_sampling_locations);
  const auto grad_attention = head.blocks(problem.grad_attention_weights);
  clear(grad_value, problem.rows(), problem.channels());
  for_each_point(problem, [&](int64_t q, const Level& level, int64_t point) {
    const double weight = attention[q][point];
    double sample = 0;
    double x_slope = 0;
    double y_slope = 0;
    for_each_corner(level, problem.rows(), location[q] + 2 * point, [&](const Corner& corner) {
      if (problem.grad_value.defined()) {
        add_scaled(weight * corner.weight, grad_output[q], problem.channels(), grad_value[corner.row]);
      }
      if (!wants_samples(problem)) return;
      const double product = inner_product(grad_output[q], value[corner.row], problem.channels());
      sample += corner.weight * product;
      x_slope += weight * corner.x_slope * product;
      y_slope += weight * corner.y_slope * product;
    });
    if (problem.grad_attention_weights.defined()) grad_attention[q][point] = sample;
    if (problem.grad_sampling_locations.defined()) {
      grad_location[q][2 * point] = static_cast<double>(level.width) * x_slope;
      grad_location[q][2 * point + 1] = static_cast<double>(level.height) * y_slope;
    }
  });
}

// The tangents of a sample: the gradients with respect to the first gradient's results, and a location's in pixels.
struct Tangents {
  double x;
  double y;
  double attention;
};

void attend_head_double_backward(const MultiScaleDeformableAttentionDoubleBackward& problem,
                                 const Head& head) {
  const int64_t channels = problem.channels();
  const auto value = head.blocks(problem.value);
  const auto location = head.blocks(problem.sampling_locations);
  const auto attention = head.blocks(problem.attention_weights);
  const auto grad_output = head.blocks(problem.grad_output);
  const auto value_tangent = head.blocks(problem.grad_grad_value);
  const auto location_tangent = head.blocks(problem.grad_grad_sampling_locations);
  const auto attention_tangent = head.blocks(problem.grad_grad_attention_weights);
  const auto grad_grad_output = head.blocks(problem.grad_grad_output);
  const auto grad_value = head.blocks(problem.grad_value);
  const auto grad_location = head.blocks(problem.grad_sampling_locations);
  const auto grad_attention = head.blocks(problem.grad_attention_weights);
  clear(grad_grad_output, problem.queries(), channels);
  clear(grad_value, problem.rows(), channels);
  for_each_point(problem, [&](int64_t q, const Level& level, int64_t point) {
    const double weight = attention[q][point];
    Tangents tangents{};
    if (location_tangent) {
      tangents.x = static_cast<double>(level.width) * location_tangent[q][2 * point];
      tangents.y = static_cast<double>(level.height) * location_tangent[q][2 * point + 1];
    }
    if (attention_tangent) tangents.attention = attention_tangent[q][point];
    double sample = 0;
    double x_slope = 0;
    double y_slope = 0;
    for_each_corner(level, problem.rows(), location[q] + 2 * point, [&](const Corner& corner) {
      const double along = corner.x_slope * tangents.x + corner.y_slope * tangents.y;
      const double change = weight * along + tangents.attention * corner.weight;
      const double product = inner_product(grad_output[q], value[corner.row], channels);
      sample += along * product;
      x_slope += (tangents.attention * corner.x_slope + weight * corner.twist * tangents.y) * product;
      y_slope += (tangents.attention * corner.y_slope + weight * corner.twist * tangents.x) * product;
      if (grad_grad_output) add_scaled(change, value[corner.row], channels, grad_grad_output[q]);
      if (grad_value) add_scaled(change, grad_output[q], channels, grad_value[corner.row]);
      if (!value_tangent) return;
      const double tangent_product = inner_product(grad_output[q], value_tangent[corner.row], channels);
      sample += corner.weight * tangent_product;
      x_slope += weight * corner.x_slope * tangent_product;
      y_slope += weight * corner.y_slope * tangent_product;
      if (!grad_grad_output) return;
      add_scaled(weight * corner.weight, value_tangent[corner.row], channels, grad_grad_output[q]);
    });
    if (grad_attention) grad_attention[q][point] = sample;
    if (grad_location) {
      grad_location[q][2 * point] = static_cast<double>(level.width) * x_slope;
      grad_location[q][2 * point + 1] = static_cast<double>(level.height) * y_slope;
    }
  });
}

}  // namespace

void attend_in_double(const MultiScaleDeformableAttention& problem) {
  for_each_head(problem, kernel_nanoseconds(problem), [&](const Head& head) { attend_head(problem, head); });
}

void attend_backward_in_double(const MultiScaleDeformableAttentionBackward& problem) {
  for_each_head(problem, kernel_nanoseconds(problem),
                [&](const Head& head) { attend_head_backward(problem, head); });
}

void attend_double_backward_in_double(const MultiScaleDeformableAttentionDoubleBackward& problem) {
  for_each_head(problem, kernel_nanoseconds(problem),
                [&](const Head& head) { attend_head_double_backward(problem, head); });
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention
