// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Packing to and from contiguous memory, as in view.h, on a CUDA GPU.
#pragma once

#include "tensor/view.h"

namespace aclgrad {

void pack(const TensorView& from, void* to, const CudaLaunch& on);
void unpack(const void* from, const TensorView& to, const CudaLaunch& on);
void fill_zero(const TensorView& view, const CudaLaunch& on);

}  // namespace aclgrad
