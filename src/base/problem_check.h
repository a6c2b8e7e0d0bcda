// Checks at the door of the C++ interface. Each throws std::invalid_argument, which names operator, field, what was
// expected and what came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "aclgrad/types.h"

namespace aclgrad {

class ProblemCheck {
 public:
  // Of one tensor, so that the bytes of a few tensors with a workspace for them can be added up.
  static constexpr int64_t kMaxElements = INT64_MAX / 1024;

  // An axis of a tensor, and what follows the tensor's name in the name of the field with the axis' stride.
  struct Axis {
    int64_t size;
    int64_t stride;
    std::string_view field;
  };
  using Axes = std::span<const Axis>;

  explicit constexpr ProblemCheck(std::string_view operator_name) : operator_name_(operator_name) {}

  void type(std::string_view field, DataType got, std::initializer_list<DataType> allowed) const;

  // Enumerators are numbered from 0 to `last`.
  template <class Enum>
  void enumerator(std::string_view field, Enum got, Enum last) const {
    size(field, static_cast<int64_t>(got), 0, static_cast<int64_t>(last));
  }

  void size(std::string_view field, int64_t got, int64_t least, int64_t most = kMaxElements) const;

  // That the sizes of a tensor, each of which has been checked, can be multiplied.
  void element_count(std::string_view field, std::span<const int64_t> sizes) const;

  // Strides of at least 0, for an output at least 1, since with 0 its elements would share memory.
  void input_strides(std::string_view field, Axes axes) const;
  void output_strides(std::string_view field, Axes axes) const;

  // An address where there are elements.
  void data(std::string_view field, const void* data, DataType type, Axes axes) const;

  // Strides and address.
  void input(std::string_view field, const void* data, DataType type, Axes axes) const;
  void output(std::string_view field, const void* data, DataType type, Axes axes) const;

  // An index array with that many entries.
  void indices(std::string_view field, const IndexArray& array, int64_t entries) const;

  // Memory on the boundary that a workspace needs.
  static bool is_workspace(const void* memory);
  void workspace(const void* memory, size_t bytes) const;

  [[noreturn]] void refuse(std::string_view field, std::string_view expected, std::string_view got) const;

 private:
  void strides(std::string_view field, Axes axes, int64_t least_stride) const;
  void address(std::string_view field, const void* data, DataType type) const;

  std::string_view operator_name_;
};

// The functions of the C++ interface. An operator has, for each of its problems, beside the kernel:
//   ProblemCheck check_of(const Problem&)     names it
//   void check_sizes(const Problem&)          types, enumerators, sizes and strides from which the workspace follows
//   void check_tensors(const Problem&)        other strides, and addresses

template <class Problem, class... On>
size_t checked_workspace_size(const Problem& problem, const On&... on) {
  check_sizes(problem);
  return kernel_workspace_size(problem, on...);
}

template <class Problem>
double checked_nanoseconds(const Problem& problem) {
  check_sizes(problem);
  return kernel_nanoseconds(problem);
}

template <class Problem, class... On>
void check_and_run(const Problem& problem, void* workspace, const On&... on) {
  check_sizes(problem);
  check_tensors(problem);
  if (!ProblemCheck::is_workspace(workspace)) {
    check_of(problem).workspace(workspace, kernel_workspace_size(problem, on...));
  }
  run_kernel(problem, workspace, on...);
}

}  // namespace aclgrad
