// Gradient of an elementwise product with respect to one of its factors: the C++ interface. See aclgrad/types.h, too.
//
//   out[i] = grad_output[i] * other[i]
//
// Types: float32, float16 or bfloat16, the same for all tensors. Products are in float, rounded once to nearest even.
// Deterministic: the same bits for any number of threads and any instruction set, and on a CUDA GPU.
#pragma once

#include "aclgrad/types.h"

namespace aclgrad {

struct NewOperator {
  DataType type = DataType::float32;
  int64_t count = 0;  // elements of each tensor

  const void* grad_output = nullptr;  // [count], contiguous
  const void* other = nullptr;        // [count], contiguous

  void* out = nullptr;  // [count], contiguous
};

// Bytes of the workspace that new_operator needs; it must be 64-byte aligned.
ACLGRAD_API size_t workspace_size(const NewOperator& problem);

// Estimate of the time on one thread.
ACLGRAD_API double serial_nanoseconds(const NewOperator& problem);

ACLGRAD_API void new_operator(const NewOperator& problem, void* workspace);

// The same on a CUDA GPU. They throw std::exception where CUDA refuses, or the library was built without CUDA.
namespace cuda {

ACLGRAD_API size_t workspace_size(const NewOperator& problem, const CudaLaunch& on);
ACLGRAD_API void new_operator(const NewOperator& problem, void* workspace, const CudaLaunch& on);

}  // namespace cuda

}  // namespace aclgrad
