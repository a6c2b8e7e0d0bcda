// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "torch_tensor.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_limit.h"
#include "interpreter_lock.h"

namespace aclgrad::python {
namespace {

// ---- PyTorch's C interface, the same from version 2.10 on

constexpr uint64_t kVersion =
    (uint64_t{2} << 56) | (uint64_t{10} << 48);  // whose conventions are followed here

struct Tensor;
struct String;
struct List;
struct Library;
using Value = uint64_t;  // a number, or a pointer to one of the above
using Kernel = void (*)(Value* stack, uint64_t inputs, uint64_t outputs);

// Its functions return 0 or fail. PyTorch need not be there; where it is, it is found among what is loaded.
struct Torch {
  int (*delete_tensor)(Tensor*);
  int (*copy_handle)(Tensor*, Tensor**);
  int (*is_defined)(Tensor*, bool*);
  int (*dim)(Tensor*, int64_t*);
  int (*sizes)(Tensor*, int64_t**);
  int (*strides)(Tensor*, int64_t**);
  int (*dtype)(Tensor*, int32_t*);
  int (*data)(Tensor*, void**);
  int (*empty_strided)(int64_t dim, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                       int32_t device_type, int32_t device, Tensor**);
  int32_t (*cpu)();
  int (*string_length)(String*, size_t*);
  int (*string_text)(String*, const char**);
  int (*delete_string)(String*);
  int (*new_list)(size_t, List**);
  int (*list_size)(List*, size_t*);
  int (*list_item)(List*, size_t, Value*);
  int (*append)(List*, Value);
  int (*delete_list)(List*);
  int (*new_library)(const char* name, const char* key, const char* file, uint32_t line, Library**);
  int (*thread_count)(uint32_t*);
  int (*add_kernel)(Library*, const char* name, Kernel, uint64_t version);
  std::array<int32_t, 6> types;  // the numbers of kTypes

  static const Torch& get() {
    static const Torch torch;
    return torch;
  }

 private:
  Torch();
};

constexpr std::array kTypes{DataType::float32, DataType::float16, DataType::bfloat16,
                            DataType::float64, DataType::int32,   DataType::int64};
static_assert(kTypes.size() == std::tuple_size_v<decltype(Torch::types)>);

// Null where there is none of this name.
void* look_up(const std::string& name) {
  static void* const torch = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
  return torch == nullptr ? nullptr : dlsym(torch, name.c_str());
}

void* find_function(const std::string& name) {
  void* found = look_up(name);
  if (found == nullptr) {
    throw nb::import_error(fmt::format("aclgrad.torch needs PyTorch 2.10 or later: no {}", name).c_str());
  }
  return found;
}

std::string number_function(std::string_view type) {
  return fmt::format("aoti_torch_dtype_{}", type);
}

// PyTorch's number of a type.
int32_t number_of(std::string_view type) {
  return reinterpret_cast<int32_t (*)()>(find_function(number_function(type)))();
}

std::string type_name_of(int32_t number) {
  for (const char* type : {"uint8", "int8", "int16", "bool", "complex64", "complex128", "uint16", "uint32",
                           "uint64", "complex32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
                           "float8_e5m2fnuz", "float8_e8m0fnu"}) {
    const bool is_known = look_up(number_function(type)) != nullptr;  // to this version of PyTorch
    if (is_known && number == number_of(type)) return fmt::format("torch.{}", type);
  }
  return "another type";
}

Torch::Torch() {
  const auto find = [](auto& function, const std::string& name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find_function(name));
  };
  find(delete_tensor, "aoti_torch_delete_tensor_object");
  find(copy_handle, "aoti_torch_new_tensor_handle");
  find(is_defined, "aoti_torch_is_defined");
  find(dim, "aoti_torch_get_dim");
  find(sizes, "aoti_torch_get_sizes");
  find(strides, "aoti_torch_get_strides");
  find(dtype, "aoti_torch_get_dtype");
  find(data, "aoti_torch_get_data_ptr");
  find(empty_strided, "aoti_torch_empty_strided");
  find(cpu, "aoti_torch_device_type_cpu");
  find(string_length, "torch_string_length");
  find(string_text, "torch_string_c_str");
  find(delete_string, "torch_delete_string");
  find(new_list, "torch_new_list_reserve_size");
  find(list_size, "torch_list_size");
  find(list_item, "torch_list_get_item");
  find(append, "torch_list_push_back");
  find(delete_list, "torch_delete_list");
  find(new_library, "aoti_torch_library_init_impl");
  find(thread_count, "torch_get_num_threads");
  find(add_kernel, "torch_library_impl");
  for (size_t i = 0; i < kTypes.size(); ++i) types[i] = number_of(name_of(kTypes[i]));
}

void check(int failure) {
  if (failure != 0) throw std::runtime_error("PyTorch's C interface failed");
}

// ---- Values of Python

constexpr const char* kCapsule = "aclgrad.torch.tensor";

nb::object capsule_of(Tensor* tensor) {
  return nb::steal(PyCapsule_New(tensor, kCapsule, [](PyObject* capsule) {
    Torch::get().delete_tensor(static_cast<Tensor*>(PyCapsule_GetPointer(capsule, kCapsule)));
  }));
}

Tensor* tensor_of(nb::handle capsule) {
  return static_cast<Tensor*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule));
}

