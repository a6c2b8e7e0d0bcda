// The C++ interface of aclgrad: the types that its operators share, and what holds for all of them.
//
// Language: C++11 or newer.
// Checks: every function looks at its problem first. Types, enumerators, sizes, strides, null and unaligned addresses
// with which no kernel can run make it throw std::invalid_argument, which names operator and field, before anything is
// written. Strides are in elements and at least 0; those of outputs are above 0 along axes with more than one element.
// Data lies on a boundary of its element type. How much memory is behind an address is not checked.
// Threads: any thread may call any function at any time. Calls that run at the same time need a workspace each, and none
// may write what another one reads or writes.
// Binary interface: until version 1.0 structures may get more members and functions more parameters in every release, so
// compile again what includes these headers. From then on they change with the major version only, which is part of the
// library's name. The C interface stays as it is.
#pragma once

#include <cstddef>
#include <cstdint>

#define ACLGRAD_API __attribute__((visibility("default")))

namespace aclgrad {

// Element types. The values are those of aclDataType, so that one converts to the other by a cast.
enum class DataType : int32_t {
  float32 = 0,
  float16 = 1,  // IEEE 754 binary16
  int32 = 3,
  int64 = 9,
  float64 = 11,
  bfloat16 = 27,
};

// A flat array of int32 or int64 values: shapes, offsets and group ends that may come in either type.
struct IndexArray {
  const void* data = nullptr;
  DataType type = DataType::int64;  // int32 or int64

  int64_t operator[](int64_t i) const {
    return type == DataType::int32 ? static_cast<const int32_t*>(data)[i]
                                   : static_cast<const int64_t*>(data)[i];
  }
};

namespace cuda {

// How an operator runs on a CUDA GPU, the current device of the calling thread. All data that a problem points at lies in
// device memory, and so does the workspace; the call returns as soon as the work is queued.
struct Launch {
  void* stream = nullptr;      // a cudaStream_t
  bool deterministic = false;  // the same bits run after run, even where that takes longer

  // Where a kernel notes device data with which it cannot compute anything, as a code of its operator: memory that the GPU
  // can write, 0 before. Nothing is noted where it is null.
  uint32_t* failure = nullptr;
};

}  // namespace cuda

using CudaLaunch = cuda::Launch;

// Number of threads that one operator uses at most: from the start ACLGRAD_NUM_THREADS, or else the processors that the
// process may use by affinity and quota; 1 in a child forked after threads were used. No bit of a result depends on it.
ACLGRAD_API int thread_count();

// Changes it for calls that start later, to at most 8 for each processor. Values below 1 restore the starting value.
ACLGRAD_API void set_thread_count(int count);

}  // namespace aclgrad
