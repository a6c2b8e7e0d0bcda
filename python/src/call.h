// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// One call of a function: it brings the arguments into an operator's problem, which the operator's contract checks, makes
// the results that the contract describes, and runs the problem's kernel.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "array.h"
#include "tensor/contract.h"

namespace aclgrad::python {

// What a function gives: what is not wanted is absent.
using Results = std::vector<std::optional<Array>>;

// By what name the calls of this thread are made, while the object lives, and whether references answer them, with
// positions in double precision or not.
class Caller {
 public:
  explicit Caller(std::string_view name, std::optional<bool> reference = std::nullopt) : before_(current_) {
    current_ = {name, reference};
  }
  Caller(const Caller&) = delete;
  ~Caller() { current_ = before_; }

  static std::string_view current() { return current_.name; }
  static std::optional<bool> reference() { return current_.reference; }

 private:
  struct Current {
    std::string_view name;
    std::optional<bool> reference;
  };
  static thread_local Current current_;
  Current before_;
};

// Whatever is wrong is thrown as TypeError or ValueError that names function, argument, what was expected and what came.
class Call final : public Contract {
 public:
  enum class Memory { cpu, cpu_or_gpu };

  explicit Call(Memory memory)
      : Contract(Caller::current(), Interface::python), memory_(Caller::reference() ? Memory::cpu : memory) {}
  ~Call() override { std::destroy(members_.begin(), members_.end()); }

  // Arguments as members of the problem, which points to their own memory.
  const Array& input(const char* name, const Argument& argument,
                     ConstTensor& member);  // of floating-point numbers
  void optional_input(const char* name, const Argument& argument, ConstTensor& member);  // or None
  const Array& indices(const char* name, const Argument& argument, ConstTensor& member);
  void optional_indices(const char* name, const Argument& argument, ConstTensor& member);
  template <class Enum>
  void mode(const char* name, const Argument& argument, Enum& member) {
    modes_.at(mode_count_++) = {name, &argument, &member, [](const void* address, size_t value) {
                                  *static_cast<Enum*>(const_cast<void*>(address)) = static_cast<Enum>(value);
                                }};
  }

  // Results: in `out` where the caller gives it, else in a new array of the kind of the first input that is checked. Of
  // several, `out` has an entry each, and those that are not wanted stay undefined.
  void output(const char* name, const Argument& out, Tensor& member) { add_output(name, out, &member); }
  void outputs(const Argument& out, const std::vector<bool>& wanted, std::initializer_list<Tensor*> members);

  // Arguments that are no members.
  Array integers(const char* name,
                 const Argument& argument) const;  // int32 or int64, in an array or a sequence
  int64_t integer(const char* name, const Argument& argument) const;
  bool flag(const char* name, const Argument& argument) const;  // of Python or NumPy
  std::vector<bool> flags(const char* name, const Argument& argument,
                          size_t count) const;  // of a reference all

  // Checks beside those of the contract.
  using Contract::input;
  using Contract::integers;
  using Contract::mode;
  using Contract::optional_input;
  using Contract::output;
  bool can_read(const Array& array) const { return array.fake == nullptr && !array.on_gpu(); }
  bool reads_data() const override { return can_read(first_->array); }
  void check_rank(const Array& array, size_t rank) const;
  // For the entry `index` of an array of indices.
  [[noreturn]] void refuse_entry(const char* name, size_t index, std::string_view expected,
                                 int64_t got) const;
  void check_ends(const char* name, const std::vector<int64_t>& ends) const;  // from 0 on and non-decreasing
  [[noreturn]] void refuse(std::string_view name, std::string_view expected,
                           std::string_view got) const override {
    fail(false, name, expected, got);
  }

  // Runs the problem's kernel, its reference or `body`, without the interpreter's lock, where any result is wanted.
  // Tensors that a kernel cannot read or write where they lie are copied before and after.
  template <class Problem>
  Results run(const Problem& problem, void (*reference)(const Problem&, bool in_double) = nullptr) {
    const std::optional<bool> in_double = Caller::reference();
    return compute([&] { in_double ? reference(problem, *in_double) : launch(problem); });
  }
  Results compute(const std::function<void()>& body);

  // What follows is for `body`. On a GPU it runs on PyTorch's current stream, with memory of PyTorch's, so that nothing is
  // waited for and CUDA graphs can capture it.
  template <class Problem>
  void launch(const Problem& problem) {  // kernels need not take empty tensors
    has_empty_input() ? fill_zeros() : run_on_device(problem);
  }

