// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What an operator expects of a problem, said once for every interface. An operator has, for each of its problems, in its
// contract.cpp:
//
//   void check(const Problem& problem, Contract& contract);
//
// It states tensors and attributes in the order in which they are checked, by their names in the C++ interface. Another
// interface brings its own name of each member of the problem. Each axis of a tensor has a letter, or a digit where it
// has that very size: "NC3". The first axis with a letter says its size, and all others with it must have that size.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "aclgrad/types.h"
#include "base/environment.h"
#include "base/kernel.h"

namespace aclgrad {

// "a, b or c": item(i) is the text of each.
template <class Item>
std::string either_of(size_t count, Item&& item) {
  std::string list;
  for (size_t i = 0; i < count; ++i) {
    list += i == 0 ? "" : i + 1 == count ? " or " : ", ";
    list += item(i);
  }
  return list;
}

class Contract {
 public:
  enum class Interface { c, cpp, python };

  // The size of an axis of which nothing is known before the program runs, as a compiler of Python programs has them. It
  // equals any other.
  static constexpr int64_t kAnySize = -1;

  // Of one tensor, so that the bytes of a few tensors with a workspace for them can be added up.
  static constexpr int64_t kMaxElements = INT64_MAX / 1024;

  Contract(std::string_view function, Interface of_caller) : function_(function), interface_(of_caller) {}
  Contract(const Contract&) = delete;
  virtual ~Contract() = default;

  std::string_view function() const { return function_; }

  // In C, calls keep to the limits of the documents, although the kernels can do more. With ACLGRAD_STRICT they refuse
  // whatever any one of the documents refuses.
  bool in_c() const { return interface_ == Interface::c; }
  bool in_python() const { return interface_ == Interface::python; }
  bool is_strict() const { return in_c() && Environment::get().strict; }

  // The types of floating-point tensors: the first one has any of these, the others have its type.
  void floats(std::initializer_list<DataType> allowed);

  // Axes from `dense_from` on must lie side by side. Optional tensors may be left out.
  template <class Void>
  void input(const char* field, const BasicTensor<Void>& tensor, std::string_view axes,
             int dense_from = Shape::kMaxRank) {
    check_floats({field, &tensor}, tensor, axes, kRead, dense_from);
  }
  template <class Void>
  void optional_input(const char* field, const BasicTensor<Void>& tensor, std::string_view axes,
                      int dense_from = Shape::kMaxRank) {
    if (tensor.defined() || is_given({field, &tensor})) input(field, tensor, axes, dense_from);
  }
  void output(const char* field, const Tensor& tensor, std::string_view axes,
              int dense_from = Shape::kMaxRank) {
    make({field, &tensor}, axes);
    check_floats({field, &tensor}, tensor, axes, kWritten, dense_from);
  }
  void optional_output(const char* field, const Tensor& tensor, std::string_view axes,
                       int dense_from = Shape::kMaxRank) {
    make({field, &tensor}, axes);
    if (tensor.defined()) check_floats({field, &tensor}, tensor, axes, kWritten, dense_from);
  }

  // One whose data the kernel does not read.
  void unread_input(const char* field, const ConstTensor& tensor, std::string_view axes, int dense_from) {
    check_floats({field, &tensor}, tensor, axes, kUnread, dense_from);
  }

  // Contiguous integers.
  void integers(const char* field, const ConstTensor& tensor, std::string_view axes,
                std::initializer_list<DataType> types = {DataType::int32, DataType::int64}) {
    const Member member{field, &tensor};
    check_given(member, tensor);
    check_type(member, tensor, {types.begin(), types.size()});
    check_tensor(member, tensor, axes, kRead, 0);
  }

  void shape(const char* field, const ConstTensor& tensor, std::string_view axes) {
    check_shape({field, &tensor}, tensor, axes);
  }

  // The size of the axes with a letter, which a tensor or set_size has told.
  int64_t size(char letter) const { return sizes_[index_of(letter)]; }
  void set_size(char letter, int64_t size) {
    sizes_[index_of(letter)] = size;
    known_ |= uint64_t{1} << index_of(letter);
  }

  // An enumerator, of which these are the names from 0 on.
  template <class Enum>
  void mode(const char* field, const Enum& mode, std::initializer_list<const char*> names) const {
    check_mode({field, &mode}, static_cast<int64_t>(mode), names);
  }

  // What the caller calls a member of the problem.
  template <class T>
  std::string_view name(const char* field, const T& member) const {
    return name_of({field, &member});
  }

  // These are for what a caller calls `name`.
  void number(std::string_view name, int64_t got, int64_t min, int64_t max = kMaxElements) const;
  void check(bool passed, std::string_view name, std::string_view expected, int64_t got) const;
  void check(bool passed, std::string_view name, std::string_view expected, std::string_view got) const {
    if (!passed) refuse(name, expected, got);
  }

  void not_empty(std::string_view name, const ConstTensor& tensor) const;

  // Throws what the interface does where it refuses anything.
  [[noreturn]] virtual void refuse(std::string_view name, std::string_view expected,
                                   std::string_view got) const = 0;

  // Whether data may be read that lies in the memory of the host.
  virtual bool reads_data() const { return true; }

 protected:
  // Of the problem.
  struct Member {
    const char* field;  // its name there
    const void* address;
  };

  // A tensor of either kind.
  struct Facts {
    template <class Void>
    Facts(const BasicTensor<Void>& tensor)
        : data(tensor.data), type(tensor.type), shape(tensor.shape), strides(tensor.strides) {}

