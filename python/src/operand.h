// Between arrays and kernels. None of this touches Python, so that it runs without the interpreter's lock.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tensor/view.h"

namespace aclgrad::python {

// What a kernel reads or writes: an array where it lies, or a contiguous copy where its layout does not suit. Kernels
// want aligned elements, strides of 0 or more, and the axes from `first_dense` on contiguous.
class Operand {
 public:
  static Operand read(const TensorView& array, int first_dense);
  static Operand write(const TensorView& array, int first_dense);

  void* data() const { return view_.first(); }
  int64_t stride(int axis) const { return view_.strides[static_cast<size_t>(axis)]; }
  DataType type() const { return view_.type; }

  // Brings what the kernel wrote to the array.
  void finish() const;

 private:
  Operand(const TensorView& array, int first_dense);

  TensorView array_;
  TensorView view_;
  std::unique_ptr<std::byte[]> copy_;
};

// The same memory with the last axis cut in two, of which the first has `outer` entries.
TensorView split_last_axis(TensorView view, int64_t outer);

// All elements in row-major order.
std::vector<int64_t> integers_of(const TensorView& view);
std::vector<double> doubles_of(const TensorView& float64_view);
void write_doubles(const std::vector<double>& values, const TensorView& float64_view);

// At least `bytes` of this thread's scratch memory, on a 64-byte boundary. The next call may move it.
void* scratch(size_t bytes);

template <class Problem>
void run(void (*kernel)(const Problem&, void*), const Problem& problem) {
  kernel(problem, scratch(workspace_size(problem)));
}

}  // namespace aclgrad::python
