// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "array.h"

#include <fmt/format.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "interpreter_lock.h"
#include "runtime/device.h"
#include "torch_tensor.h"

namespace aclgrad::python {
namespace {

// The beginning of NumPy's types and of its arrays, which the macros of its C interface read in the same way.
struct NumpyType {
  PyObject head;
  PyObject* scalar;
  char kind;
  char letter;
  char byte_order;  // '>' where the bytes of numbers are swapped
  char flags;
  int number;  // at least 256 for types that NumPy does not know
};
struct NumpyArray {
  PyObject head;
  void* data;
  int rank;
  const intptr_t* shape;
  const intptr_t* strides;  // in bytes
  PyObject* owner;
  const NumpyType* type;
  uint32_t flags;  // 0x400 where it may be written to, with 0x80000000 after a warning
};

// DLPack's table of functions, which a type of tensors carries as a capsule. It is younger than the dlpack.h of Debian 12
// (0.6), and nanobind's ndarray does not use it.
struct DlpackExchange {
  uint32_t major_version;
  uint32_t minor_version;
  DlpackExchange* older;
  void* allocate;
  void* export_managed;
  void* import_managed;
  int (*view)(void* object, nb::dlpack::dltensor* tensor);
  int (*current_stream)(int32_t device_type, int32_t device, void** stream);
};

// What is looked up once. The lock that guards it is the interpreter's, which the look-up may let go of: two threads may
// both make it, and what the first one made stays, until the interpreter ends. The compiler's guard of a function's
// static would keep the second one waiting with the interpreter's lock, for which the first one waits.
template <class Known>
const Known& known() {
  static const Known* known = nullptr;
  if (known == nullptr) {
    auto made = std::make_unique<const Known>();
    if (known == nullptr) known = made.release();
  }
  return *known;
}

struct Numpy {
  nb::module_ module = nb::module_::import_("numpy");
  nb::object ndarray = module.attr("ndarray");
  nb::object boolean = module.attr("bool_");
  nb::object empty = module.attr("empty");
  nb::object asarray = module.attr("asarray");
};

struct Torch {
  nb::module_ module = nb::module_::import_("torch");
  nb::object is_grad_enabled = module.attr("is_grad_enabled");
  nb::object increment_version = module.attr("autograd").attr("graph").attr("increment_version");
  nb::object forward_ad = nb::module_::import_("torch.autograd.forward_ad");
  nb::object is_tracing = module.attr("_C").attr("_is_tracing");
  nb::object dispatch_modes = module.attr("_C").attr("_len_torch_dispatch_stack");
};

// Names that every call looks up.
struct Names {
  nb::object requires_grad = interned("requires_grad");
  nb::object is_inference = interned("is_inference");
  nb::object new_empty = interned("new_empty");
  nb::object dtype = interned("dtype");
  nb::object current_level = interned("_current_level");

