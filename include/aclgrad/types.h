// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The C++ interface of aclgrad: the types that its operators share, and what holds for all of them.
//
// Language: C++11 or newer.
// Checks: every function looks at its problem first. Tensors and attributes with which no kernel can run, and a workspace
// that is too small, make it throw std::invalid_argument, which names operator and field, before anything is written. How
// much memory is behind the address of a tensor is not checked.
// Threads: any thread may call any function at any time. Calls that run at the same time need a workspace each, and none
// may write what another one reads or writes. The calling thread needs 256 KiB of stack.
// Binary interface: until version 1.0 structures may get more members and functions more parameters with every minor
// version, so compile again what includes these headers. aclgrad/version.h says what a version promises, and which library
// a program finds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <type_traits>

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

// A number for each axis of a tensor: its extents, or its strides in elements.
class Shape {
 public:
  enum : int { kMaxRank = 8 };

  constexpr Shape() = default;
  Shape(std::initializer_list<int64_t> entries) : Shape(entries.begin(), static_cast<int>(entries.size())) {}
  Shape(const int64_t* entries, int rank) : rank_(rank) {
    if (rank < 0 || rank > kMaxRank) throw std::invalid_argument("aclgrad::Shape: expected at most 8 axes.");
    for (int axis = 0; axis < rank; ++axis) entries_[axis] = entries[axis];
  }

  // The strides of a tensor of these extents whose elements lie side by side in row-major order.
  Shape contiguous_strides() const {
    Shape strides = *this;
    uint64_t stride = 1;  // which may overflow, where the extents are none that a tensor can have
    for (int axis = rank_; axis-- > 0;) {
      strides.entries_[axis] = static_cast<int64_t>(stride);
      stride *= static_cast<uint64_t>(entries_[axis]);
    }
    return strides;
  }

  constexpr int rank() const { return rank_; }
  constexpr int64_t operator[](int axis) const { return entries_[axis]; }
  int64_t& operator[](int axis) { return entries_[axis]; }
  const int64_t* begin() const { return entries_; }
  const int64_t* end() const { return entries_ + rank_; }

 private:
  int rank_ = 0;
  int64_t entries_[kMaxRank] = {};
};

template <class T>
struct DataTypeOf;
template <>
struct DataTypeOf<float> {
  static constexpr DataType value = DataType::float32;
};
template <>
struct DataTypeOf<double> {
  static constexpr DataType value = DataType::float64;
};
template <>
struct DataTypeOf<int32_t> {
  static constexpr DataType value = DataType::int32;
};
template <>
struct DataTypeOf<int64_t> {
  static constexpr DataType value = DataType::int64;
};

// Elements in memory that the caller owns, aligned to their size. Strides count elements and are at least 0; those of
// outputs are above 0 along axes with more than one element. Data of 16 bits need the type: {data, type, shape}.
//
// A tensor that was default-constructed is not defined: an input that is not given, or an output that is not wanted, which
// is neither computed nor written.
template <class Void>  // void or const void
struct BasicTensor {
  Void* data = nullptr;  // the first element; may be null where only the workspace's size is asked for
  DataType type = DataType::float32;
  Shape shape;
  Shape strides;

  constexpr BasicTensor() = default;
  BasicTensor(Void* elements, DataType element_type, const Shape& extents, const Shape& steps)
      : data(elements), type(element_type), shape(extents), strides(steps) {}
  BasicTensor(Void* elements, DataType element_type, const Shape& extents)
      : BasicTensor(elements, element_type, extents, extents.contiguous_strides()) {}
  template <class T, DataType kType = DataTypeOf<typename std::remove_const<T>::type>::value>
  BasicTensor(T* elements, const Shape& extents) : BasicTensor(elements, kType, extents) {}
  template <class T, DataType kType = DataTypeOf<typename std::remove_const<T>::type>::value>
  BasicTensor(T* elements, const Shape& extents, const Shape& steps)
      : BasicTensor(elements, kType, extents, steps) {}
  template <class Other>  // from Tensor to ConstTensor
  BasicTensor(const BasicTensor<Other>& other)
      : BasicTensor(other.data, other.type, other.shape, other.strides) {}

  constexpr bool defined() const { return shape.rank() != 0; }
  constexpr int64_t size(int axis) const { return shape[axis]; }
  constexpr int64_t stride(int axis) const { return strides[axis]; }
};

using Tensor = BasicTensor<void>;
using ConstTensor = BasicTensor<const void>;

// Memory that an operator works in, at least as many bytes as its workspace_size says, 64-byte aligned. Its contents
// are undefined before and after.
struct WorkspaceView {
  void* data;
  size_t bytes;
};

// Such memory on the host, which lives as long as the object and may serve any number of calls, one at a time.
class Workspace {
 public:
  explicit Workspace(size_t bytes) : memory_(new unsigned char[bytes + 63]), bytes_(bytes) {}

  void* data() const {
    const uintptr_t misaligned = reinterpret_cast<uintptr_t>(memory_.get()) % 64;
    return memory_.get() + (misaligned == 0 ? 0 : 64 - misaligned);
  }
  operator WorkspaceView() const { return {data(), bytes_}; }

 private:
  std::unique_ptr<unsigned char[]> memory_;
  size_t bytes_;
};

// How an operator runs on a CUDA GPU, the current device of the calling thread. All data of a problem lies in device
// memory, and so does the workspace; the call returns as soon as the work is queued.
struct CudaLaunch {
  void* stream = nullptr;      // a cudaStream_t
  bool deterministic = false;  // bitwise the same results run after run, even where that takes longer

  // Null, or memory that the GPU can write, 0 before the call. A kernel that finds device data with which it cannot compute
  // anything stores a code of its operator there.
  uint32_t* failure = nullptr;
};

// Number of threads that one operator uses at most: from the start ACLGRAD_NUM_THREADS, or else the processors that the
// process may use by affinity and quota; 1 in a child forked after threads were used. No bit of a result depends on it.
ACLGRAD_API int thread_count();

// Changes it for calls that start later, to at most 8 for each processor. Values below 1 restore the starting value.
ACLGRAD_API void set_thread_count(int count);

}  // namespace aclgrad
