// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Tensors for tests: double values in and out, any type and layout, holes that must stay untouched.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclgrad/types.h"
#include "aclnn/acl_meta.h"
#include "support/values.h"

namespace aclgrad::test {

enum class Layout {
  contiguous,
  transposed,     // axes lie in memory in reverse order
  gapped,         // every stride has room between elements, and the first element has an offset
  channels_last,  // the second axis lies innermost
  // Memory that is zero at first, taken only where it is written:
  sparse,      // contiguous
  far,         // every stride is beyond 2^31
  far_rows,    // all but the last one
  far_planes,  // all but the last two
};

inline constexpr Layout kLayouts[] = {Layout::contiguous, Layout::transposed, Layout::gapped};
inline constexpr Layout kFarLayouts[] = {Layout::far, Layout::far_rows, Layout::far_planes};

std::string name_of(Layout layout);

// A tensor with its storage and its handle. Elements and holes start as a pattern.
class TestTensor {
 public:
  // Whatever the layout, elements along the last `dense_axes` lie side by side.
  TestTensor(Shape shape, DataType type, Layout layout = Layout::contiguous,
             const std::vector<double>& values = {}, size_t dense_axes = 0);
  // With any strides, `elements_after` a line of 64 bytes.
  TestTensor(Shape shape, DataType type, const aclgrad::Shape& strides, int64_t elements_after,
             const std::vector<double>& values = {});
  // A part of a tensor, in the same memory.
  TestTensor(const TestTensor& whole, const Shape& first, Shape shape);
  ~TestTensor();
  TestTensor(const TestTensor&) = delete;
  TestTensor& operator=(const TestTensor&) = delete;

  aclTensor* handle() const { return handle_; }
  operator aclTensor*() const { return handle_; }

  void set(const std::vector<double>& values);  // rounds to the type
  std::vector<double> values() const;           // in row-major order
  std::vector<std::byte> bytes() const;         // the elements' bits, in row-major order
  bool holes_untouched() const;
  Tensor tensor() const;

  const Shape& shape() const { return shape_; }
  DataType type() const { return type_; }
  const std::vector<int64_t>& strides() const { return strides_; }
  void* data() const { return storage_.get(); }  // start of the storage, without the offset

 private:
  template <class Function>
  void for_each_row(Function&& function) const;
  int64_t row_stride() const;
  void make_handle();

  Shape shape_;
  DataType type_;
  std::vector<int64_t> strides_;
  int64_t offset_ = 0;
  int64_t storage_elements_ = 0;
  std::shared_ptr<std::byte> storage_;
  aclTensor* handle_ = nullptr;
};

// Address space with zeros. Throws std::bad_alloc where the process may not have as much.
std::shared_ptr<std::byte> map_zeros(size_t bytes);

// Runs both phases on the default stream and waits. `phase1` is called with where to put workspace size and
// executor. Returns the first status that is not 0.
using Phase1 = std::function<aclnnStatus(uint64_t*, aclOpExecutor**)>;
using Phase2 = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);
aclnnStatus run(const Phase1& phase1, Phase2 phase2);

}  // namespace aclgrad::test
