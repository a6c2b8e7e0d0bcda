// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The reference of the grouped bias-add gradient, and of its gradient, in double precision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/reference_terms.h"

namespace aclgrad::reference {

// The rows [begin, end) of a group.
struct GroupRange {
  int64_t begin;
  int64_t end;
};

// Calls visit(b, y) for each element of the groups' rows: those of [groups, columns] and of [rows, columns], by their
// numbers.
template <class Visit>
void for_each_element(const std::vector<GroupRange>& groups, int64_t columns, Visit&& visit) {
  int64_t first = 0;
  for (const auto& [begin, end] : groups) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t h = 0; h < columns; ++h)
        visit(static_cast<size_t>(first + h), static_cast<size_t>(row * columns + h));
    }
    first += columns;
  }
}

// grad_y [rows, columns]. Returns [groups, columns].
inline std::vector<double> grouped_bias_add_grad(const std::vector<double>& grad_y, int64_t columns,
                                                 const std::vector<GroupRange>& groups) {
  std::vector<double> out(groups.size() * static_cast<size_t>(columns), 0.0);
  for_each_element(groups, columns, [&](size_t b, size_t y) { out[b] += term(grad_y[y]); });
  return out;
}

// grad_grad_bias [groups, columns]. Returns [rows, columns].
inline std::vector<double> grouped_bias_add_double_backward(const std::vector<double>& grad_grad_bias,
                                                            int64_t rows, int64_t columns,
                                                            const std::vector<GroupRange>& groups) {
  std::vector<double> out(static_cast<size_t>(rows * columns), 0.0);
  for_each_element(groups, columns, [&](size_t b, size_t y) { out[y] += term(grad_grad_bias[b]); });
  return out;
}

}  // namespace aclgrad::reference
