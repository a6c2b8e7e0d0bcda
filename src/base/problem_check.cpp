#include "base/problem_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/data_type.h"
#include "base/workspace.h"

namespace aclgrad {
namespace {

bool is_aligned(const void* address, size_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

std::string text_of(DataType type) {
  return fmt::format("{} ({})", name_of(type), static_cast<int32_t>(type));
}

bool has_elements(ProblemCheck::Axes axes) {
  return std::none_of(axes.begin(), axes.end(),
                      [](const ProblemCheck::Axis& axis) { return axis.size == 0; });
}

}  // namespace

void ProblemCheck::type(std::string_view field, DataType got, std::initializer_list<DataType> allowed) const {
  if (std::find(allowed.begin(), allowed.end(), got) != allowed.end()) return;
  std::string names;
  for (DataType type : allowed) names += fmt::format("{}{}", names.empty() ? "" : " or ", name_of(type));
  refuse(field, names, text_of(got));
}

void ProblemCheck::size(std::string_view field, int64_t got, int64_t least, int64_t most) const {
  if (got >= least && got <= most) return;
  refuse(field, fmt::format("{} to {}", least, most), std::to_string(got));
}

void ProblemCheck::element_count(std::string_view field, std::span<const int64_t> sizes) const {
  int64_t count = 1;
  for (int64_t size : sizes) {
    if (__builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count) || count > kMaxElements) {
      refuse(field, fmt::format("at most {} elements", kMaxElements),
             fmt::format("{}", fmt::join(sizes, " * ")));
    }
  }
}

void ProblemCheck::input(std::string_view field, const void* data, DataType type, Axes axes) const {
  input_strides(field, axes);
  this->data(field, data, type, axes);
}

void ProblemCheck::output(std::string_view field, const void* data, DataType type, Axes axes) const {
  output_strides(field, axes);
  this->data(field, data, type, axes);
}

void ProblemCheck::input_strides(std::string_view field, Axes axes) const {
  strides(field, axes, 0);
}

void ProblemCheck::output_strides(std::string_view field, Axes axes) const {
  strides(field, axes, 1);
}

void ProblemCheck::data(std::string_view field, const void* data, DataType type, Axes axes) const {
  if (has_elements(axes)) address(field, data, type);
}

void ProblemCheck::strides(std::string_view field, Axes axes, int64_t least_stride) const {
  if (!has_elements(axes)) return;
  int64_t last = 0;  // element
  for (const Axis& axis : axes) {
    if (axis.size == 1) continue;
    if (axis.stride < least_stride) {
      refuse(fmt::format("{}{}", field, axis.field), fmt::format("a stride of at least {}", least_stride),
             std::to_string(axis.stride));
    }
    int64_t step = 0;
    if (__builtin_mul_overflow(axis.size - 1, axis.stride, &step) ||
        __builtin_add_overflow(last, step, &last) || last > kMaxElements) {
      refuse(fmt::format("{}{}", field, axis.field), "a stride within the address space",
             std::to_string(axis.stride));
    }
  }
}

void ProblemCheck::indices(std::string_view field, const IndexArray& array, int64_t entries) const {
  if (array.type != DataType::int32 && array.type != DataType::int64) {
    refuse(fmt::format("{}.type", field), "int32 or int64", text_of(array.type));
  }
  if (entries > 0) address(field, array.data, array.type);
}

void ProblemCheck::address(std::string_view field, const void* data, DataType type) const {
  if (data == nullptr) refuse(field, "an address", "null");
  const size_t alignment = size_of(type);
  if (!is_aligned(data, alignment)) {
    refuse(field, fmt::format("an address that is a multiple of {} bytes", alignment),
           fmt::format("{}", data));
  }
}

bool ProblemCheck::is_workspace(const void* memory) {
  return memory != nullptr && is_aligned(memory, kWorkspaceAlignment);
}

void ProblemCheck::workspace(const void* memory, size_t bytes) const {
  if (bytes == 0 || is_workspace(memory)) return;
  refuse("workspace", fmt::format("{} bytes at a multiple of {}", bytes, kWorkspaceAlignment),
         memory == nullptr ? "null" : fmt::format("{}", memory));
}

void ProblemCheck::refuse(std::string_view field, std::string_view expected, std::string_view got) const {
  throw std::invalid_argument(
      fmt::format("{}.{}: expected {}, got {}.", operator_name_, field, expected, got));
}

}  // namespace aclgrad