nb::object string_of(String* string) {
  const Torch& torch = Torch::get();
  size_t length = 0;
  const char* text = nullptr;
  check(torch.string_length(string, &length));
  check(torch.string_text(string, &text));
  nb::object object = nb::steal(PyUnicode_FromStringAndSize(text, static_cast<Py_ssize_t>(length)));
  torch.delete_string(string);
  return object;
}

nb::object flags_of(List* list) {
  const Torch& torch = Torch::get();
  nb::list flags;
  size_t size = 0;
  check(torch.list_size(list, &size));
  for (size_t i = 0; i < size; ++i) {
    Value flag = 0;
    check(torch.list_item(list, i, &flag));
    flags.append((flag & 1) != 0);
  }
  torch.delete_list(list);
  return flags;
}

// ---- Kernels

// The types of arguments that a kernel may have.
enum class Kind { tensor, optional_tensor, integer, string, flag, flags };

// `name` as PyTorch prints a type.
Kind kind_of(std::string_view name) {
  constexpr std::array<std::string_view, 6> kNames{"Tensor", "Optional[Tensor]", "int", "str",
                                                   "bool",   "List[bool]"};
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) throw std::invalid_argument(fmt::format("no kernel takes a {}", name));
  return static_cast<Kind>(found - kNames.begin());
}

nb::object argument_of(Value value, Kind kind) {
  switch (kind) {
    case Kind::tensor:
      return capsule_of(reinterpret_cast<Tensor*>(value));
    case Kind::optional_tensor: {
      if (value == 0) return nb::none();
      const std::unique_ptr<Value> inner(reinterpret_cast<Value*>(value));
      return capsule_of(reinterpret_cast<Tensor*>(*inner));
    }
    case Kind::integer:
      return nb::int_(static_cast<int64_t>(value));
    case Kind::string:
      return string_of(reinterpret_cast<String*>(value));
    case Kind::flag:
      return nb::bool_((value & 1) != 0);
    case Kind::flags:
      return flags_of(reinterpret_cast<List*>(value));
  }
  return nb::none();
}

Value value_of(nb::handle result) {
  Tensor* tensor = nullptr;
  check(Torch::get().copy_handle(tensor_of(result), &tensor));
  return reinterpret_cast<Value>(tensor);
}

// Those that are not None.
Value list_of(nb::handle results) {
  const Torch& torch = Torch::get();
  List* list = nullptr;
  check(torch.new_list(nb::len(results), &list));
  for (nb::handle result : results) {
    if (!result.is_none()) check(torch.append(list, value_of(result)));
  }
  return reinterpret_cast<Value>(list);
}

constexpr size_t kMaxArguments = 16;

struct Registered {
  std::string name;  // by which errors call it
  nb::object function;
  std::vector<Kind> kinds;
};

// A function of arrays says "aclgrad.<its name>: <what is wrong>".
std::string renamed(const std::string& message, const std::string& name) {
  const size_t end = message.find(": ");
  const bool is_ours = message.rfind("aclgrad.", 0) == 0 && end != std::string::npos;
  return is_ours ? fmt::format("aclgrad.{}{}", name, message.substr(end)) : message;
}

// What a kernel throws becomes a ValueError in Python, or a RuntimeError with the text of another error.
void call(const Registered& kernel, Value* stack) {
  uint32_t threads = 0;
  check(Torch::get().thread_count(&threads));
  const ThreadLimit limit(static_cast<int>(threads));
  std::string message;
  bool wrong_value = false;
  {
    const Locked locked;
    try {
      std::array<nb::object, kMaxArguments> arguments;
      std::array<PyObject*, kMaxArguments> pointers;
      const size_t count = kernel.kinds.size();
      for (size_t i = 0; i < count; ++i) {
        arguments[i] = argument_of(stack[i], kernel.kinds[i]);
        pointers[i] = arguments[i].ptr();
      }
      const nb::object result =
          nb::steal(PyObject_Vectorcall(kernel.function.ptr(), pointers.data(), count, nullptr));
      if (!result.is_valid()) nb::raise_python_error();
      stack[0] = is_torch_tensor(result) ? value_of(result) : list_of(result);
      return;
    } catch (const nb::python_error& error) {
      message = renamed(text_of(error.value()), kernel.name);
      wrong_value = error.matches(PyExc_ValueError);
    }
  }
  if (wrong_value) throw std::invalid_argument(message);
  throw std::runtime_error(message);
}

