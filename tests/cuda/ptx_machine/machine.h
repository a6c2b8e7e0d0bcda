// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What tests ask of the machine beyond CUDA: failures at will, and what a program cannot see.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace ptx {

// Lets the next call of that function return the error.
void fail_next(const char* function, cudaError_t error);

// From now on, all that touches a device returns the error, as after a kernel that has failed; cudaSuccess mends it.
void break_devices(cudaError_t error);

// Streams and events that are not destroyed.
int live_objects();

// Work that a stream holds at most.
inline constexpr size_t kStreamCapacity = 1024;

// Whether anything has made a context on the device since forget_contexts().
bool has_context(int device);
void forget_contexts();

}  // namespace ptx

// Memory from here on holds no value until a kernel or a copy writes one. For programs that may run on a GPU as well, where
// there is no such function.
extern "C" void ptxUndefine(void* memory, size_t bytes);
