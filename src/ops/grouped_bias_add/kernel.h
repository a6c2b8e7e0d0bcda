// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The kernel behind the C and the C++ interface; base/kernel.h says what each function must do.
#pragma once

#include "aclgrad/grouped_bias_add.h"
#include "base/kernel.h"

ACLGRAD_DECLARE_KERNEL(grouped_bias_add, GroupedBiasAddBackward)
ACLGRAD_DECLARE_KERNEL(grouped_bias_add, GroupedBiasAddDoubleBackward)

namespace aclgrad::ops::grouped_bias_add {

// Elements from one row of grad_output to the next.
constexpr int64_t row_stride_of(const GroupedBiasAddBackward& problem) {
  return problem.has_equal_groups() ? problem.grad_output.stride(1) : problem.grad_output.stride(0);
}

}  // namespace aclgrad::ops::grouped_bias_add
