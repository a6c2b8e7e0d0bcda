// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the device uses of CUDA's driver. See cuda_runtime.h.
#pragma once

#include <cstdint>

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUstream = class EmulatedStream*;
enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_UNKNOWN = 999 };
enum { CU_STREAM_WAIT_VALUE_GEQ = 0 };

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active);
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags);
