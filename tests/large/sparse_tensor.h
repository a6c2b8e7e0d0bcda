// Tensors of any size, which take memory only where they are written.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <new>
#include <random>

#include "base/data_type.h"
#include "support/values.h"

namespace aclgrad::test {

using Bytes = std::vector<std::byte>;

// Address space with zeros. Throws std::bad_alloc where the process may not have as much.
inline std::shared_ptr<std::byte> map_zeros(size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // Elements that lie far apart would else take a huge page each.
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  return {static_cast<std::byte*>(memory), [bytes](std::byte* first) { munmap(first, bytes); }};
}

inline Shape packed_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t axis = shape.size() - 1; axis-- > 0;) strides[axis] = strides[axis + 1] * shape[axis + 1];
  return strides;
}

// Strides beyond 2^31 for all axes but the last `contiguous_axes`.
inline Shape far_strides(const Shape& shape, size_t contiguous_axes) {
  constexpr int64_t kFar = (int64_t{1} << 31) + 64;  // whole cache lines apart, as some paths require
  Shape strides = packed_strides(shape);
  int64_t stride = kFar;
  for (size_t axis = shape.size() - contiguous_axes; axis-- > 0;) {
    strides[axis] = stride;
    stride = stride * shape[axis] + 64;
  }
  return strides;
}

// Copies share their memory, and parts of a tensor do so too.
class SparseTensor {
 public:
  SparseTensor(DataType type, Shape shape) : SparseTensor(type, shape, packed_strides(shape)) {}

  SparseTensor(DataType type, Shape shape, Shape strides)
      : type_(type), shape_(std::move(shape)), strides_(std::move(strides)) {
    int64_t last = 0;
    for (size_t axis = 0; axis < shape_.size(); ++axis) last += (shape_[axis] - 1) * strides_[axis];
    memory_ = map_zeros(static_cast<size_t>(last + 1) * size_of(type));
    data_ = memory_.get();
  }

  SparseTensor part(const Shape& first, Shape shape) const {
    SparseTensor part = *this;
    for (size_t axis = 0; axis < first.size(); ++axis)
      part.data_ += first[axis] * strides_[axis] * static_cast<int64_t>(size_of(type_));
    part.shape_ = std::move(shape);
    return part;
  }

  // The same values, contiguous.
  SparseTensor packed() const {
    SparseTensor copy(type_, shape_);
    copy.set_bytes(bytes());
    return copy;
  }

  Tensor tensor() const {
    const auto rank = static_cast<int>(shape_.size());
    return {data(), type_, aclgrad::Shape(shape_.data(), rank), aclgrad::Shape(strides_.data(), rank)};
  }

  // Small whole numbers, whose sums are exact in any order.
  void fill(uint32_t seed) {
    std::mt19937 engine(seed);
    std::vector<double> values(static_cast<size_t>(element_count(shape_)));
    for (double& value : values) value = static_cast<double>(engine() % 7) - 3;
    set(values);
  }

  void set(const std::vector<double>& values) {
    for_each_element(
        [&](size_t index, std::byte* element) { write_element(values.at(index), element, type_); });
  }

  std::vector<double> values() const {
    std::vector<double> values(static_cast<size_t>(element_count(shape_)));
    for_each_element([&](size_t index, std::byte* element) { values[index] = read_element(element, type_); });
    return values;
  }

  Bytes bytes() const {
    const size_t size = size_of(type_);
    Bytes bytes(static_cast<size_t>(element_count(shape_)) * size);
    for_each_element(
        [&](size_t index, std::byte* element) { std::memcpy(&bytes[index * size], element, size); });
    return bytes;
  }

  void* data() const { return data_; }
  DataType type() const { return type_; }
  int64_t size(size_t axis) const { return shape_[axis]; }
  int64_t stride(size_t axis) const { return strides_[axis]; }
  const Shape& shape() const { return shape_; }

 private:
  void set_bytes(const Bytes& bytes) {
    const size_t size = size_of(type_);
    for_each_element(
        [&](size_t index, std::byte* element) { std::memcpy(element, &bytes[index * size], size); });
  }

  template <class Body>
  void for_each_element(Body&& body) const {
    const int64_t count = element_count(shape_);
    for (int64_t index = 0; index < count; ++index) {
      int64_t rest = index, offset = 0;
      for (size_t axis = shape_.size(); axis-- > 0; rest /= shape_[axis])
        offset += rest % shape_[axis] * strides_[axis];
      body(static_cast<size_t>(index), data_ + offset * static_cast<int64_t>(size_of(type_)));
    }
  }

  DataType type_;
  Shape shape_;
  Shape strides_;
  std::shared_ptr<std::byte> memory_;
  std::byte* data_;
};

}  // namespace aclgrad::test
