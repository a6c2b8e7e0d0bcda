// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "cuda/not_built.h"
#include "tensor/view_cuda.h"

namespace aclgrad {

void pack(const TensorView&, void*, const CudaLaunch&) {
  refuse_cuda();
}

void unpack(const void*, const TensorView&, const CudaLaunch&) {
  refuse_cuda();
}

void fill_zero(const TensorView&, const CudaLaunch&) {
  refuse_cuda();
}

}  // namespace aclgrad
