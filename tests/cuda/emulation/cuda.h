// What the device uses of CUDA's driver. See cuda_runtime.h.
#pragma once

using CUdevice = int;
enum CUresult { CUDA_SUCCESS = 0 };

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active);
