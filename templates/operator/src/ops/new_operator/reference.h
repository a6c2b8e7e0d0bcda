// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The reference of the elementwise product's gradient, in double precision.
#pragma once

#include <cstddef>
#include <vector>

#include "base/reference_terms.h"

namespace aclgrad::reference {

inline std::vector<double> new_operator(const std::vector<double>& grad_output,
                                        const std::vector<double>& other) {
  std::vector<double> out(grad_output.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = term(grad_output[i] * other[i]);
  return out;
}

}  // namespace aclgrad::reference
