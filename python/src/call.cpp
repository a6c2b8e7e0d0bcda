// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "call.h"

#include <fmt/format.h>

#include <algorithm>
namespace aclgrad::python {
namespace {

constexpr std::string_view kFloats = "float32, float16, bfloat16 or float64";
constexpr std::string_view kIntegers = "int32 or int64";

bool is_sequence(const Argument& argument) {
  const nb::handle object = argument.object();
  return nb::isinstance<nb::tuple>(object) || nb::isinstance<nb::list>(object);
}

std::string device_name(const Array& array) {
  if (array.fake != nullptr) return array.fake->device;
  return array.on_gpu() ? fmt::format("CUDA device {}", array.gpu) : "the CPU";
}

// In place: to copy what was just written takes longer than to write it.
template <class Void>
void describe(const TensorView& view, BasicTensor<Void>& tensor) {
  tensor.data = view.first();
  tensor.type = view.type;
  std::construct_at(&tensor.shape, view.shape.data(), view.rank);
  std::construct_at(&tensor.strides, view.strides.data(), view.rank);
}

bool is_on_same_device(const Array& a, const Array& b) {
  return a.fake != nullptr ? a.fake->device == b.fake->device : a.gpu == b.gpu;
}

}  // namespace

thread_local Caller::Current Caller::current_;

// ---- Arguments

template <class Read>
const Array& Call::bind(const Read& read, ConstTensor& member) {
  Bound& bound = add(read);
  bound.address = bound.input = &member;
  describe(bound.array.view, member);
  return bound.array;
}

const Array& Call::input(const char* name, const Argument& argument, ConstTensor& member) {
  return bind([&] { return floats_of(name, argument); }, member);
}

void Call::optional_input(const char* name, const Argument& argument, ConstTensor& member) {
  if (!argument.is_none()) input(name, argument, member);
}

const Array& Call::indices(const char* name, const Argument& argument, ConstTensor& member) {
  return bind([&] { return integers(name, argument); }, member);
}

// The contract would take a tensor without axes for one that is not given.
void Call::optional_indices(const char* name, const Argument& argument, ConstTensor& member) {
  if (argument.is_none()) return;
  const Array& array = indices(name, argument, member);
  if (array.view.rank == 0) check_rank(array, 1);
}

void Call::add_output(const char* name, const Argument& out, Tensor* member) {
  Bound& bound = add(name, member);
  if (!out.is_none()) bound.out = nb::borrow(out.object());
}

void Call::outputs(const Argument& out, const std::vector<bool>& wanted,
                   std::initializer_list<Tensor*> members) {
  static constexpr const char* kNames[] = {"out[0]", "out[1]", "out[2]", "out[3]"};
  for (size_t i = 0; i < members.size(); ++i)
    add_output(kNames[i], entry_of(out, members.size(), i), wanted[i] ? members.begin()[i] : nullptr);
}

Array Call::floats_of(const char* name, const Argument& argument) const {
  Array array = read(name, argument, kFloats, false);
  if (is_integer(array.type())) fail(true, name, kFloats, aclgrad::name_of(array.type()));
  return array;
}

Array Call::integers(const char* name, const Argument& argument) const {
  if (is_sequence(argument) || PyRange_Check(argument.object().ptr())) {
    const nb::object array = integer_array(argument.object());
    if (!array.is_valid()) fail(true, name, "integers in a rectangular array", repr_of(argument));
    return integers(name, array);
  }
  Array array = read(name, argument, kIntegers, false);
  if (!is_integer(array.type())) fail(true, name, kIntegers, aclgrad::name_of(array.type()));
  return array;
}

int64_t Call::integer(const char* name, const Argument& argument) const {
  if (const auto* number = argument.get_if<int64_t>()) return *number;
  int64_t value = 0;
  const nb::object index = nb::steal(PyNumber_Index(argument.object().ptr()));  // takes NumPy's integers too
  if (!index.is_valid() || !nb::try_cast(index, value)) {
    PyErr_Clear();
    fail(true, name, "an integer", repr_of(argument));
  }
  return value;
}

bool Call::flag(const char* name, const Argument& argument) const {
  if (const auto* flag = argument.get_if<bool>()) return *flag;
  if (!is_bool(argument.object())) fail(true, name, "a bool", repr_of(argument));
  return PyObject_IsTrue(argument.object().ptr()) != 0;
}

std::vector<bool> Call::flags(const char* name, const Argument& argument, size_t count) const {
  if (Caller::reference()) return std::vector<bool>(count, true);
  const auto fail_flags = [&](bool wrong_type) {
    fail(wrong_type, name, fmt::format("a tuple of {} bools", count), repr_of(argument));
  };
  if (const auto* flags = argument.get_if<std::vector<bool>>()) {
    if (flags->size() != count) fail_flags(false);
    return *flags;
  }
  if (!is_sequence(argument)) fail_flags(true);
  const nb::tuple entries(argument.object());  // a subclass may state another length than it yields
  if (entries.size() != count) fail_flags(false);
  std::vector<bool> values;
  for (nb::handle entry : entries) {
    if (!is_bool(entry)) fail_flags(true);
    values.push_back(PyObject_IsTrue(entry.ptr()) != 0);
  }
  return values;
}

nb::object Call::entry_of(const Argument& out, size_t count, size_t index) const {
  if (out.is_none()) return {};
  if (!is_sequence(out))
    fail(true, "out", fmt::format("a tuple of {} arrays or None", count), type_name_of(out.object()));
  const nb::tuple results(out.object());  // as in flags
  check(results.size() == count, "out", fmt::format("{} entries", count),
        static_cast<int64_t>(results.size()));
  return results[index];
}

Array Call::read(const char* name, const Argument& argument, std::string_view types, bool writable) const
    try {
  if (members_.empty()) check_is_not_recorded(argument);  // the first says it for all
  Array array = read_array(argument, types, writable);
  array.name = name;
  const bool suits = !array.on_gpu() || memory_ == Memory::cpu_or_gpu || array.fake != nullptr;
  if (!suits) fail(false, name, "an array in the memory of the CPU", "one on " + device_name(array));
  return array;
} catch (const NotAnArray& problem) {
  fail(problem.wrong_type, name, problem.expected, problem.got);
}

// ---- The contract

Call::Bound* Call::find(const Member& member) const {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const Bound& bound) { return bound.address == member.address; });
  return found == members_.end() ? nullptr : &*found;
}

