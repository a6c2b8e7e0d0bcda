// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "tensor/contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/data_type.h"
#include "base/workspace.h"
#include "tensor/view.h"

namespace aclgrad {
namespace {

bool is_empty(const Shape& shape) {
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

bool is_aligned(const void* address, size_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

}  // namespace

void Contract::floats(std::initializer_list<DataType> allowed) {
  std::copy(allowed.begin(), allowed.end(), allowed_.begin());
  allowed_count_ = allowed.size();
}

void Contract::number(std::string_view name, int64_t got, int64_t min, int64_t max) const {
  if (got < min || got > max) refuse(name, fmt::format("{} to {}", min, max), std::to_string(got));
}

void Contract::check(bool passed, std::string_view name, std::string_view expected, int64_t got) const {
  if (!passed) refuse(name, expected, std::to_string(got));
}

void Contract::not_empty(std::string_view name, const ConstTensor& tensor) const {
  if (is_empty(tensor.shape)) refuse(name, "a tensor that is not empty", format_shape(tensor.shape));
}

void Contract::check_mode(const Member& member, int64_t value,
                          std::initializer_list<const char*> names) const {
  const int64_t got = value_of(member, value), count = static_cast<int64_t>(names.size());
  if (got >= 0 && got < count) return;
  refuse(name_of(member),
         either_of(names.size(), [&](size_t i) { return fmt::format("{} ({})", i, names.begin()[i]); }),
         std::to_string(got));
}

void Contract::check_floats(const Member& member, const Facts& tensor, std::string_view axes,
                            const Access& access, int dense_from) {
  if (first_float_.empty()) {
    check_given(member, tensor);
    check_type(member, tensor, std::span(allowed_).first(allowed_count_));
    first_float_ = name_of(member);
    float_type_ = tensor.type;
  } else if (tensor.defined() && tensor.type != float_type_) {
    refuse_type(member, float_type_, first_float_, tensor.type);
  }
  check_tensor(member, tensor, axes, access, dense_from);
}

// In C and Python one that is not defined has no axes.
void Contract::check_given(const Member& member, const Facts& tensor) const {
  if (!tensor.defined() && interface_ == Interface::cpp) refuse(name_of(member), "a tensor", "none");
}

void Contract::check_type(const Member& member, const Facts& tensor, std::span<const DataType> types) const {
  if (std::find(types.begin(), types.end(), tensor.type) != types.end()) return;
  refuse(name_of(member),
         "data type " + either_of(types.size(), [&](size_t i) { return aclgrad::name_of(types[i]); }),
         fmt::format("{} (aclDataType {})", aclgrad::name_of(tensor.type), static_cast<int>(tensor.type)));
}

void Contract::check_tensor(const Member& member, const Facts& tensor, std::string_view axes,
                            const Access& access, int dense_from) {
  check_shape(member, tensor, axes);
  lay_out(member, tensor, access, axes, dense_from);
}

void Contract::check_shape(const Member& member, const Facts& tensor, std::string_view axes) {
  check_given(member, tensor);
  const Shape& shape = tensor.shape;
  if (!in_c()) check_sizes(member, shape);  // there those of a handle
  if (shape.rank() != static_cast<int>(axes.size())) refuse_shape(member, shape, axes);
  bool is_expected = true;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const char letter = axes[static_cast<size_t>(axis)];
    if (!knows(letter) || expected_size(letter) == kAnySize) set_size(letter, shape[axis]);
    is_expected = is_expected && (shape[axis] == expected_size(letter) || shape[axis] == kAnySize);
  }
  if (!is_expected) refuse_shape(member, shape, axes);
}

Shape Contract::shape_of(std::string_view axes) const {
  std::array<int64_t, Shape::kMaxRank> sizes;
  std::transform(axes.begin(), axes.end(), sizes.begin(),
                 [&](char letter) { return knows(letter) ? expected_size(letter) : kAnySize; });
  return {sizes.data(), static_cast<int>(axes.size())};
}

void Contract::refuse_shape(const Member& member, const Shape& shape, std::string_view axes) const {
  if (!std::all_of(axes.begin(), axes.end(), [&](char letter) { return knows(letter); }))
    refuse_rank(member, axes.size(), shape);
  refuse(name_of(member), "shape " + format_shape(shape_of(axes)), format_shape(shape));
}

void Contract::refuse_rank(const Member& member, size_t rank, const Shape& shape) const {
  refuse(name_of(member), fmt::format("{} dimensions", rank), format_shape(shape));
}

void Contract::refuse_type(const Member& member, DataType expected, std::string_view as, DataType got) const {
  refuse(name_of(member), fmt::format("data type {}, as {} has", aclgrad::name_of(expected), as),
         aclgrad::name_of(got));
}

// That a tensor can have them.
void Contract::check_sizes(const Member& member, const Shape& shape) const {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0 && !in_python())
      refuse(name_of(member), "a shape without negative sizes", format_shape(shape));
    if (__builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count) || count > kMaxElements)
      refuse(name_of(member), fmt::format("at most {} elements", kMaxElements), format_shape(shape));
  }
}

