// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace aclgrad::test {

// The value that fixed-point sums on a GPU give for some terms, of which `max_terms` may meet, and none is larger than the
// largest finite one, or `largest`.
template <class Real>
Real fixed_sum(const std::vector<Real>& terms, int64_t max_terms, double largest = 0);

}  // namespace aclgrad::test
