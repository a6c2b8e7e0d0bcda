// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// CUDA's execution model on one thread of the host, so that the kernels' own source can be tested where there is no
// GPU: the threads of a block are fibers, and blocks run one after the other. Only what the kernels and the device use
// is here. Device memory is the host's, so that the address sanitizer watches every access of a kernel.
//
// It finds wrong results, wrong indices, and threads that do not meet at a barrier or shuffle. It does not find races
// between threads of a block, except that blocks and threads can be run in the opposite order, which changes what a
// missing barrier lets through.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1) : x(x_size), y(y_size), z(z_size) {}
};
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {

// Whether blocks, warps and lanes run from the last to the first.
void set_reversed(bool reversed);

void run_grid(unsigned blocks, unsigned threads, size_t shared_bytes, const std::function<void()>& thread);
void wait_for_block();

// Gives `bytes` of every lane in `mask` to the others: returns what lane `source` gave.
const void* exchange(unsigned mask, const void* value, size_t bytes, unsigned source);
unsigned lane();
void* shared_memory();

template <class T>
T shuffle(unsigned mask, T value, unsigned source) {
  T result;
  std::memcpy(&result, exchange(mask, &value, sizeof value, source), sizeof value);
  return result;
}

}  // namespace emulation

inline void __syncthreads() {
  emulation::wait_for_block();
}
inline void __syncwarp(unsigned mask = ~0u) {
  emulation::shuffle(mask, 0, emulation::lane());
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int other) {
  return emulation::shuffle(mask, value, emulation::lane() ^ static_cast<unsigned>(other));
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const unsigned first = emulation::lane() & ~static_cast<unsigned>(width - 1);
  return emulation::shuffle(mask, value, first + static_cast<unsigned>(source & (width - 1)));
}

namespace emulation {

// An addition of floats to global memory, which takes subnormal numbers for zero (PTX ISA, `red` and `atom`).
inline float add_to_memory(float sum, float term) {
  const auto flushed = [](float value) {
    return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
  };
  return flushed(flushed(sum) + flushed(term));
}

}  // namespace emulation

inline float atomicAdd(float* to, float value) {
  const float before = *to;
  *to = emulation::add_to_memory(before, value);
  return before;
}
template <class T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to += value;
  return before;
}
template <class T>
T atomicMax(T* to, T value) {
  const T before = *to;
  if (value > before) *to = value;
  return before;
}
template <class T>
T atomicOr(T* to, T value) {
  const T before = *to;
  *to |= value;
  return before;
}
inline void __threadfence_system() {}

// ---- The runtime: each stream has a thread that does its work in order; without a stream, work is done at once.
//
// As in CUDA, copies from and to memory that it has not allocated block until they are done, and work for a full stream
// until there is room. A context is made, as since CUDA 12, where a device becomes current and where it is used.
//
// It is stricter than CUDA in one thing: calls about a stream or an event are refused unless its device is the thread's
// current one. CUDA lets some of them pass, but makes a context on whatever device is current.

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorECCUncorrectable = 214,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchTimeout = 702,
};
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16, cudaDevAttrL2CacheSize = 38 };
enum {
  cudaStreamNonBlocking = 1,
  cudaEventDefault = 0,
  cudaEventBlockingSync = 1,
  cudaEventDisableTiming = 2,
  cudaHostAllocPortable = 1,
  cudaHostAllocMapped = 2
};

class EmulatedStream;
class EmulatedEvent;
using cudaStream_t = EmulatedStream*;
using cudaEvent_t = EmulatedEvent*;

enum cudaMemoryType { cudaMemoryTypeUnregistered = 0, cudaMemoryTypeDevice = 2 };
struct cudaPointerAttributes {
  cudaMemoryType type;
};

namespace emulation {

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

// Puts work on a stream.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

}  // namespace emulation

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* shape, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  return emulation::enqueue(shape->stream, [shape = *shape, kernel, values] {
    emulation::run_grid(shape.gridDim.x, shape.blockDim.x, shape.dynamicSmemBytes,
                        [&] { std::apply(kernel, values); });
  });
}

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int) {
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
enum { cudaEnableDefault = 0 };
cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);
