// The reference of the grouped bias-add gradient in double precision.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace aclgrad::reference {

// grad_y [rows, columns]; group g holds the rows [begin[g], end[g]). Returns [groups, columns].
inline std::vector<double> grouped_bias_add_grad(const std::vector<double>& grad_y, int64_t columns,
                                                 const std::vector<int64_t>& begin,
                                                 const std::vector<int64_t>& end) {
  std::vector<double> out(begin.size() * static_cast<size_t>(columns), 0.0);
  for (size_t g = 0; g < begin.size(); ++g) {
    for (int64_t r = begin[g]; r < end[g]; ++r) {
      for (int64_t h = 0; h < columns; ++h) {
        out[g * static_cast<size_t>(columns) + static_cast<size_t>(h)] +=
            grad_y[static_cast<size_t>(r * columns + h)];
      }
    }
  }
  return out;
}

}  // namespace aclgrad::reference