    bool defined() const { return shape.rank() != 0; }

    const void* data;
    DataType type;
    const Shape& shape;
    const Shape& strides;
  };

  // A member's name in the interface, and an attribute's value as the caller gave it: it may not fit the member's type.
  virtual std::string_view name_of(const Member& member) const { return member.field; }
  virtual int64_t value_of(const Member&, int64_t value) const { return value; }

  // Of a tensor that may be without axes although it is given.
  virtual bool is_given(const Member&) const { return false; }

  // An interface that makes its outputs defines the tensor here, of the sizes that are known by now.
  virtual void make(const Member&, std::string_view) {}

  virtual void check_type(const Member& member, const Facts& tensor, std::span<const DataType> types) const;
  virtual void check_mode(const Member& member, int64_t value,
                          std::initializer_list<const char*> names) const;
  virtual void refuse_type(const Member& member, DataType expected, std::string_view as, DataType got) const;
  virtual void refuse_rank(const Member& member, size_t rank, const Shape& shape) const;

  bool knows(char letter) const { return letter <= '9' || (known_ >> index_of(letter) & 1) != 0; }
  Shape shape_of(std::string_view axes) const;  // kAnySize where it is not known

  // What the kernel wants of the layout of a tensor.
  struct Access {
    bool is_written;
    bool needs_address;
  };
  virtual void lay_out(const Member& member, const Facts& tensor, const Access& access, std::string_view axes,
                       int dense_from) = 0;

 private:
  static constexpr Access kRead{false, true};
  static constexpr Access kUnread{false, false};
  static constexpr Access kWritten{true, true};

  static size_t index_of(char letter) {
    assert(letter >= 'A' && letter <= 'z');
    return static_cast<size_t>(letter - 'A');
  }
  int64_t expected_size(char letter) const { return letter <= '9' ? letter - '0' : size(letter); }

  void check_floats(const Member& member, const Facts& tensor, std::string_view axes, const Access& access,
                    int dense_from);
  void check_given(const Member& member, const Facts& tensor) const;
  void check_tensor(const Member& member, const Facts& tensor, std::string_view axes, const Access& access,
                    int dense_from);
  void check_shape(const Member& member, const Facts& tensor, std::string_view axes);
  void check_sizes(const Member& member, const Shape& shape) const;
  void refuse_shape(const Member& member, const Shape& shape, std::string_view axes) const;

  std::string_view function_;
  Interface interface_;
  std::array<DataType, 4> allowed_{};  // for floating-point tensors
  size_t allowed_count_ = 0;
  std::string_view first_float_;  // the name of the first one, which has the type float_type_
  DataType float_type_{};
  std::array<int64_t, 'z' - 'A' + 1> sizes_;  // of the letters that are known
  uint64_t known_ = 0;                        // a bit for each
};

// That of the C++ interface, which throws std::invalid_argument. Addresses are checked where the kernel is to run, and not
// where only the size of its workspace is asked for.
class ContractOfFields final : public Contract {
 public:
  ContractOfFields(std::string_view function, bool checks_addresses)
      : Contract(function, Interface::cpp), checks_addresses_(checks_addresses) {}

  [[noreturn]] void refuse(std::string_view name, std::string_view expected,
                           std::string_view got) const override;
  bool reads_data() const override { return checks_addresses_; }
  void check_workspace(const WorkspaceView& got, size_t bytes) const;

 private:
  void lay_out(const Member& member, const Facts& tensor, const Access& access, std::string_view axes,
               int dense_from) override;
  void check_strides(const char* field, const Facts& tensor, bool is_written, int dense_from) const;
  void check_address(const char* field, const Facts& tensor) const;

  bool checks_addresses_;
};

template <class Problem, class... On>
size_t checked_workspace_size(std::string_view function, const Problem& problem, const On&... on) {
  ContractOfFields contract(function, false);
  check(problem, contract);
  return kernel_workspace_size(problem, on...);
}

template <class Problem, class... On>
void check_and_run(std::string_view function, const Problem& problem, const WorkspaceView& workspace,
                   const On&... on) {
  ContractOfFields contract(function, true);
  check(problem, contract);
  contract.check_workspace(workspace, kernel_workspace_size(problem, on...));
  run_kernel(problem, workspace.data, on...);
}

}  // namespace aclgrad

// Defines the functions of the C++ interface for a problem, which differ in nothing but names.
#define ACLGRAD_DEFINE_FUNCTION(Problem, function)                              \
  size_t aclgrad::workspace_size(const Problem& problem) {                      \
    return checked_workspace_size(#function, problem);                          \
  }                                                                             \
  void aclgrad::function(const Problem& problem, const WorkspaceView& memory) { \
    check_and_run(#function, problem, memory);                                  \
  }

// Those of a problem that runs on a CUDA GPU, too.
#define ACLGRAD_DEFINE_FUNCTION_AND_CUDA(Problem, function)                                                 \
  ACLGRAD_DEFINE_FUNCTION(Problem, function)                                                                \
  size_t aclgrad::cuda::workspace_size(const Problem& problem, const CudaLaunch& on) {                      \
    return checked_workspace_size(#function, problem, on);                                                  \
  }                                                                                                         \
  void aclgrad::cuda::function(const Problem& problem, const WorkspaceView& memory, const CudaLaunch& on) { \
    check_and_run(#function, problem, memory, on);                                                          \
  }
