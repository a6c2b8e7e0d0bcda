// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/calls.h"

#include <cuda.h>

#include <string>

#include "acl/acl_base.h"
#include "base/error.h"

namespace aclgrad {
namespace {

Status status_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return ACL_ERROR_RT_MEMORY_ALLOCATION;
    case cudaErrorNoDevice:
      return ACL_ERROR_RT_NO_DEVICE;
    case cudaErrorLaunchTimeout:
      return ACL_ERROR_RT_AICORE_TIMEOUT;
    case cudaErrorECCUncorrectable:
      return ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR;
    default:
      return ACL_ERROR_RT_AICORE_EXCEPTION;
  }
}

bool has_context(int device) noexcept {
  static const auto get_state =
      reinterpret_cast<decltype(&cuDevicePrimaryCtxGetState)>(driver_function("cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = 0;
  return get_state == nullptr || get_state(device, &flags, &active) != CUDA_SUCCESS || active != 0;
}

}  // namespace

void* driver_function(const char* name) noexcept {
  void* function = nullptr;
#if CUDART_VERSION >= 12050
  constexpr unsigned kVersion = 12000;  // of the function's interface
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, kVersion, cudaEnableDefault);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault);
#endif
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess ? function : nullptr;
}

void check_cuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // so that it does not come out of a later call, too
  throw Error(status_of(error), std::string(call) + ": CUDA error " + cudaGetErrorName(error) + ", " +
                                    cudaGetErrorString(error) + ".");
}

CudaDeviceScope::CudaDeviceScope(int device) {
  check_cuda(enter(device), "cudaSetDevice");
}

CudaDeviceScope::CudaDeviceScope(int device, std::nothrow_t) noexcept {
  if (enter(device) != cudaSuccess) cudaGetLastError();
}

CudaDeviceScope::~CudaDeviceScope() {
  if (changed_ && has_context(before_)) cudaSetDevice(before_);
}

cudaError_t CudaDeviceScope::enter(int device) noexcept {
  const cudaError_t error = cudaGetDevice(&before_);
  if (error != cudaSuccess || before_ == device) return error;
  changed_ = true;
  return cudaSetDevice(device);
}

}  // namespace aclgrad