void ContractOfFields::refuse(std::string_view name, std::string_view expected, std::string_view got) const {
  throw std::invalid_argument(fmt::format("{}.{}: expected {}, got {}.", function(), name, expected, got));
}

void ContractOfFields::lay_out(const Member& member, const Facts& tensor, const Access& access,
                               std::string_view, int dense_from) {
  if (is_empty(tensor.shape)) return;
  check_strides(member.field, tensor, access.is_written, dense_from);
  if (checks_addresses_ && access.needs_address) check_address(member.field, tensor);
}

void ContractOfFields::check_strides(const char* field, const Facts& tensor, bool is_written,
                                     int dense_from) const {
  if (tensor.strides.rank() != tensor.shape.rank()) {
    refuse(fmt::format("{}.strides", field), fmt::format("{} axes", tensor.shape.rank()),
           format_shape(tensor.strides));
  }
  int64_t last = 0;  // element
  int64_t dense = 1;
  for (int axis = tensor.shape.rank(); axis-- > 0;) {
    const int64_t size = tensor.shape[axis], stride = tensor.strides[axis];
    if (size == 1) continue;
    const auto refuse_stride = [&](std::string_view expected) {
      refuse(fmt::format("{}.strides[{}]", field, axis), expected, std::to_string(stride));
    };
    int64_t step = 0;
    if (axis >= dense_from && stride != dense) refuse_stride(fmt::format("a stride of {}", dense));
    if (stride < 0) refuse_stride("a stride of at least 0");
    if (__builtin_mul_overflow(size - 1, stride, &step) || __builtin_add_overflow(last, step, &last) ||
        last > kMaxElements) {
      refuse_stride("a stride within the address space");
    }
    dense *= size;
  }
  if (is_written && repeats_elements(tensor.shape, tensor.strides)) {
    refuse(fmt::format("{}.strides", field), "memory of its own for each element",
           format_shape(tensor.strides));
  }
}

void ContractOfFields::check_address(const char* field, const Facts& tensor) const {
  const size_t alignment = size_of(tensor.type);
  if (tensor.data == nullptr) refuse(fmt::format("{}.data", field), "an address", "null");
  if (is_aligned(tensor.data, alignment)) return;
  refuse(fmt::format("{}.data", field), fmt::format("a multiple of {} bytes", alignment),
         fmt::format("{}", tensor.data));
}

void ContractOfFields::check_workspace(const WorkspaceView& got, size_t bytes) const {
  if (bytes == 0) return;
  if (got.bytes < bytes)
    refuse("workspace.bytes", fmt::format("at least {}", bytes), std::to_string(got.bytes));
  if (got.data != nullptr && is_aligned(got.data, kWorkspaceAlignment)) return;
  refuse("workspace.data", fmt::format("a multiple of {} bytes", kWorkspaceAlignment),
         got.data == nullptr ? "null" : fmt::format("{}", got.data));
}

}  // namespace aclgrad