// PyTorch hands a kernel nothing by which to know itself, so that each one is a function of its own. None is moved, as it
// may run while others are registered, and none destroyed: PyTorch may call until the process ends.
constexpr size_t kMaxKernels = 64;
std::deque<Registered>& kernels() {
  static auto& kernels = *new std::deque<Registered>;
  return kernels;
}

template <size_t index>
void kernel(Value* stack, uint64_t, uint64_t) {
  call(kernels()[index], stack);
}

template <size_t... index>
constexpr std::array<Kernel, sizeof...(index)> all_kernels(std::index_sequence<index...>) {
  return {kernel<index>...};
}

// Makes `function` the kernel of an operator for dense tensors on the CPU. Its arguments have `types`, tensors in
// capsules; it returns a tensor, or a tuple of which PyTorch gets those that are not None. Errors name `caller`.
void register_kernel(const std::string& name, const std::string& caller,
                     const std::vector<std::string>& types, nb::object function) {
  static constexpr auto kKernels = all_kernels(std::make_index_sequence<kMaxKernels>());
  const Torch& torch = Torch::get();
  static Library* library = nullptr;
  // Not __FILE__, which depends on where the module is built.
  if (library == nullptr) check(torch.new_library("aclgrad", "CPU", "torch_tensor.cpp", __LINE__, &library));
  if (kernels().size() == kMaxKernels || types.size() > kMaxArguments) {
    throw std::length_error("more kernels or arguments than aclgrad registers with PyTorch");
  }
  Registered kernel{caller, std::move(function), {}};
  for (const std::string& type : types) kernel.kinds.push_back(kind_of(type));
  kernels().push_back(std::move(kernel));
  check(torch.add_kernel(library, name.c_str(), kKernels[kernels().size() - 1], kVersion));
}

}  // namespace

bool is_torch_tensor(nb::handle object) {
  return PyCapsule_IsValid(object.ptr(), kCapsule) != 0;
}

Array read_torch_tensor(nb::handle capsule, std::string_view types) {
  const Torch& torch = Torch::get();
  Tensor* tensor = tensor_of(capsule);
  bool is_defined = false;
  check(torch.is_defined(tensor, &is_defined));
  if (!is_defined) throw NotAnArray{true, "a tensor", "NoneType"};
  int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  int32_t number = 0;
  check(torch.dim(tensor, &rank));
  check(torch.sizes(tensor, &sizes));
  check(torch.strides(tensor, &strides));
  check(torch.dtype(tensor, &number));
  const auto type = std::find(torch.types.begin(), torch.types.end(), number);
  if (type == torch.types.end()) throw NotAnArray{true, std::string(types), type_name_of(number)};
  if (rank > TensorView::kMaxRank) throw NotAnArray{false, "at most 8 axes", std::to_string(rank)};
  Array array;
  array.view.type = kTypes[static_cast<size_t>(type - torch.types.begin())];
  array.view.rank = static_cast<int>(rank);
  std::copy_n(sizes, rank, array.view.shape.begin());
  std::copy_n(strides, rank, array.view.strides.begin());
  check(torch.data(tensor, &array.view.base));
  array.writable = true;
  return array;
}

nb::object new_torch_tensor(nb::handle like, const Shape& shape) {
  const Torch& torch = Torch::get();
  int32_t number = 0;
  check(torch.dtype(tensor_of(like), &number));
  std::array<int64_t, TensorView::kMaxRank> strides;
  int64_t stride = 1;
  for (int axis = shape.rank(); axis-- > 0;) {
    strides[static_cast<size_t>(axis)] = stride;
    stride *= std::max<int64_t>(shape[axis], 1);
  }
  Tensor* tensor = nullptr;
  if (torch.empty_strided(shape.rank(), shape.begin(), strides.data(), number, torch.cpu(), 0, &tensor) !=
      0) {
    throw std::runtime_error(fmt::format("no memory for a tensor of shape {}", format_shape(shape)));
  }
  return capsule_of(tensor);
}

void add_torch_kernels(nb::module_& module) {
  module.def("register_torch_kernel", register_kernel);
}

}  // namespace aclgrad::python
