// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A strided view of memory, and what can be done with one: packing to and from contiguous memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "aclgrad/types.h"
#include "base/data_type.h"
#include "base/kernel.h"

namespace aclgrad {

struct TensorView {
  static constexpr int kMaxRank = 8;

  DataType type = DataType::float32;
  int rank = 0;
  std::array<int64_t, kMaxRank> shape;    // of the axes that there are: the rest is not set
  std::array<int64_t, kMaxRank> strides;  // in elements, likewise
  int64_t offset = 0;                     // of the first element from `base`, in elements
  void* base = nullptr;

  std::byte* first() const {
    return static_cast<std::byte*>(base) + offset * static_cast<int64_t>(size_of(type));
  }
  int64_t size() const;  // number of elements; 1 for rank 0
  int64_t bytes() const { return size() * static_cast<int64_t>(size_of(type)); }
  bool empty() const { return size() == 0; }
  bool is_contiguous() const { return size() <= 1 || is_dense_from(0); }
  bool is_dense_from(int axis) const;  // whether the elements along the axes from there on lie side by side
};

// Whether two elements lie at one address. If the search takes more than 2^22 steps, the result is true.
bool repeats_elements(std::span<const int64_t> shape, std::span<const int64_t> strides);

// The view as a tensor of the C++ interface, at an address.
inline Tensor tensor_at(void* data, const TensorView& view) {
  return {data, view.type, Shape(view.shape.data(), view.rank), Shape(view.strides.data(), view.rank)};
}

std::string format_shape(std::span<const int64_t> shape);  // "[2, 3]"
inline std::string format_shape(const TensorView& view) {
  return format_shape(std::span(view.shape).first(static_cast<size_t>(view.rank)));
}

// Copies the elements to or from contiguous memory in row-major order. Nothing between the elements of a view
// is read or written. Kernels as those of operators, so that each kind of device has its own.
struct Packing {
  TensorView from;
  void* to;
};
struct Unpacking {
  const void* from;  // null means zeros
  TensorView to;
};
void run_kernel(const Packing& packing, void* workspace);
void run_kernel(const Unpacking& unpacking, void* workspace);
inline size_t kernel_workspace_size(const Packing&) {
  return 0;
}
inline size_t kernel_workspace_size(const Unpacking&) {
  return 0;
}

}  // namespace aclgrad