std::string_view Call::name_of(const Member& member) const {
  const Bound* bound = find(member);
  return bound == nullptr ? member.field : bound->array.name;
}

void Call::make(const Member& member, std::string_view axes) try {
  Bound* bound = find(member);
  if (bound == nullptr) return;
  Array& array = bound->array;
  const char* name = array.name;
  const Shape shape = shape_of(axes);
  if (first_->array.fake != nullptr) {
    make_fake(*bound, axes);
    *bound->output = Tensor(nullptr, first_->array.type(), shape);
    return;
  }
  if (!bound->out.is_valid()) {
    array = new_array(first_->array, shape);
  } else {
    array = read(name, bound->out, aclgrad::name_of(first_->array.type()), true);
    array.given = true;
  }
  array.name = name;
  describe(array.view, *bound->output);
} catch (const NotAnArray& problem) {  // as within transforms of torch.func
  fail(problem.wrong_type, name_of(member), problem.expected, problem.got);
}

// Its sizes tell where they come from: the tensor with the same axes, else the first one with an axis of the letter.
void Call::make_fake(Bound& bound, std::string_view axes) const {
  const auto source_of = [&](char letter) -> int64_t {
    if (letter <= '9') return letter - '0';
    for (const bool is_whole : {true, false}) {
      for (const Bound& input : members_) {
        const size_t axis = input.axes.find(letter);
        if (input.input == nullptr || axis == std::string_view::npos || (is_whole && input.axes != axes))
          continue;
        return FakeTensor::source(input.array.fake->position, axis);
      }
    }
    return -letter;
  };
  bound.array.view.rank = static_cast<int>(axes.size());
  std::transform(axes.begin(), axes.end(), bound.array.view.shape.begin(), source_of);
}