 private:
  static nb::object interned(const char* name) { return nb::steal(PyUnicode_InternFromString(name)); }
};

bool is_numpy(nb::handle object) {
  auto* ndarray = reinterpret_cast<PyTypeObject*>(known<Numpy>().ndarray.ptr());
  return Py_TYPE(object.ptr()) == ndarray || PyType_IsSubtype(Py_TYPE(object.ptr()), ndarray) != 0;
}

// Where there is one, its module is imported.
bool is_masked(nb::handle numpy_array) {
  const nb::object& numpy = known<Numpy>().module;
  return !numpy_array.type().is(known<Numpy>().ndarray) &&
         nb::isinstance(numpy_array, numpy.attr("ma").attr("MaskedArray"));
}

using Code = nb::dlpack::dtype_code;
constexpr struct {
  DataType type;
  Code code;  // in DLPack, with the bits of an element
  int bits;
  int number;  // in NumPy, which does not know bfloat16
} kTypes[] = {{DataType::float32, Code::Float, 32, 11}, {DataType::float16, Code::Float, 16, 23},
              {DataType::float64, Code::Float, 64, 12}, {DataType::bfloat16, Code::Bfloat, 16, INT32_MIN},
              {DataType::int64, Code::Int, 64, 7},      {DataType::int64, Code::Int, 64, 9},
              {DataType::int32, Code::Int, 32, 5}};

std::optional<DataType> data_type(const NumpyType& type) {
  if (type.byte_order == '>') return std::nullopt;
  for (const auto& known : kTypes) {
    if (known.number == type.number) return known.type;
  }
  const bool may_be_bfloat = type.number >= 256;
  if (may_be_bfloat && nb::cast<std::string_view>(nb::handle(type.scalar).attr("__name__")) == "bfloat16")
    return DataType::bfloat16;
  return std::nullopt;
}

std::optional<DataType> data_type(nb::dlpack::dtype type) {
  for (const auto& known : kTypes) {
    if (static_cast<uint8_t>(known.code) == type.code && known.bits == type.bits && type.lanes == 1)
      return known.type;
  }
  return std::nullopt;
}

// In the words of the array's own library.
std::string element_type_name(nb::handle array) {
  return text_of(nb::getattr(array, "dtype", nb::str("another type")));
}

// In PyTorch's words, as "device cpu, dtype torch.float32, layout torch.sparse_coo".
std::string properties_of(nb::handle tensor) {
  std::string text;
  for (const char* name : {"device", "dtype", "layout"}) {
    const std::string value = text_of(nb::getattr(tensor, name, nb::str("unknown")));
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
  }
  if (nb::getattr(tensor, "is_nested", nb::none()).is(Py_True)) text += ", nested";
  return text;
}

void check_rank(int64_t rank) {
  if (rank > TensorView::kMaxRank) throw NotAnArray{false, "at most 8 axes", std::to_string(rank)};
}

// Not by its DLPack or the buffer protocol, which refuse bfloat16, nor by __array_struct__, which takes longer than the rest
// of the smallest calls.
Array read_numpy(nb::handle object, std::string_view types) {
  if (is_masked(object)) {
    throw NotAnArray{true, "an array in which every element counts", "a masked array: fill it first"};
  }
  const auto& numpy = *reinterpret_cast<const NumpyArray*>(object.ptr());
  check_rank(numpy.rank);
  const std::optional<DataType> type = data_type(*numpy.type);
  if (!type) throw NotAnArray{true, std::string(types), element_type_name(object)};

  Array array;
  array.view.type = *type;
  array.view.rank = numpy.rank;
  array.view.base = numpy.data;
  array.writable = (numpy.flags & 0x80000400) == 0x400;
  const auto element = static_cast<intptr_t>(size_of(*type));
  for (size_t axis = 0; axis < static_cast<size_t>(numpy.rank); ++axis) {
    array.view.shape[axis] = numpy.shape[axis];
    array.view.strides[axis] = numpy.strides[axis] / element;
    if (numpy.strides[axis] % element != 0 && numpy.shape[axis] > 1)
      throw NotAnArray{false, "strides of whole elements", fmt::format("{} bytes", numpy.strides[axis])};
  }
  return array;
}

bool is_on_cpu(nb::dlpack::device device) {
  return device.device_type == nb::device::cpu::value || device.device_type == nb::device::cuda_host::value;
}

void require_cpu(nb::dlpack::device device) {
  if (is_on_cpu(device)) return;
  throw NotAnArray{false, "an array in the memory of the CPU",
                   fmt::format("one on DLPack device {}", device.device_type)};
}

TensorView view_of(const nb::dlpack::dltensor& tensor, nb::handle object, std::string_view types) {
  check_rank(tensor.ndim);
  const std::optional<DataType> type = data_type(tensor.dtype);
  if (!type) throw NotAnArray{true, std::string(types), element_type_name(object)};
  TensorView view;
  view.type = *type;
  view.rank = tensor.ndim;
  view.base = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  for (size_t axis = 0; axis < static_cast<size_t>(tensor.ndim); ++axis) {
    view.shape[axis] = tensor.shape[axis];
    view.strides[axis] = tensor.strides[axis];
  }
  return view;
}

const DlpackExchange* exchange_of(nb::handle type) {
  const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  if (capsule.is_none()) return nullptr;
  const void* pointer = PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api");
  if (pointer == nullptr) nb::raise_python_error();
  const auto* exchange = static_cast<const DlpackExchange*>(pointer);
  const bool can_view = exchange->major_version == 1 && exchange->view != nullptr;  // DLPack allows none
  return can_view ? exchange : nullptr;
}

// What is known of a type of arrays.
struct ArrayType {
  nb::object is_neg = nb::none();            // PyTorch's method
  const DlpackExchange* exchange = nullptr;  // PyTorch's; those of others do not tell what may be written to

