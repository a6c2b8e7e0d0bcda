// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Gradient of an elementwise product with respect to one of its factors: the C++ interface. See aclgrad/types.h, too.
//
//   grad_input[i] = grad_output[i] * other[i]
//
// Types: float32, float16, bfloat16 or float64, the same for all tensors. Products are in float, those of float64 in
// double, and rounded once to nearest even.
// Bitwise reproducible: for any number of threads and any instruction set, and on a CUDA GPU.
#pragma once

#include "aclgrad/types.h"

namespace aclgrad {

struct NewOperator {
  ConstTensor grad_output;  // [rows, columns], contiguous
  ConstTensor other;        // as grad_output
  Tensor grad_input;        // as grad_output

  constexpr int64_t elements() const { return grad_output.size(0) * grad_output.size(1); }
};

// Bytes of workspace that the operator needs.
ACLGRAD_API size_t workspace_size(const NewOperator& problem);

ACLGRAD_API void new_operator(const NewOperator& problem, const WorkspaceView& workspace);

// The same on a CUDA GPU. They throw std::exception where CUDA refuses, or the library was built without CUDA.
namespace cuda {

ACLGRAD_API size_t workspace_size(const NewOperator& problem, const CudaLaunch& on);
ACLGRAD_API void new_operator(const NewOperator& problem, const WorkspaceView& workspace,
                              const CudaLaunch& on);

}  // namespace cuda

}  // namespace aclgrad