void Call::check_type(const Member& member, const Facts& tensor, std::span<const DataType> types) const {
  const Bound* bound = find(member);
  const bool is_allowed = std::find(types.begin(), types.end(), tensor.type) != types.end();
  if (is_allowed || bound == nullptr || !bound->array.on_gpu() || tensor.type != DataType::float64) return;
  fail(true, bound->array.name, "float32, float16 or bfloat16 on a GPU", "float64");
}

void Call::check_mode(const Member& member, int64_t, std::initializer_list<const char*> names) const {
  for (const Mode& mode : std::span(modes_).first(mode_count_)) {
    if (mode.address == member.address) mode.set(mode.address, index_of(mode, names));
  }
}

size_t Call::index_of(const Mode& mode, std::initializer_list<const char*> choices) const {
  const auto* text = mode.argument->get_if<std::string>();
  const nb::handle object = mode.argument->object();
  if (text == nullptr && !nb::isinstance<nb::str>(object))
    fail(true, mode.name, "a string", type_name_of(object));
  const auto found = std::find_if(choices.begin(), choices.end(), [&](const char* choice) {
    return text != nullptr ? *text == choice : PyUnicode_CompareWithASCIIString(object.ptr(), choice) == 0;
  });
  if (found == choices.end()) {
    const auto quoted = [&](size_t i) { return fmt::format("'{}'", choices.begin()[i]); };
    fail(false, mode.name, either_of(choices.size(), quoted), repr_of(*mode.argument));
  }
  return static_cast<size_t>(found - choices.begin());
}

void Call::refuse_type(const Member& member, DataType expected, std::string_view as, DataType got) const {
  fail(true, name_of(member), fmt::format("{}, as {} is", aclgrad::name_of(expected), as),
       aclgrad::name_of(got));
}

void Call::refuse_rank(const Member& member, size_t rank, const Shape& shape) const {
  refuse(name_of(member), fmt::format("{} {}", rank, rank == 1 ? "axis" : "axes"),
         fmt::format("shape {}", format_shape(shape)));
}

void Call::lay_out(const Member& member, const Facts&, const Access&, std::string_view axes, int dense_from) {
  Bound* bound = find(member);
  if (bound == nullptr) return;
  bound->axes = axes;
  bound->dense_from = dense_from;
  const Array& array = bound->array;
  if (first_ == nullptr) first_ = bound;
  const bool is_callers = bound->input != nullptr || array.given;
  if (is_callers && !is_on_same_device(array, first_->array)) {
    refuse(array.name,
           fmt::format("an array on {}, as {} is", device_name(first_->array), first_->array.name),
           "one on " + device_name(array));
  }
  if (!array.given) return;
  check(array.writable, array.name, "an array that may be written to", "a read-only one");
  const auto rank = static_cast<size_t>(array.view.rank);
  const bool repeats =
      repeats_elements(std::span(array.view.shape).first(rank), std::span(array.view.strides).first(rank));
  check(!repeats, array.name, "memory of its own for each element", "elements that share memory");
}

void Call::check_rank(const Array& array, size_t rank) const {
  if (array.view.rank == static_cast<int>(rank)) return;
  refuse(array.name, fmt::format("{} {}", rank, rank == 1 ? "axis" : "axes"),
         fmt::format("shape {}", format_shape(array.view)));
}

void Call::refuse_entry(const char* name, size_t index, std::string_view expected, int64_t got) const {
  refuse(fmt::format("{}[{}]", name, index), expected, std::to_string(got));
}

void Call::check_ends(const char* name, const std::vector<int64_t>& ends) const {
  int64_t before = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const char* reason = i == 0 ? "" : ", the entry before";
    if (ends[i] < before) refuse_entry(name, i, fmt::format("at least {}{}", before, reason), ends[i]);
    before = ends[i];
  }
}

void Call::fail(bool wrong_type, std::string_view name, std::string_view expected,
                std::string_view got) const {
  const std::string message =
      fmt::format("aclgrad.{}: {}: expected {}, got {}", function(), name, expected, got);
  if (wrong_type) throw nb::type_error(message.c_str());
  throw nb::value_error(message.c_str());
}

}  // namespace aclgrad::python
