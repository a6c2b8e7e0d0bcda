// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A task owns one head of one batch, so that no other task adds to its rows of grad_value.
#include <algorithm>

#include "base/parallel.h"
#include "ops/multi_scale_deformable_attention/head.h"
#include "ops/multi_scale_deformable_attention/kernel.h"

namespace aclgrad::ops::multi_scale_deformable_attention {
namespace {

// Nothing where they are not wanted.
void clear(const Runs<double>& runs, int64_t count) {
  if (!runs) return;
  for (int64_t i = 0; i < count; ++i) std::fill_n(runs.of(i), runs.length, 0.0);
}

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

double inner_product(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double scale, const double* from, int64_t count, double* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += scale * from[i];
}

// What one head reads and sums. The gradient is the part of the double backward that reads value_tangent, which is value
// there, and attention_tangent, which is the weights; the operator is the sum of the queries in that part.
struct HeadSums {
  Runs<const double> location, attention;
  Runs<const double> value{};  // of the double backward alone
  Runs<const double> grad_output{}, value_tangent{}, location_tangent{}, attention_tangent{};
  Runs<double> query_sums{}, grad_value{}, grad_location{}, grad_attention{};

  void add(const MultiScaleDeformableSampling& problem) const {
    const int64_t channels = problem.channels();
    clear(query_sums, problem.queries());
    clear(grad_value, problem.rows());
    for_each_point(problem, [&](int64_t q, const Level& level, int64_t point) {
      const double weight = attention.of(q)[point];
      const double weight_tangent = attention_tangent ? attention_tangent.of(q)[point] : 0;
      double x_tangent = 0;  // in pixels
      double y_tangent = 0;
      if (location_tangent) {
        x_tangent = static_cast<double>(level.width) * location_tangent.of(q)[2 * point];
        y_tangent = static_cast<double>(level.height) * location_tangent.of(q)[2 * point + 1];
      }
      double sample = 0;
      double x_slope = 0;
      double y_slope = 0;
      for_each_corner(level, problem.rows(), location.of(q) + 2 * point, [&](const Corner& corner) {
        double change = weight_tangent * corner.weight;
        if (value) {
          const double along = corner.x_slope * x_tangent + corner.y_slope * y_tangent;
          change = weight * along + change;
          const double product = inner_product(grad_output.of(q), value.of(corner.row), channels);
          sample += along * product;
          x_slope += (weight_tangent * corner.x_slope + weight * corner.twist * y_tangent) * product;
          y_slope += (weight_tangent * corner.y_slope + weight * corner.twist * x_tangent) * product;
          if (query_sums) add_scaled(change, value.of(corner.row), channels, query_sums.of(q));
        }
        if (grad_value) add_scaled(change, grad_output.of(q), channels, grad_value.of(corner.row));
        if (!value_tangent) return;
        if (grad_location || grad_attention) {
          const double product = inner_product(grad_output.of(q), value_tangent.of(corner.row), channels);
          sample += corner.weight * product;
          x_slope += weight * corner.x_slope * product;
          y_slope += weight * corner.y_slope * product;
        }
        if (query_sums)
          add_scaled(weight * corner.weight, value_tangent.of(corner.row), channels, query_sums.of(q));
      });
      if (grad_attention) grad_attention.of(q)[point] = sample;
      if (grad_location) {
        grad_location.of(q)[2 * point] = static_cast<double>(level.width) * x_slope;
        grad_location.of(q)[2 * point + 1] = static_cast<double>(level.height) * y_slope;
      }
    });
  }
};

// Adds up sums_of(runs) for all heads, where runs(tensor) are the head's: none of what is not given or not wanted.
template <class Problem, class SumsOf>
void for_each_head(const Problem& problem, SumsOf&& sums_of) {
  parallel_for(problem.batches() * problem.heads(), kernel_nanoseconds(problem), [&](int64_t index) {
    const HeadTask task = task_of_head(problem, index);
    const HeadSums sums = sums_of([&](const auto& tensor) {
      auto runs = runs_of<double>(tensor, task, 0, tensor.size(3));
      return tensor.defined() ? runs : decltype(runs){};
    });
    sums.add(problem);
  });
}

}  // namespace

void run_in_double(const MultiScaleDeformableAttention& problem) {
  for_each_head(problem, [&](const auto& runs) {
    return HeadSums{.location = runs(problem.sampling_locations),
                    .attention = runs(problem.attention_weights),
                    .value_tangent = runs(problem.value),
                    .query_sums = runs(problem.output)};
  });
}

void run_in_double(const MultiScaleDeformableAttentionBackward& problem) {
  for_each_head(problem, [&](const auto& runs) {
    return HeadSums{.location = runs(problem.sampling_locations),
                    .attention = runs(problem.attention_weights),
                    .grad_output = runs(problem.grad_output),
                    .value_tangent = runs(problem.value),
                    .attention_tangent = runs(problem.attention_weights),
                    .grad_value = runs(problem.grad_value),
                    .grad_location = runs(problem.grad_sampling_locations),
                    .grad_attention = runs(problem.grad_attention_weights)};
  });
}

void run_in_double(const MultiScaleDeformableAttentionDoubleBackward& problem) {
  for_each_head(problem, [&](const auto& runs) {
    return HeadSums{.location = runs(problem.sampling_locations),
                    .attention = runs(problem.attention_weights),
                    .value = runs(problem.value),
                    .grad_output = runs(problem.grad_output),
                    .value_tangent = runs(problem.grad_grad_value),
                    .location_tangent = runs(problem.grad_grad_sampling_locations),
                    .attention_tangent = runs(problem.grad_grad_attention_weights),
                    .query_sums = runs(problem.grad_grad_output),
                    .grad_value = runs(problem.grad_value),
                    .grad_location = runs(problem.grad_sampling_locations),
                    .grad_attention = runs(problem.grad_attention_weights)};
  });
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention
