// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "base/problem_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/data_type.h"
#include "base/workspace.h"

namespace aclgrad {
namespace {

constexpr int64_t kMinInputStride = 0;
constexpr int64_t kMinOutputStride = 1;  // with 0 its elements would share memory

bool is_aligned(const void* address, size_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

bool has_elements(const ConstTensor& tensor) {
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
    if (tensor.size(axis) == 0) return false;
  }
  return true;
}

std::string text_of(const Shape& shape) {
  std::string entries;
  for (int axis = 0; axis < shape.rank(); ++axis)
    entries += fmt::format("{}{}", axis == 0 ? "" : ", ", shape[axis]);
  return "[" + entries + "]";
}

}  // namespace

void ProblemCheck::type(std::string_view field, const ConstTensor& tensor,
                        std::initializer_list<DataType> allowed) const {
  given(field, tensor);
  if (std::find(allowed.begin(), allowed.end(), tensor.type) != allowed.end()) return;
  std::string names;
  for (DataType type : allowed) names += fmt::format("{}{}", names.empty() ? "" : " or ", name_of(type));
  refuse(fmt::format("{}.type", field), names,
         fmt::format("{} ({})", name_of(tensor.type), static_cast<int32_t>(tensor.type)));
}

void ProblemCheck::number(std::string_view field, int64_t got, int64_t least, int64_t most) const {
  if (got >= least && got <= most) return;
  refuse(field, fmt::format("{} to {}", least, most), std::to_string(got));
}

void ProblemCheck::input(std::string_view field, const ConstTensor& tensor, DataType type, const Shape& shape,
                         int dense_from) const {
  this->type(field, tensor, {type});
  this->tensor(field, tensor, shape, kMinInputStride, dense_from);
}

void ProblemCheck::output(std::string_view field, const Tensor& tensor, DataType type, const Shape& shape,
                          int dense_from) const {
  this->type(field, tensor, {type});
  this->tensor(field, tensor, shape, kMinOutputStride, dense_from);
}

void ProblemCheck::indices(std::string_view field, const ConstTensor& tensor, const Shape& shape) const {
  type(field, tensor, {DataType::int32, DataType::int64});
  this->tensor(field, tensor, shape, kMinInputStride, 0);
}

void ProblemCheck::tensor(std::string_view field, const ConstTensor& tensor, const Shape& shape,
                          int64_t least_stride, int dense_from) const {
  this->shape(field, tensor, shape);
  if (!has_elements(tensor)) return;
  strides(field, tensor, least_stride, dense_from);
  if (checks_addresses()) address(field, tensor);
}

void ProblemCheck::given(std::string_view field, const ConstTensor& tensor) const {
  if (!tensor.defined()) refuse(field, "a tensor", "none");
}

void ProblemCheck::shape(std::string_view field, const ConstTensor& tensor, const Shape& expected) const {
  given(field, tensor);
  const Shape& shape = tensor.shape;
  if (shape.rank() != expected.rank())
    refuse(fmt::format("{}.shape", field), fmt::format("{} axes", expected.rank()), text_of(shape));
  int64_t count = 1;
  bool fits = true;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t extent = expected[axis];
    if (extent == kAny ? shape[axis] < 0 : shape[axis] != extent) {
      refuse(fmt::format("{}.shape[{}]", field, axis), extent == kAny ? "at least 0" : std::to_string(extent),
             std::to_string(shape[axis]));
    }
    fits = fits && !__builtin_mul_overflow(count, std::max<int64_t>(shape[axis], 1), &count) &&
           count <= kMaxElements;
  }
  if (!fits)
    refuse(fmt::format("{}.shape", field), fmt::format("at most {} elements", kMaxElements), text_of(shape));
}

void ProblemCheck::strides(std::string_view field, const ConstTensor& tensor, int64_t least,
                           int dense_from) const {
  if (tensor.strides.rank() != tensor.shape.rank())
    refuse(fmt::format("{}.strides", field), fmt::format("{} axes", tensor.shape.rank()),
           text_of(tensor.strides));
  int64_t last = 0;  // element
  int64_t dense = 1;
  for (int axis = tensor.shape.rank(); axis-- > 0;) {
    const int64_t size = tensor.size(axis), stride = tensor.stride(axis);
    int64_t step = 0;
    const auto refuse_stride = [&](std::string_view expected) {
      refuse(fmt::format("{}.strides[{}]", field, axis), expected, std::to_string(stride));
    };
    if (size == 1) continue;
    if (axis >= dense_from && stride != dense) refuse_stride(fmt::format("a stride of {}", dense));
    if (stride < least) refuse_stride(fmt::format("a stride of at least {}", least));
    if (__builtin_mul_overflow(size - 1, stride, &step) || __builtin_add_overflow(last, step, &last) ||
        last > kMaxElements) {
      refuse_stride("a stride within the address space");
    }
    dense *= size;
  }
}

void ProblemCheck::address(std::string_view field, const ConstTensor& tensor) const {
  const size_t alignment = size_of(tensor.type);
  if (tensor.data == nullptr) refuse(fmt::format("{}.data", field), "an address", "null");
  if (is_aligned(tensor.data, alignment)) return;
  refuse(fmt::format("{}.data", field), fmt::format("a multiple of {} bytes", alignment),
         fmt::format("{}", tensor.data));
}

void ProblemCheck::workspace(const WorkspaceView& got, size_t bytes) const {
  if (bytes == 0) return;
  if (got.bytes < bytes)
    refuse("workspace.bytes", fmt::format("at least {}", bytes), std::to_string(got.bytes));
  if (got.data != nullptr && is_aligned(got.data, kWorkspaceAlignment)) return;
  refuse("workspace.data", fmt::format("a multiple of {} bytes", kWorkspaceAlignment),
         got.data == nullptr ? "null" : fmt::format("{}", got.data));
}

void ProblemCheck::refuse(std::string_view field, std::string_view expected, std::string_view got) const {
  throw std::invalid_argument(
      fmt::format("{}.{}: expected {}, got {}.", operator_name_, field, expected, got));
}

}  // namespace aclgrad
