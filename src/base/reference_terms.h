// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The terms that references sum.
#pragma once

#include <cmath>

namespace aclgrad::reference {

// Whether references sum the absolute values of their terms: what the rounding errors of a sum are relative to, however
// much its terms cancel.
inline thread_local bool sums_absolute_values = false;

// Each term of a sum, and each part of a term that is a sum itself.
inline double term(double value) {
  return sums_absolute_values ? std::fabs(value) : value;
}

}  // namespace aclgrad::reference
