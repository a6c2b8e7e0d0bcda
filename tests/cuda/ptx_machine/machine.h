// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The PTX machine runs on the CPU what nvcc has made of kernels, and looks what they do:
//
//   module.cpp    takes the PTX that is in the program, and finds kernels by nvcc's functions
//   parser.h      makes kernels of PTX (kernel.h)
//   grid.h        runs the blocks of a launch, warp.h the threads of a warp
//   operations.h  what instructions compute (arithmetic.h), and how they use memory (access.cpp)
//   memory.h      what memory there is, and what is known of it
//   findings.h    says what a kernel has done wrong; fault.h plants mistakes
//   settings.h    schedules and orders, by the environment
//   runtime.cpp   CUDA's runtime, stream.h streams and events
//
// Here is what tests ask of it beyond CUDA: failures at will, and what a program cannot see.
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

// Adds what was counted since the last time to the file that PTX_COUNTS names.
extern "C" void ptxWriteCounts();
