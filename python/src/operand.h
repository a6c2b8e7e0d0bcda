// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Between arrays and kernels. It runs without the interpreter's lock.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "arguments.h"
#include "interpreter_lock.h"
#include "tensor/view.h"

namespace aclgrad::python {

// Where the arrays of a call lie, all of them in one place, and so where it runs. On a GPU that is on PyTorch's current
// stream, with memory of PyTorch's, so that nothing is waited for and CUDA graphs can capture it.
class Place {
 public:
  Place(const Arguments& arguments, const Array& first, std::initializer_list<const Array*> others);

  bool on_gpu() const { return first_.on_gpu(); }

  // Calls `body` without the interpreter's lock.
  void compute(const std::function<void()>& body) const;

  // What follows is for `body`.

  // The problem's kernel.
  template <class Problem>
  void run(const Problem& problem) const;

  // Memory that lives as long as this object; on a GPU at a multiple of 64 bytes.
  void* memory(size_t bytes) const;
  void fill_zero(const TensorView& view) const { run(Unpacking{nullptr, view}); }

 private:
  const Array& first_;
  CudaLaunch launch_;
  mutable std::vector<nb::object> tensors_;                      // that hold memory on the GPU
  mutable std::vector<std::unique_ptr<std::byte[]>> allocated_;  // memory on the CPU
};

// What a kernel reads or writes: an array where it lies, or a contiguous copy where its layout does not suit. Kernels
// want aligned elements, strides of 0 or more, and the axes from `first_dense` on contiguous.
class Operand {
 public:
  static Operand read(const Place& place, const TensorView& array, int first_dense);
  static Operand write(const Place& place, const TensorView& array, int first_dense);

  void* data() const { return view_.first(); }
  int64_t stride(int axis) const { return view_.strides[static_cast<size_t>(axis)]; }
  DataType type() const { return view_.type; }
  Tensor tensor() const { return tensor_at(data(), view_); }

  // Brings what the kernel wrote to the array.
  void finish() const;

 private:
  Operand(const Place& place, const TensorView& array, int first_dense);

  const Place* place_;
  TensorView array_;
  TensorView view_;
  void* copy_ = nullptr;
};

// The same memory with the last axis cut in two, of which the first has `outer` entries.
TensorView split_last_axis(TensorView view, int64_t outer);

// All elements in row-major order.
std::vector<int64_t> integers_of(const TensorView& view);
std::vector<double> doubles_of(const TensorView& float64_view);
void write_doubles(const std::vector<double>& values, const TensorView& float64_view);

// This thread's workspace of at least `bytes`, 64-byte aligned. The next call may move it.
void* scratch(size_t bytes);

template <class Problem>
void Place::run(const Problem& problem) const {
  if (on_gpu()) {
    run_kernel(problem, memory(kernel_workspace_size(problem, launch_)), launch_);
  } else {
    run_kernel(problem, scratch(kernel_workspace_size(problem)));
  }
}

}  // namespace aclgrad::python
