// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Division of sizes.
#pragma once

#include <cstdint>

namespace aclgrad {

// How many pieces of `divisor` cover `value`. Neither is negative; nothing overflows.
constexpr int64_t divide_up(int64_t value, int64_t divisor) {
  return value / divisor + (value % divisor != 0);
}

}  // namespace aclgrad
