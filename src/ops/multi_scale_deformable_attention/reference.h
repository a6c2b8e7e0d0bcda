// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The reference of multi-scale deformable attention, of its gradient and of that gradient's gradient, in double
// precision. Only positions are computed in the operator's own arithmetic type, since a point that is rounded
// across a pixel's border belongs to that pixel.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/reference_terms.h"

namespace aclgrad::reference {

struct MultiScaleDeformableAttention {
  int64_t batches, rows, heads, channels, queries, levels, points;
  bool positions_in_double = false;          // as for float64, else in float
  std::vector<int64_t> spatial_shape{};      // [levels, 2]
  std::vector<int64_t> level_start_index{};  // [levels]
  std::vector<double> value{};               // [batches, rows, heads, channels]
  std::vector<double> location{};            // [batches, queries, heads, levels, points, 2]
  std::vector<double> attention_weight{};    // [batches, queries, heads, levels, points]
  std::vector<double> grad_output{};         // [batches, queries, heads, channels]

  // The gradients with respect to the gradient's results; zero where they are empty.
  std::vector<double> grad_grad_value{};
  std::vector<double> grad_grad_location{};
  std::vector<double> grad_grad_attention_weight{};

  std::vector<double> output{};
  std::vector<double> grad_value{};
  std::vector<double> grad_location{};
  std::vector<double> grad_attention_weight{};
  std::vector<double> grad_grad_output{};

  // Fills the results above but grad_grad_output. Without a grad_output, only `output`.
  void run() {
    const bool has_gradient = !grad_output.empty();
    output.assign(static_cast<size_t>(batches * queries * heads * channels), 0.0);
    if (has_gradient) clear_gradients();
    for_each_point([&](const Point& point) {
      for_each_corner(point, [&](const Corner& corner) { add_corner(point, corner, has_gradient); });
    });
  }

  // Fills the gradients of what the gradient reads.
  void run_double_backward() {
    const auto or_zeros = [](std::vector<double>& values, size_t size) {
      if (values.empty()) values.assign(size, 0.0);
    };
    or_zeros(grad_grad_value, value.size());
    or_zeros(grad_grad_location, location.size());
    or_zeros(grad_grad_attention_weight, attention_weight.size());
    clear_gradients();
    grad_grad_output.assign(grad_output.size(), 0.0);
    for_each_point([&](const Point& point) {
      for_each_corner(point, [&](const Corner& corner) { add_corner_twice(point, corner); });
    });
  }

 private:
  struct Point {
    int64_t batch, head, level;
    size_t index;  // among all
    size_t first;  // of its head's channels in `output`
  };

  // A pixel beside a point, and its weight as the product of two.
  struct Corner {
    size_t first;  // of its channels in `value`
    double weight_x, weight_y;
    double slope_x, slope_y;  // of these weights, in pixels
    double width, height;     // of the level
  };

  void clear_gradients() {
    grad_value.assign(value.size(), 0.0);
    grad_location.assign(location.size(), 0.0);
    grad_attention_weight.assign(attention_weight.size(), 0.0);
  }

  template <class Visit>
  void for_each_point(Visit&& visit) const {
    const int64_t count = batches * queries * heads * levels * points;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = i / (levels * points);  // of a query and head
      visit(Point{row / heads / queries, row % heads, i / points % levels, static_cast<size_t>(i),
                  static_cast<size_t>(row * channels)});
    }
  }

  // The size of a level as a number of the arithmetic type.
  double pixels(int64_t size) const {
    return positions_in_double ? static_cast<double>(size) : static_cast<double>(static_cast<float>(size));
  }

  double position(double coordinate, int64_t size) const {
    if (positions_in_double) return coordinate * pixels(size) - 0.5;
    return static_cast<double>(static_cast<float>(coordinate) * static_cast<float>(size) - 0.5f);
  }

