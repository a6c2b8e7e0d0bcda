// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The kernels of the program, as nvcc has put them into it.
#pragma once

#include "kernel.h"

namespace ptx {

// By the address of nvcc's function on the host. Null where there is none for the architecture that was asked for.
const Kernel* find_kernel(const void* host_function);

}  // namespace ptx