  bool is_torch() const { return !is_neg.is_none(); }

  // Remembers the last type, because the arrays of a call mostly have one.
  static ArrayType of(nb::handle object) {
    struct Remembered {
      nb::object type;
      ArrayType properties;
    };
    static Remembered& last = *new Remembered;
    const nb::handle type = object.type();
    if (last.type.is(type)) return last.properties;
    Remembered found{nb::borrow(type), {nb::getattr(type, "is_neg", nb::none())}};
    if (found.properties.is_torch()) found.properties.exchange = exchange_of(type);
    const ArrayType properties = found.properties;
    std::swap(last, found);  // whole, before the other type is let go, whose end may run a program's code
    return properties;
  }
};

// To ask for the level is many times faster than `unpack_dual`.
bool has_tangent(nb::handle tensor) {
  if (!in_dual_level()) return false;
  return !known<Torch>().forward_ad.attr("unpack_dual")(tensor).attr("tangent").is_none();
}

// PyTorch's own conversion to NumPy refuses this, too, and what the next function refuses.
void check_holds_values(nb::handle tensor, const ArrayType& type) {
  if (type.is_neg(tensor).is(Py_True)) {
    throw NotAnArray{false, "a tensor whose memory holds its values",
                     "a view with a pending negation: call its resolve_neg()"};
  }
}

// A gradient or a tangent would silently be lost.
void check_has_no_derivative(nb::handle tensor) {
  if (tensor.attr(known<Names>().requires_grad).is(Py_True) && known<Torch>().is_grad_enabled().is(Py_True)) {
    throw NotAnArray{true, "a tensor without gradient (aclgrad.torch has functions with gradients)",
                     "one that requires grad"};
  }
  if (has_tangent(tensor)) {
    throw NotAnArray{true, "a tensor without tangent (aclgrad.torch has functions with derivatives)",
                     "one with a tangent of torch.autograd.forward_ad"};
  }
}

// Notes the GPU that holds the tensor, and the stream of PyTorch's there.
void place_on_gpu(Array& array, nb::dlpack::device device, const DlpackExchange& exchange) {
  if (device.device_type != nb::device::cuda::value) return require_cpu(device);
  if (device.device_id >= DeviceDriver::count(DeviceKind::cuda)) {
    throw NotAnArray{
        false, "an array in the memory of the CPU, since aclgrad finds no such GPU or was built without CUDA",
        fmt::format("one on CUDA device {}", device.device_id)};
  }
  array.gpu = device.device_id;
  if (exchange.current_stream(device.device_type, array.gpu, &array.stream) != 0) nb::raise_python_error();
}

// Many times faster than PyTorch's __dlpack__, which is written in Python.
Array read_exchange(nb::handle object, const DlpackExchange& exchange, std::string_view types) {
  nb::dlpack::dltensor tensor;
  if (exchange.view(object.ptr(), &tensor) != 0) {
    PyErr_Clear();  // its message is about PyTorch's inside
    throw NotAnArray{true, fmt::format("a dense array of {} in the memory of the CPU", types),
                     properties_of(object)};
  }
  Array array;
  array.view = view_of(tensor, object, types);
  check_has_memory(array);
  if (!is_on_cpu(tensor.device)) place_on_gpu(array, tensor.device, exchange);
  array.writable = true;
  return array;
}

// What nanobind reads in place of an object with a buffer: it takes strides for granted, which those of ctypes lack and a
// memoryview has, and elements of at least one byte. Invalid where it can read nothing.
nb::object lender_of(nb::handle object) {
  if (PyObject_CheckBuffer(object.ptr()) == 0 || nb::hasattr(object.type(), "__dlpack__"))
    return nb::borrow(object);
  nb::object view = nb::steal(PyMemoryView_FromObject(object.ptr()));
  if (!view.is_valid()) {
    if (!PyErr_ExceptionMatches(PyExc_BufferError) && !PyErr_ExceptionMatches(PyExc_TypeError))
      throw nb::python_error();
    PyErr_Clear();
  } else if (nb::cast<int64_t>(view.attr("itemsize")) == 0) {
    view.reset();
  }
  return view;
}

Array read_dlpack(nb::handle object, std::string_view types, bool writable) {
  Array array;
  nb::ndarray<> writable_lent;
  array.writable = writable;
  const nb::object lender = lender_of(object);
  const bool is_array = lender.is_valid() &&
                        (writable ? nb::try_cast(lender, writable_lent) : nb::try_cast(lender, array.lent));
  if (!is_array) {
    throw NotAnArray{true, fmt::format("{} array of {}", writable ? "a writable" : "an", types),
                     type_name_of(object)};
  }
  if (writable) array.lent = nb::ndarray<nb::ro>(writable_lent);
  const nb::ndarray<nb::ro>& source = array.lent;
  nb::dlpack::dltensor tensor;
  tensor.data = const_cast<void*>(source.data_handle());
  tensor.device = {source.device_type(), source.device_id()};
  tensor.ndim = static_cast<int32_t>(source.ndim());
  tensor.dtype = source.dtype();
  tensor.shape = const_cast<int64_t*>(source.shape_ptr());
  tensor.strides = const_cast<int64_t*>(source.stride_ptr());
  tensor.byte_offset = source.byte_offset();
  require_cpu(tensor.device);
  array.view = view_of(tensor, object, types);
  return array;
}

Array read_layout(nb::handle object, std::string_view types, bool writable) {
  if (is_numpy(object)) return read_numpy(object, types);
  const DlpackExchange* exchange = ArrayType::of(object).exchange;
  return exchange != nullptr ? read_exchange(object, *exchange, types) : read_dlpack(object, types, writable);
}

// The stride along an axis of one element may be any number: gives it that of contiguous memory, by which kernels
// recognise it.
void settle_strides(TensorView& view) {
  int64_t contiguous = 1;
  for (auto axis = static_cast<size_t>(view.rank); axis-- > 0;) {
    if (view.shape[axis] == 1) view.strides[axis] = contiguous;
    contiguous = view.strides[axis] * view.shape[axis];
  }
}

Array read_unchecked(nb::handle object, std::string_view types, bool writable) {
  Array array = read_layout(object, types, writable);
  settle_strides(array.view);
  array.object = nb::borrow(object);
  return array;
}

Array read_handle(const TorchHandle& handle, std::string_view types) {
  Array array = read_torch_tensor(handle, types);
  settle_strides(array.view);
  return array;
}

Array read_fake(const FakeTensor& fake, std::string_view types) {
  const auto* const type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& known) {
    return fake.type == fmt::format("torch.{}", name_of(known.type));
  });
  if (type == std::end(kTypes)) throw NotAnArray{true, std::string(types), fake.type};
  check_rank(static_cast<int64_t>(fake.sizes.size()));
  Array array;
  array.fake = &fake;
  array.gpu = fake.gpu;
  array.view.type = type->type;
  array.view.rank = static_cast<int>(fake.sizes.size());
  std::copy(fake.sizes.begin(), fake.sizes.end(), array.view.shape.begin());
  array.view.strides.fill(0);
  return array;
}

}  // namespace

