// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Checks at the door of the C++ interface. Each throws std::invalid_argument, which names operator, field, what was
// expected and what came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include "aclgrad/types.h"
#include "base/kernel.h"

namespace aclgrad {

class ProblemCheck {
 public:
  // Of one tensor, so that the bytes of a few tensors with a workspace for them can be added up.
  static constexpr int64_t kMaxElements = INT64_MAX / 1024;

  // An axis of an expected shape that may have any extent.
  static constexpr int64_t kAny = -1;

  // Addresses are checked where the kernel is to run, and not where only the size of its workspace is asked for.
  enum class Addresses { checked, unchecked };

  ProblemCheck(std::string_view operator_name, Addresses addresses)
      : operator_name_(operator_name), addresses_(addresses) {}

  bool checks_addresses() const { return addresses_ == Addresses::checked; }
  ProblemCheck without_addresses() const { return {operator_name_, Addresses::unchecked}; }

  // One that is passed by its type, and has a type of its own.
  void type(std::string_view field, const ConstTensor& tensor, std::initializer_list<DataType> allowed) const;

  // Enumerators are numbered from 0 to `last`.
  template <class Enum>
  void enumerator(std::string_view field, Enum got, Enum last) const {
    number(field, static_cast<int64_t>(got), 0, static_cast<int64_t>(last));
  }

  void number(std::string_view field, int64_t got, int64_t least, int64_t most = kMaxElements) const;

  void shape(std::string_view field, const ConstTensor& tensor, const Shape& expected) const;

  // The tensors of a problem: type, shape, strides and address. Axes from `dense_from` on must lie side by side.
  void input(std::string_view field, const ConstTensor& tensor, DataType type, const Shape& shape,
             int dense_from = Shape::kMaxRank) const;
  void output(std::string_view field, const Tensor& tensor, DataType type, const Shape& shape,
              int dense_from = Shape::kMaxRank) const;

  // An input and an output that may be left out.
  void given_input(std::string_view field, const ConstTensor& tensor, DataType type, const Shape& shape,
                   int dense_from = Shape::kMaxRank) const {
    if (tensor.defined()) input(field, tensor, type, shape, dense_from);
  }
  void wanted_output(std::string_view field, const Tensor& tensor, DataType type, const Shape& shape,
                     int dense_from = Shape::kMaxRank) const {
    if (tensor.defined()) output(field, tensor, type, shape, dense_from);
  }

  // Contiguous values of int32 or int64.
  void indices(std::string_view field, const ConstTensor& tensor, const Shape& shape) const;

  // At least so many bytes.
  void workspace(const WorkspaceView& got, size_t bytes) const;

  [[noreturn]] void refuse(std::string_view field, std::string_view expected, std::string_view got) const;

 private:
  void given(std::string_view field, const ConstTensor& tensor) const;
  void tensor(std::string_view field, const ConstTensor& tensor, const Shape& shape, int64_t least_stride,
              int dense_from) const;
  void strides(std::string_view field, const ConstTensor& tensor, int64_t least, int dense_from) const;
  void address(std::string_view field, const ConstTensor& tensor) const;

  std::string_view operator_name_;
  Addresses addresses_;
};

// The functions of the C++ interface. An operator has, for each of its problems, beside the kernel:
//   void check(const Problem&, ProblemCheck::Addresses)

template <class Problem, class... On>
size_t checked_workspace_size(const Problem& problem, const On&... on) {
  check(problem, ProblemCheck::Addresses::unchecked);
  return kernel_workspace_size(problem, on...);
}

template <class Problem, class... On>
void check_and_run(std::string_view operator_name, const Problem& problem, const WorkspaceView& workspace,
                   const On&... on) {
  check(problem, ProblemCheck::Addresses::checked);
  ProblemCheck(operator_name, ProblemCheck::Addresses::checked)
      .workspace(workspace, kernel_workspace_size(problem, on...));
  run_kernel(problem, workspace.data, on...);
}

}  // namespace aclgrad