 private:
  // A tensor of the problem.
  struct Bound {
    Bound(const char* name, Tensor* member) : address(member), output(member) { array.name = name; }
    template <class Read>
    explicit Bound(const Read& read) : array(read()) {}  // in place: its copies cost as much as the checks

    Array array;  // not yet of an output, before the contract makes it
    const void* address = nullptr;
    ConstTensor* input = nullptr;
    Tensor* output = nullptr;  // neither of a result that is not wanted
    nb::object out;            // invalid where the result is a new array
    std::string_view axes;     // empty before the contract checked it
    int dense_from = Shape::kMaxRank;
    void* copy = nullptr;  // which the kernel has instead
  };
  struct Mode {
    const char* name;
    const Argument* argument;
    const void* address;
    void (*set)(const void* address, size_t value);
  };

  template <class... Of>
  Bound& add(const Of&... of) {
    if (members_.size() == kMaxMembers)
      throw std::length_error("a call has more tensors than Call has room for");
    Bound* added = std::construct_at(reinterpret_cast<Bound*>(buffer_.data()) + members_.size(), of...);
    members_ = {added - members_.size(), members_.size() + 1};
    return *added;
  }
  void add_output(const char* name, const Argument& out, Tensor* member);  // null where it is not wanted
  template <class Read>
  const Array& bind(const Read& read, ConstTensor& member);  // the array that `read` gives
  Array read(const char* name, const Argument& argument, std::string_view types, bool writable) const;
  Array floats_of(const char* name, const Argument& argument) const;
  nb::object entry_of(const Argument& out, size_t count, size_t index) const;
  size_t index_of(const Mode& mode, std::initializer_list<const char*> choices) const;
  [[noreturn]] void fail(bool wrong_type, std::string_view name, std::string_view expected,
                         std::string_view got) const;

  Bound* find(const Member& member) const;
  std::string_view name_of(const Member& member) const override;
  bool is_given(const Member& member) const override { return find(member) != nullptr; }
  void make(const Member& member, std::string_view axes) override;
  void make_fake(Bound& bound, std::string_view axes) const;
  void check_type(const Member& member, const Facts& tensor, std::span<const DataType> types) const override;
  void check_mode(const Member& member, int64_t value,
                  std::initializer_list<const char*> names) const override;
  void refuse_type(const Member& member, DataType expected, std::string_view as, DataType got) const override;
  void refuse_rank(const Member& member, size_t rank, const Shape& shape) const override;
  void lay_out(const Member& member, const Facts& tensor, const Access& access, std::string_view axes,
               int dense_from) override;

  void claim() const;
  void find_stream();
  void* memory(size_t bytes);  // which lives as long as the call; on a GPU at a multiple of 64 bytes
  void pack();
  void unpack();
  bool has_empty_input() const;  // of floating-point numbers
  void fill_zeros();             // all results
  template <class Problem>
  void run_on_device(const Problem& problem);

  Memory memory_;
  static constexpr size_t kMaxMembers = 16;
  // Inside of the object, because an allocation costs as much as the checks.
  alignas(Bound) std::array<std::byte, kMaxMembers * sizeof(Bound)> buffer_;
  std::span<Bound> members_;  // there
  std::array<Mode, 4> modes_;
  size_t mode_count_ = 0;
  const Bound* first_ = nullptr;  // that the contract checked
  CudaLaunch launch_;
  std::vector<nb::object> tensors_;                      // that hold memory on the GPU
  std::vector<std::unique_ptr<std::byte[]>> allocated_;  // memory on the CPU
};

// That of a function with one.
inline Array only(Results results) {
  return std::move(*results[0]);
}

// All elements in row-major order.
std::vector<int64_t> integers_of(const ConstTensor& tensor);
std::vector<double> doubles_of(const ConstTensor& tensor);  // of float64; none if it is undefined
void write_doubles(const std::vector<double>& values, const Tensor& tensor);

// This thread's workspace of at least `bytes`, 64-byte aligned. The next call may move it.
void* scratch(size_t bytes);

template <class Problem>
void Call::run_on_device(const Problem& problem) {
  if (first_->array.on_gpu()) {
    run_kernel(problem, memory(kernel_workspace_size(problem, launch_)), launch_);
  } else {
    run_kernel(problem, scratch(kernel_workspace_size(problem)));
  }
}

}  // namespace aclgrad::python