  // Those that count.
  template <class Visit>
  void for_each_corner(const Point& point, Visit&& visit) const {
    const auto level = static_cast<size_t>(point.level);
    const int64_t height = spatial_shape[2 * level];
    const int64_t width = spatial_shape[2 * level + 1];
    if (height <= 0 || width <= 0) return;
    const double x = position(location[2 * point.index], width);
    const double y = position(location[2 * point.index + 1], height);
    if (!(x > -1 && y > -1 && x < pixels(width) && y < pixels(height))) return;

    const auto x0 = static_cast<int64_t>(std::floor(x));
    const auto y0 = static_cast<int64_t>(std::floor(y));
    const double lx = x - static_cast<double>(x0);
    const double ly = y - static_cast<double>(y0);
    for (int64_t dy = 0; dy < 2; ++dy) {
      for (int64_t dx = 0; dx < 2; ++dx) {
        if (x0 + dx < 0 || x0 + dx >= width || y0 + dy < 0 || y0 + dy >= height) continue;
        const __int128 row = static_cast<__int128>(y0 + dy) * width + (x0 + dx) + level_start_index[level];
        if (row < 0 || row >= rows) continue;
        const int64_t first =
            ((point.batch * rows + static_cast<int64_t>(row)) * heads + point.head) * channels;
        visit(Corner{static_cast<size_t>(first), dx == 1 ? lx : 1 - lx, dy == 1 ? ly : 1 - ly,
                     dx == 1 ? 1.0 : -1.0, dy == 1 ? 1.0 : -1.0, static_cast<double>(width),
                     static_cast<double>(height)});
      }
    }
  }

  void add_corner(const Point& point, const Corner& corner, bool has_gradient) {
    const double attention = attention_weight[point.index];
    const double weight = corner.weight_x * corner.weight_y;
    for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
      output[point.first + c] += term(attention * weight * value[corner.first + c]);
      if (!has_gradient) continue;
      const double product = grad_output[point.first + c] * value[corner.first + c];
      grad_value[corner.first + c] += term(weight * attention * grad_output[point.first + c]);
      grad_attention_weight[point.index] += term(weight * product);
      grad_location[2 * point.index] +=
          term(corner.width * attention * corner.slope_x * corner.weight_y * product);
      grad_location[2 * point.index + 1] +=
          term(corner.height * attention * corner.slope_y * corner.weight_x * product);
    }
  }

  // The gradients of the sum of add_corner's gradients, each times its grad_grad.
  void add_corner_twice(const Point& point, const Corner& corner) {
    const double attention = attention_weight[point.index];
    const double weight = corner.weight_x * corner.weight_y;
    const double along_x = corner.width * grad_grad_location[2 * point.index];
    const double along_y = corner.height * grad_grad_location[2 * point.index + 1];
    const double along_attention = grad_grad_attention_weight[point.index];
    const double change =
        term(along_x * corner.slope_x * corner.weight_y) + term(along_y * corner.slope_y * corner.weight_x);
    const double twist = corner.slope_x * corner.slope_y;
    const double along = term(attention * change) + term(along_attention * weight);
    for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
      const double gradient = grad_output[point.first + c];
      const double pixel = value[corner.first + c];
      const double along_value = grad_grad_value[corner.first + c];
      grad_grad_output[point.first + c] += term(attention * weight * along_value) + term(along * pixel);
      grad_value[corner.first + c] += term(along * gradient);
      grad_attention_weight[point.index] +=
          term(weight * gradient * along_value) + term(change * gradient * pixel);
      const double along_both = term(attention * along_value) + term(along_attention * pixel);
      grad_location[2 * point.index] +=
          term(corner.width * gradient * corner.slope_x * corner.weight_y * along_both) +
          term(corner.width * gradient * attention * twist * along_y * pixel);
      grad_location[2 * point.index + 1] +=
          term(corner.height * gradient * corner.slope_y * corner.weight_x * along_both) +
          term(corner.height * gradient * attention * twist * along_x * pixel);
    }
  }
};

}  // namespace aclgrad::reference