bool in_dual_level() {
  const nb::object level = nb::getattr(known<Torch>().forward_ad, known<Names>().current_level, nb::int_(0));
  return nb::cast<int>(level) >= 0;  // it is -1 outside
}

void note_change(const Array& array) {
  if (is_numpy(array.object) || !ArrayType::of(array.object).is_torch()) return;
  // Those of inference mode are no part of any graph and have no version.
  const Names& names = known<Names>();
  if (nb::cast<bool>(array.object.attr(names.is_inference)())) return;
  known<Torch>().increment_version(array.object);
}

bool is_bool(nb::handle object) {
  return nb::isinstance<nb::bool_>(object) || nb::isinstance(object, known<Numpy>().boolean);
}

Array read_array(const Argument& argument, std::string_view types, bool writable) {
  if (const auto* handle = argument.get_if<TorchHandle>()) return read_handle(*handle, types);
  if (const auto* fake = argument.get_if<const FakeTensor*>()) return read_fake(**fake, types);
  const nb::handle object = argument.object();
  if (is_numpy(object)) return read_unchecked(object, types, writable);
  const ArrayType type = ArrayType::of(object);
  if (type.is_torch()) {
    check_holds_values(object, type);
    if (!argument.has_no_derivative()) check_has_no_derivative(object);
  }
  return read_unchecked(object, types, writable);
}

