// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The kernel behind the C and the C++ interface; base/kernel.h says what each function must do.
#pragma once

#include "aclgrad/new_operator.h"
#include "base/kernel.h"

namespace aclgrad::ops::new_operator {

size_t kernel_workspace_size(const NewOperator& problem);
double kernel_nanoseconds(const NewOperator& problem);
void run_kernel(const NewOperator& problem, void* workspace);

}  // namespace aclgrad::ops::new_operator

namespace aclgrad {  // where argument-dependent lookup finds them

class Contract;
void check(const NewOperator& problem, Contract& contract);

using ops::new_operator::kernel_nanoseconds;
using ops::new_operator::kernel_workspace_size;
using ops::new_operator::run_kernel;

}  // namespace aclgrad
