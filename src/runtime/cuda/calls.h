// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What all calls of CUDA's runtime and driver share.
#pragma once

#include <cuda_runtime.h>

#include <new>

namespace aclgrad {

// Makes a device the calling thread's current one, and the one before it again at the end: the program may use CUDA
// itself. A device on which nothing has been done stays untouched: to make it current would create a context there, of
// hundreds of megabytes.
class CudaDeviceScope {
 public:
  explicit CudaDeviceScope(int device);

  // For what must not throw. Where CUDA refuses, the calls that follow fail by themselves.
  CudaDeviceScope(int device, std::nothrow_t) noexcept;
  ~CudaDeviceScope();
  CudaDeviceScope(const CudaDeviceScope&) = delete;
  CudaDeviceScope& operator=(const CudaDeviceScope&) = delete;

 private:
  cudaError_t enter(int device) noexcept;

  int before_ = 0;
  bool changed_ = false;
};

// A function of CUDA's driver, which is not linked: a machine without a GPU has none. Null where the driver is too old.
void* driver_function(const char* name) noexcept;

// Throws Error with the runtime's status for what CUDA reports: 507… for what work on the device has run into.
void check_cuda(cudaError_t error, const char* call);

}  // namespace aclgrad
