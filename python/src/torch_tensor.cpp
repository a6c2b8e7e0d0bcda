// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "torch_tensor.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_limit.h"
#include "binding.h"

namespace aclgrad::python {
namespace {

// ---- PyTorch's C interface, the same from version 2.10 on

constexpr uint64_t kVersion =
    (uint64_t{2} << 56) | (uint64_t{10} << 48);  // whose conventions are followed here

struct String;
struct List;
struct Library;
using Value = uint64_t;  // a number, or a pointer to one of the above
using Kernel = void (*)(Value* stack, uint64_t inputs, uint64_t outputs);

constexpr std::array kTypes{DataType::float32, DataType::float16, DataType::bfloat16,
                            DataType::float64, DataType::int32,   DataType::int64};

// Null where there is none of this name. PyTorch need not be there; where it is, it is found among what is loaded.
void* look_up(const std::string& name) {
  static void* const torch = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
  return torch == nullptr ? nullptr : dlsym(torch, name.c_str());
}

// A function by its name, of the type that it is assigned to.
struct Found {
  explicit Found(const std::string& name) : address(look_up(name)) {
    if (address != nullptr) return;
    throw nb::import_error(fmt::format("aclgrad.torch needs PyTorch 2.10 or later: no {}", name).c_str());
  }
  template <class Function>
  operator Function*() const {
    return reinterpret_cast<Function*>(address);
  }

