// The reference of multi-scale deformable attention and its gradient in double precision. Only positions are
// computed in the operator's own arithmetic type, since a point that is rounded across a pixel's border belongs
// to that pixel.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace aclgrad::reference {

struct MultiScaleDeformableAttention {
  int64_t batches, rows, heads, channels, queries, levels, points;
  bool positions_in_double;                // as for float64, else in float
  std::vector<int64_t> spatial_shape;      // [levels, 2]
  std::vector<int64_t> level_start_index;  // [levels]
  std::vector<double> value;               // [batches, rows, heads, channels]
  std::vector<double> location;            // [batches, queries, heads, levels, points, 2]
  std::vector<double> attention_weight;    // [batches, queries, heads, levels, points]
  std::vector<double> grad_output;         // [batches, queries, heads, channels]

  std::vector<double> output;
  std::vector<double> grad_value;
  std::vector<double> grad_location;
  std::vector<double> grad_attention_weight;

  // Fills the results above. Without a grad_output, only `output`.
  void run() {
    const bool has_gradient = !grad_output.empty();
    output.assign(static_cast<size_t>(batches * queries * heads * channels), 0.0);
    if (has_gradient) {
      grad_value.assign(value.size(), 0.0);
      grad_location.assign(location.size(), 0.0);
      grad_attention_weight.assign(attention_weight.size(), 0.0);
    }
    for (int64_t b = 0; b < batches; ++b) {
      for (int64_t q = 0; q < queries; ++q) {
        for (int64_t m = 0; m < heads; ++m) {
          for (int64_t l = 0; l < levels; ++l) {
            for (int64_t p = 0; p < points; ++p) add_point(b, q, m, l, p, has_gradient);
          }
        }
      }
    }
  }

 private:
  // The size of a level as a number of the arithmetic type.
  double pixels(int64_t size) const {
    return positions_in_double ? static_cast<double>(size) : static_cast<double>(static_cast<float>(size));
  }

  double position(double coordinate, int64_t size) const {
    if (positions_in_double) return coordinate * pixels(size) - 0.5;
    return static_cast<double>(static_cast<float>(coordinate) * static_cast<float>(size) - 0.5f);
  }

  void add_point(int64_t b, int64_t q, int64_t m, int64_t l, int64_t p, bool has_gradient) {
    const auto point = static_cast<size_t>((((b * queries + q) * heads + m) * levels + l) * points + p);
    const auto head = static_cast<size_t>(((b * queries + q) * heads + m) * channels);
    const int64_t height = spatial_shape[static_cast<size_t>(2 * l)];
    const int64_t width = spatial_shape[static_cast<size_t>(2 * l + 1)];
    if (height <= 0 || width <= 0) return;
    const double x = position(location[2 * point], width);
    const double y = position(location[2 * point + 1], height);
    if (!(x > -1 && y > -1 && x < pixels(width) && y < pixels(height))) return;

    const auto x0 = static_cast<int64_t>(std::floor(x));
    const auto y0 = static_cast<int64_t>(std::floor(y));
    const double lx = x - static_cast<double>(x0);
    const double ly = y - static_cast<double>(y0);
    const double attention = attention_weight[point];
    for (int64_t dy = 0; dy < 2; ++dy) {
      for (int64_t dx = 0; dx < 2; ++dx) {
        if (x0 + dx < 0 || x0 + dx >= width || y0 + dy < 0 || y0 + dy >= height) continue;
        const __int128 row =
            static_cast<__int128>(y0 + dy) * width + (x0 + dx) + level_start_index[static_cast<size_t>(l)];
        if (row < 0 || row >= rows) continue;
        const auto pixel =
            static_cast<size_t>(((b * rows + static_cast<int64_t>(row)) * heads + m) * channels);
        const double weight_x = dx == 1 ? lx : 1 - lx;
        const double weight_y = dy == 1 ? ly : 1 - ly;
        for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
          output[head + c] += attention * weight_x * weight_y * value[pixel + c];
          if (!has_gradient) continue;
          const double product = grad_output[head + c] * value[pixel + c];
          grad_value[pixel + c] += weight_x * weight_y * attention * grad_output[head + c];
          grad_attention_weight[point] += weight_x * weight_y * product;
          grad_location[2 * point] +=
              static_cast<double>(width) * attention * (dx == 1 ? 1 : -1) * weight_y * product;
          grad_location[2 * point + 1] +=
              static_cast<double>(height) * attention * (dy == 1 ? 1 : -1) * weight_x * product;
        }
      }
    }
  }
};

}  // namespace aclgrad::reference