void check_is_not_recorded(const Argument& argument) {
  const nb::handle object = argument.object();
  if (object.is_none() || argument.has_no_derivative() || is_numpy(object)) return;
  if (!ArrayType::of(object).is_torch()) return;
  const Torch& torch = known<Torch>();
  if (torch.is_tracing().is(Py_True) || PyObject_IsTrue(torch.dispatch_modes().ptr()) != 0) {
    throw NotAnArray{
        true, "a tensor outside of traces and dispatch modes (aclgrad.torch has functions that work in them)",
        "one inside"};
  }
}

nb::object integer_array(nb::handle sequence) try {
  const nb::object array = known<Numpy>().asarray(sequence);
  // An empty one would be one of floats.
  return nb::cast<size_t>(array.attr("size")) > 0 ? array : known<Numpy>().asarray(sequence, "int64");
} catch (const nb::python_error& error) {
  if (!error.matches(PyExc_ValueError)) throw;
  return {};  // lists of different lengths
}

Array new_array(const Array& like, const Shape& shape) {
  if (like.handle) return read_handle(new_torch_tensor(like.type(), shape), name_of(like.type()));
  const char* type = name_of(like.type());
  nb::object array;
  if (!like.on_gpu()) array = new_torch_object(like.object, like.type(), shape);
  if (array.is_valid()) return read_unchecked(array, type, true);
  nb::list sizes;
  for (int64_t size : shape) sizes.append(size);
  if (is_numpy(like.object)) {
    array = known<Numpy>().empty(sizes, like.object.attr(known<Names>().dtype));
  } else if (ArrayType::of(like.object).is_torch()) {
    array = like.object.attr(known<Names>().new_empty)(*sizes);  // for a list it takes longer
  } else if (like.type() == DataType::bfloat16) {
    array = known<Numpy>().empty(sizes, nb::module_::import_("ml_dtypes").attr("bfloat16"));
  } else {
    array = known<Numpy>().empty(sizes, type);
  }
  return read_unchecked(array, type, true);
}

std::string text_of(nb::handle object) {
  const nb::object bytes =
      nb::steal(PyUnicode_AsEncodedString(nb::str(object).ptr(), "utf-8", "backslashreplace"));
  if (!bytes.is_valid()) nb::raise_python_error();
  return {PyBytes_AsString(bytes.ptr()), static_cast<size_t>(PyBytes_Size(bytes.ptr()))};
}

std::string repr_of(nb::handle object) {
  return text_of(nb::repr(object));
}

std::string repr_of(const Argument& argument) {
  if (const auto* flags = argument.get_if<std::vector<bool>>()) {
    std::string list;
    for (const bool flag : *flags)
      list += fmt::format("{}{}", list.empty() ? "" : ", ", flag ? "True" : "False");
    return fmt::format("[{}]", list);
  }
  if (const auto* text = argument.get_if<std::string>()) {
    const Locked locked;
    return repr_of(nb::str(text->c_str(), text->size()));
  }
  return repr_of(argument.object());
}

std::string type_name_of(nb::handle object) {
  return nb::type_name(object.type()).c_str();
}

}  // namespace aclgrad::python
