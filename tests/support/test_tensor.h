// Tensors for tests: double values in and out, any type and layout, holes that must stay untouched.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclgrad/types.h"
#include "aclnn/acl_meta.h"
#include "support/values.h"

namespace aclgrad::test {

enum class Layout {
  contiguous,
  transposed,  // axes lie in memory in reverse order
  gapped,      // every stride has room between elements, and the first element has an offset
};

inline constexpr Layout kLayouts[] = {Layout::contiguous, Layout::transposed, Layout::gapped};

std::string name_of(Layout layout);

// A tensor with its storage and its handle. Elements and holes start as a pattern.
class TestTensor {
 public:
  TestTensor(Shape shape, DataType type, Layout layout = Layout::contiguous);
  TestTensor(Shape shape, DataType type, Layout layout, const std::vector<double>& values);
  ~TestTensor();
  TestTensor(const TestTensor&) = delete;
  TestTensor& operator=(const TestTensor&) = delete;

  aclTensor* handle() const { return handle_; }
  operator aclTensor*() const { return handle_; }

  void set(const std::vector<double>& values);  // rounds to the type
  std::vector<double> values() const;           // in row-major order
  std::vector<std::byte> bytes() const;         // the elements' bits, in row-major order
  bool holes_untouched() const;

  const Shape& shape() const { return shape_; }
  DataType type() const { return type_; }
  const std::vector<int64_t>& strides() const { return strides_; }
  int64_t offset() const { return offset_; }
  void* data() { return storage_.data(); }  // start of the storage, without the offset

 private:
  template <class Function>
  void for_each_element(Function&& function) const;  // function(index, byte offset)

  Shape shape_;
  DataType type_;
  std::vector<int64_t> strides_;
  int64_t offset_ = 0;
  std::vector<std::byte> storage_;
  aclTensor* handle_ = nullptr;
};

// Runs both phases on the default stream and waits. `phase1` is called with where to put workspace size and
// executor. Returns the first status that is not 0.
using Phase1 = std::function<aclnnStatus(uint64_t*, aclOpExecutor**)>;
using Phase2 = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);
aclnnStatus run(const Phase1& phase1, Phase2 phase2);

}  // namespace aclgrad::test