  void* address;
};

std::string number_function(std::string_view type) {
  return fmt::format("aoti_torch_dtype_{}", type);
}

// PyTorch's number of a type.
int32_t number_of(std::string_view type) {
  int32_t (*const number)() = Found(number_function(type));
  return number();
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

// Its functions return 0 or fail.
struct Torch {
  int (*delete_tensor)(TorchTensor*) = Found("aoti_torch_delete_tensor_object");
  int (*copy_handle)(TorchTensor*, TorchTensor**) = Found("aoti_torch_new_tensor_handle");
  int (*is_defined)(TorchTensor*, bool*) = Found("aoti_torch_is_defined");
  int (*dim)(TorchTensor*, int64_t*) = Found("aoti_torch_get_dim");
  int (*sizes)(TorchTensor*, int64_t**) = Found("aoti_torch_get_sizes");
  int (*strides)(TorchTensor*, int64_t**) = Found("aoti_torch_get_strides");
  int (*dtype)(TorchTensor*, int32_t*) = Found("aoti_torch_get_dtype");
  int (*data)(TorchTensor*, void**) = Found("aoti_torch_get_data_ptr");
  int (*empty_strided)(int64_t dim, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                       int32_t device_type, int32_t device,
                       TorchTensor**) = Found("aoti_torch_empty_strided");
  int32_t (*cpu)() = Found("aoti_torch_device_type_cpu");
  int (*string_length)(String*, size_t*) = Found("torch_string_length");
  int (*string_text)(String*, const char**) = Found("torch_string_c_str");
  int (*delete_string)(String*) = Found("torch_delete_string");
  int (*new_list)(size_t, List**) = Found("torch_new_list_reserve_size");
  int (*list_size)(List*, size_t*) = Found("torch_list_size");
  int (*list_item)(List*, size_t, Value*) = Found("torch_list_get_item");
  int (*append)(List*, Value) = Found("torch_list_push_back");
  int (*delete_list)(List*) = Found("torch_delete_list");
  int (*new_library)(const char* name, const char* key, const char* file, uint32_t line,
                     Library**) = Found("aoti_torch_library_init_impl");
  int (*thread_count)(uint32_t*) = Found("torch_get_num_threads");
  bool (*records_gradients)() = Found("aoti_torch_grad_mode_is_enabled");
  int (*add_kernel)(Library*, const char* name, Kernel, uint64_t version) = Found("torch_library_impl");
  std::array<int32_t, kTypes.size()> types;  // the numbers of kTypes

  Torch() {
    std::transform(kTypes.begin(), kTypes.end(), types.begin(),
                   [](DataType type) { return number_of(name_of(type)); });
  }
  static const Torch& get() {
    static const Torch torch;
    return torch;
  }
};

void check(int failure) {
  if (failure != 0) throw std::runtime_error("PyTorch's C interface failed");
}

// ---- Values of the dispatcher

TorchHandle owned(TorchTensor* tensor) {
  return {tensor, [](TorchTensor* pointer) { Torch::get().delete_tensor(pointer); }};
}

std::string text_of(String* string) {
  const Torch& torch = Torch::get();
  size_t length = 0;
  const char* text = nullptr;
  check(torch.string_length(string, &length));
  check(torch.string_text(string, &text));
  std::string copy(text, length);
  torch.delete_string(string);
  return copy;
}

std::vector<bool> flags_of(List* list) {
  const Torch& torch = Torch::get();
  size_t size = 0;
  check(torch.list_size(list, &size));
  std::vector<bool> flags;
  for (size_t i = 0; i < size; ++i) {
    Value flag = 0;
    check(torch.list_item(list, i, &flag));
    flags.push_back((flag & 1) != 0);
  }
  torch.delete_list(list);
  return flags;
}

// The types of arguments and results that a kernel may have.
enum class Kind { tensor, optional_tensor, integer, string, flag, flags, tensors };

// `name` as PyTorch prints a type.
Kind kind_of(std::string_view name) {
  constexpr std::array<std::string_view, 7> kNames{"Tensor", "Optional[Tensor]", "int",         "str",
                                                   "bool",   "List[bool]",       "List[Tensor]"};
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) throw std::invalid_argument(fmt::format("no kernel takes a {}", name));
  return static_cast<Kind>(found - kNames.begin());
}

Argument argument_of(Value value, Kind kind) {
  switch (kind) {
    case Kind::tensor:
      return Argument(owned(reinterpret_cast<TorchTensor*>(value)));
    case Kind::optional_tensor: {
      if (value == 0) return {};
      const std::unique_ptr<Value> inner(reinterpret_cast<Value*>(value));
      return Argument(owned(reinterpret_cast<TorchTensor*>(*inner)));
    }
    case Kind::integer:
      return Argument(static_cast<int64_t>(value));
    case Kind::string:
      return Argument(text_of(reinterpret_cast<String*>(value)));
    case Kind::flag:
      return Argument((value & 1) != 0);
    case Kind::flags:
      return Argument(flags_of(reinterpret_cast<List*>(value)));
    case Kind::tensors:
      break;
  }
  return {};
}

Value value_of(const Array& result) {
  TorchTensor* tensor = nullptr;
  check(Torch::get().copy_handle(result.handle.get(), &tensor));
  return reinterpret_cast<Value>(tensor);
}

Value list_of(const Results& results) {
  const Torch& torch = Torch::get();
  List* list = nullptr;
  check(torch.new_list(results.size(), &list));
  for (const auto& result : results) {
    if (result) check(torch.append(list, value_of(*result)));
  }
  return reinterpret_cast<Value>(list);
}

// ---- Kernels

struct Registered {
  std::string caller;  // by which errors call it
  Function function;
  std::vector<Kind> arguments;
  Kind result;
};

Results run(const Registered& kernel, std::vector<Argument> arguments) {
  uint32_t threads = 0;
  check(Torch::get().thread_count(&threads));
  const ThreadLimit limit(static_cast<int>(threads));
  const Caller named(kernel.caller);
  return kernel.function(std::move(arguments));
}

// Whether the last failure of a kernel on this thread is to become a ValueError.
thread_local bool failed_by_value = false;

// PyTorch makes a RuntimeError of std::runtime_error, and up to 2.14 a ValueError of std::invalid_argument.
void call(const Registered& kernel, Value* stack) {
  std::vector<Argument> arguments;
  arguments.reserve(kernel.arguments.size() + 1);  // and `out`, which is always left out
  for (const Kind kind : kernel.arguments) arguments.push_back(argument_of(stack[arguments.size()], kind));
  try {
    const Results results = run(kernel, std::move(arguments));
    stack[0] = kernel.result == Kind::tensors ? list_of(results) : value_of(*results[0]);
  } catch (const nb::builtin_exception& error) {
    failed_by_value = error.type() == nb::exception_type::value_error;
    if (failed_by_value) throw std::invalid_argument(error.what());
    throw std::runtime_error(error.what());
  } catch (const std::bad_alloc& error) {
    throw std::runtime_error(error.what());  // as where PyTorch lacks memory
  }
}

// ---- Calls from Python

// Objects of PyTorch's that each call needs.
struct Objects {
  nb::object tensor;  // the two types that run no code of a program
  nb::object parameter;
  std::vector<nb::object> watchers;  // functions that tell whether somebody sees or changes what operators do
  nb::object is_wrapped;             // tells whether a tensor is one of a transform
  nb::object take_handles;  // makes objects of the tensors in capsules; the single one of PyTorch leaks
  nb::object requires_grad = nb::steal(PyUnicode_InternFromString("requires_grad"));
};
const Objects* objects = nullptr;  // from the import of aclgrad.torch on

bool is_plain(nb::handle object) {
  return object.type().is(objects->tensor) || object.type().is(objects->parameter);
}

bool is_watched() {
  if (in_dual_level()) return true;
  return std::any_of(objects->watchers.begin(), objects->watchers.end(),
                     [](const nb::object& watcher) { return PyObject_IsTrue(watcher().ptr()) != 0; });
}

// Throws where a kernel could not read a tensor, such as one of a transform, whose type is PyTorch's own.
void check_are_readable(const Registered& kernel, const std::vector<Argument>& arguments) {
  for (size_t i = 0; i < arguments.size() && kernel.arguments[i] <= Kind::optional_tensor; ++i) {
    if (!arguments[i].is_none()) read_array(arguments[i], "", false);
  }
}

// Whether tensors may come from transforms where none is active, as they do to gradients that one left behind. To ask each
// tensor takes a tenth of a microsecond, and to ask one of these for its memory milliseconds: PyTorch's error has the stack.
bool meets_wrapped_tensors = false;

bool can_be_read(nb::handle tensor) {
  return is_plain(tensor) && !(meets_wrapped_tensors && nb::cast<bool>(objects->is_wrapped(tensor)));
}

// The result of a call that nobody watches, without PyTorch's dispatcher, which takes longer than the smallest problem.
// None where a gradient is to be recorded. NotImplemented where the dispatcher is to be called; it also says what is wrong
// with an argument.
nb::object call_directly(const Registered& kernel, const nb::args& values) {
  const nb::object to_dispatcher = nb::borrow(Py_NotImplemented);
  if (is_watched()) return to_dispatcher;
  const bool records = Torch::get().records_gradients();
  bool needs_gradient = false;
  std::vector<Argument> arguments;
  arguments.reserve(kernel.arguments.size() + 1);  // and `out`, which is always left out
  for (nb::handle value : values) {
    const Kind kind = kernel.arguments[arguments.size()];
    arguments.push_back(Argument::without_derivative(value));
    if (kind > Kind::optional_tensor || value.is_none()) continue;
    if (!can_be_read(value)) return to_dispatcher;
    needs_gradient = needs_gradient || (records && value.attr(objects->requires_grad).is(Py_True));
  }
  try {
    if (needs_gradient) {
      check_are_readable(kernel, arguments);
      return nb::none();
    }
    const Results results = run(kernel, std::move(arguments));
    return kernel.result == Kind::tensors ? object_of(results) : object_of(*results[0]);
  } catch (const NotAnArray&) {  // the dispatcher is to find it again
  } catch (const std::exception&) {
  }
  for (nb::handle value : values)
    meets_wrapped_tensors |= is_plain(value) && nb::cast<bool>(objects->is_wrapped(value));
  return to_dispatcher;
}

// ---- Registration

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

// Makes `function` of this module the kernel of an operator for dense tensors on the CPU. Errors name `caller`. Returns
// what calls it without the dispatcher where it may.
nb::object register_kernel(const std::string& name, const std::string& caller, const std::string& function,
                           const std::vector<std::string>& arguments, const std::string& result) {
  static constexpr auto kKernels = all_kernels(std::make_index_sequence<kMaxKernels>());
  const Torch& torch = Torch::get();
  static Library* library = nullptr;
  // Not __FILE__, which depends on where the module is built.
  if (library == nullptr) check(torch.new_library("aclgrad", "CPU", "torch_tensor.cpp", __LINE__, &library));
  if (kernels().size() == kMaxKernels)
    throw std::length_error("more kernels than aclgrad registers with PyTorch");
  Registered kernel{caller, functions().at(function), {}, kind_of(result)};
  for (const std::string& argument : arguments) kernel.arguments.push_back(kind_of(argument));
  kernels().push_back(std::move(kernel));
  check(torch.add_kernel(library, name.c_str(), kKernels[kernels().size() - 1], kVersion));
  return nb::cpp_function(
      [&registered = kernels().back()](nb::args values) { return call_directly(registered, values); });
}

// What a function makes of the arguments of a call, some of which are fake tensors: of each result that is wanted the
// sizes, as sources where they are those of arguments, and else negative letters.
std::vector<std::vector<int64_t>> call_with_fakes(const std::string& function, const std::string& caller,
                                                  const nb::list& values, std::vector<FakeTensor> tensors) {
  std::vector<Argument> arguments;
  for (nb::handle value : values) arguments.emplace_back(value);
  for (const FakeTensor& tensor : tensors)
    arguments.at(static_cast<size_t>(tensor.position)) = Argument(Argument::Value(&tensor));
  const Caller named(caller);
  std::vector<std::vector<int64_t>> shapes;
  for (const auto& result : functions().at(function)(arguments)) {
    if (result)
      shapes.emplace_back(result->view.shape.begin(), result->view.shape.begin() + result->view.rank);
  }
  return shapes;
}

void set_objects(nb::object tensor, nb::object parameter, std::vector<nb::object> watchers,
                 nb::object is_wrapped, nb::object take_handles) {
  if (objects == nullptr)
    objects = new Objects{tensor, parameter, std::move(watchers), is_wrapped, take_handles};
}

TorchTensor* allocate(DataType type, const Shape& shape) {
  const Torch& torch = Torch::get();
  const auto index = static_cast<size_t>(std::find(kTypes.begin(), kTypes.end(), type) - kTypes.begin());
  std::array<int64_t, TensorView::kMaxRank> strides;
  int64_t stride = 1;
  for (int axis = shape.rank(); axis-- > 0;) {
    strides[static_cast<size_t>(axis)] = stride;
    stride *= std::max<int64_t>(shape[axis], 1);
  }
  TorchTensor* tensor = nullptr;
  if (torch.empty_strided(shape.rank(), shape.begin(), strides.data(), torch.types[index], torch.cpu(), 0,
                          &tensor) != 0) {
    throw std::runtime_error(fmt::format("no memory for a tensor of shape {}", format_shape(shape)));
  }
  return tensor;
}

}  // namespace

Array read_torch_tensor(const TorchHandle& handle, std::string_view types) {
  const Torch& torch = Torch::get();
  TorchTensor* tensor = handle.get();
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
  array.handle = handle;
  array.view.type = kTypes[static_cast<size_t>(type - torch.types.begin())];
  array.view.rank = static_cast<int>(rank);
  std::copy_n(sizes, rank, array.view.shape.begin());
  std::copy_n(strides, rank, array.view.strides.begin());
  check(torch.data(tensor, &array.view.base));
  check_has_memory(array);
  array.writable = true;
  return array;
}

TorchHandle new_torch_tensor(DataType type, const Shape& shape) {
  return owned(allocate(type, shape));
}

nb::object new_torch_object(nb::handle like, DataType type, const Shape& shape) {
  if (objects == nullptr || objects->take_handles.is_none() || !is_plain(like)) return {};
  nb::list handles;
  handles.append(nb::capsule(allocate(type, shape)));
  return objects->take_handles(handles)[0];
}

void add_torch_kernels(nb::module_& module) {
  module.def("set_torch_objects", set_objects, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  module.def("register_torch_kernel", register_kernel);
  nb::class_<FakeTensor>(module, "FakeTensor")
      .def(nb::init<int64_t, std::string, std::string, int, std::vector<int64_t>>());
  module.def("call_with_fakes", call_with_fakes);
  module.def("failed_by_value", [] { return failed_by_value; });
}

}  // namespace aclgrad::python
