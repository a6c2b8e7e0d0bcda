// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The kernel behind the C and the C++ interface; base/kernel.h says what each function must do.
#pragma once

#include "aclgrad/grouped_bias_add.h"
#include "base/kernel.h"

namespace aclgrad::ops::grouped_bias_add {

// Elements from one row of grad_output to the next.
constexpr int64_t row_stride_of(const GroupedBiasAddBackward& problem) {
  return problem.has_equal_groups() ? problem.grad_output.stride(1) : problem.grad_output.stride(0);
}

size_t kernel_workspace_size(const GroupedBiasAddBackward& problem);
size_t kernel_workspace_size(const GroupedBiasAddDoubleBackward& problem);

double kernel_nanoseconds(const GroupedBiasAddBackward& problem);
double kernel_nanoseconds(const GroupedBiasAddDoubleBackward& problem);

void run_kernel(const GroupedBiasAddBackward& problem, void* workspace);
void run_kernel(const GroupedBiasAddDoubleBackward& problem, void* workspace);

}  // namespace aclgrad::ops::grouped_bias_add

namespace aclgrad {  // where argument-dependent lookup finds them

class Contract;
void check(const GroupedBiasAddBackward& problem, Contract& contract);
void check(const GroupedBiasAddDoubleBackward& problem, Contract& contract);

using ops::grouped_bias_add::kernel_nanoseconds;
using ops::grouped_bias_add::kernel_workspace_size;
using ops::grouped_bias_add::run_kernel;

}  // namespace aclgrad
