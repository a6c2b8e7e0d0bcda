// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The reference of the grouped bias-add gradient, and of its gradient, in double precision.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/reference_terms.h"

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
            term(grad_y[static_cast<size_t>(r * columns + h)]);
      }
    }
  }
  return out;
}

// grad_grad_bias [groups, columns]. Returns [rows, columns].
inline std::vector<double> grouped_bias_add_double_backward(const std::vector<double>& grad_grad_bias,
                                                            int64_t rows, int64_t columns,
                                                            const std::vector<int64_t>& begin,
                                                            const std::vector<int64_t>& end) {
  std::vector<double> out(static_cast<size_t>(rows * columns), 0.0);
  for (size_t g = 0; g < begin.size(); ++g) {
    for (int64_t r = begin[g]; r < end[g]; ++r) {
      for (int64_t h = 0; h < columns; ++h) {
        out[static_cast<size_t>(r * columns + h)] +=
            term(grad_grad_bias[g * static_cast<size_t>(columns) + static_cast<size_t>(h)]);
      }
    }
  }
  return out;
}

}  // namespace aclgrad::reference
