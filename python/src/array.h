// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Arrays of Python as tensor views.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/view.h"

namespace aclgrad::python {

namespace nb = nanobind;

struct TorchTensor;  // PyTorch's own, which its C interface hands out
using TorchHandle = std::shared_ptr<TorchTensor>;

// A tensor of PyTorch's without memory, of which compilers ask what an operator makes.
struct FakeTensor {
  int64_t position;  // among the arguments
  std::string type;  // in PyTorch's words
  std::string device;
  int gpu;
  std::vector<int64_t> sizes;  // kAnySize where it is not known

  // Stands for the size of one of its axes, where less than kFirstSource stands for itself.
  static constexpr int64_t kFirstSource = 16;
  static int64_t source(int64_t position, size_t axis) {
    return kFirstSource + position * TensorView::kMaxRank + static_cast<int64_t>(axis);
  }
};

// An argument of a call: an object of Python, which the caller keeps, or a value of PyTorch's dispatcher, which is read
// without the interpreter's lock.
class Argument {
 public:
  using Value =
      std::variant<nb::handle, TorchHandle, int64_t, bool, std::string, std::vector<bool>, const FakeTensor*>;

  Argument() = default;  // None
  Argument(nb::handle object) : value_(object) {}
  // Of a tensor of PyTorch's whose derivatives somebody else looks after, or which has none.
  static Argument without_derivative(nb::handle object) {
    Argument argument(object);
    argument.has_no_derivative_ = true;
    return argument;
  }
  explicit Argument(Value value) : value_(std::move(value)) {}

  bool has_no_derivative() const { return has_no_derivative_; }
  bool is_none() const { return get_if<nb::handle>() != nullptr && object().is_none(); }

  // Null where it is of another type.
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value_);
  }

  // None where it is no object of Python.
  nb::handle object() const {
    const auto* object = get_if<nb::handle>();
    return object != nullptr && object->is_valid() ? *object : nb::handle(Py_None);
  }

 private:
  Value value_;
  bool has_no_derivative_ = false;
};

inline constexpr int kOnCpu = -1;

// An array that the caller passed, or a new one for a result.
struct Array {
  const char* name = "";   // as the caller knows it
  TensorView view;         // of the object's own memory
  int gpu = kOnCpu;        // number of the CUDA device in whose memory it lies
  void* stream = nullptr;  // of that device, on which the caller works
  bool writable = false;
  bool given = false;  // by the caller, as memory for a result
  nb::object object;
  TorchHandle handle;                // instead of an object
  const FakeTensor* fake = nullptr;  // likewise
  nb::ndarray<nb::ro> lent;          // what DLPack lent, to be given back at the end

  DataType type() const { return view.type; }
  int64_t size(int axis) const { return view.shape[static_cast<size_t>(axis)]; }
  bool empty() const { return view.empty(); }
  bool on_gpu() const { return gpu != kOnCpu; }
  bool on_cpu() const { return fake != nullptr ? fake->device == "cpu" : gpu == kOnCpu; }
};

inline bool is_integer(DataType type) {
  return type == DataType::int32 || type == DataType::int64;
}

// Why an object does not serve as an array.
struct NotAnArray {
  bool wrong_type;  // rather than a wrong value
  std::string expected;
  std::string got;
};

// Reads NumPy's arrays, tensors of PyTorch, and whatever else has DLPack or the buffer protocol on the CPU. Copies
// nothing, and waits for nothing. Throws NotAnArray; `types` says there in words which element types are wanted.
Array read_array(const Argument& argument, std::string_view types, bool writable);

// Derivatives that PyTorch knows to be zero have none, and tensors whose storage was freed.
inline void check_has_memory(const Array& array) {
  if (array.view.base == nullptr && !array.empty())
    throw NotAnArray{false, "a tensor with memory", "one without"};
}

// Throws NotAnArray for a tensor of PyTorch's while PyTorch records what is called. It would not record this call, but
// its results as constants, or as memory without contents.
void check_is_not_recorded(const Argument& argument);

// A NumPy array of the values of a tuple, list or range. Invalid where they are no rectangular array.
nb::object integer_array(nb::handle sequence);

// A new array of the kind and type of `like`: PyTorch's for PyTorch's, else NumPy's. Its contents are undefined.
Array new_array(const Array& like, const Shape& shape);

// Tells PyTorch that the contents of one of its tensors change.
void note_change(const Array& array);

bool in_dual_level();  // of PyTorch's forward differentiation

bool is_bool(nb::handle object);  // of Python or NumPy

// In UTF-8, whatever the objects of a program make of themselves.
std::string text_of(nb::handle object);
std::string repr_of(nb::handle object);
std::string repr_of(const Argument& argument);
std::string type_name_of(nb::handle object);

}  // namespace aclgrad::python
