// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "arguments.h"

#include <fmt/format.h>

#include <algorithm>
namespace aclgrad::python {
namespace {

constexpr std::string_view kFloats = "float32, float16, bfloat16 or float64";
constexpr std::string_view kIntegers = "int32 or int64";

bool is_integer(DataType type) {
  return type == DataType::int32 || type == DataType::int64;
}

bool is_sequence(const Argument& argument) {
  const nb::handle object = argument.object();
  return nb::isinstance<nb::tuple>(object) || nb::isinstance<nb::list>(object);
}

std::string list_of(std::initializer_list<const char*> choices) {
  std::string list;
  for (const char* const& choice : choices) {
    const char* separator = &choice == choices.begin() ? "" : &choice + 1 == choices.end() ? " or " : ", ";
    list += fmt::format("{}'{}'", separator, choice);
  }
  return list;
}

std::string device_name(const Array& array) {
  return array.on_gpu() ? fmt::format("CUDA device {}", array.gpu) : "the CPU";
}

}  // namespace

Array Arguments::floats(const char* name, const Argument& argument) const {
  Array array = read(name, argument, kFloats, false);
  if (is_integer(array.type())) fail(true, name, kFloats, name_of(array.type()));
  return array;
}

Array Arguments::integers(const char* name, const Argument& argument) const {
  if (is_sequence(argument) || PyRange_Check(argument.object().ptr())) {
    const nb::object array = integer_array(argument.object());
    if (!array.is_valid()) fail(true, name, "integers in a rectangular array", repr_of(argument));
    return integers(name, array);
  }
  Array array = read(name, argument, kIntegers, false);
  if (!is_integer(array.type())) fail(true, name, kIntegers, name_of(array.type()));
  return array;
}

int64_t Arguments::integer(const char* name, const Argument& argument) const {
  if (const auto* number = argument.get_if<int64_t>()) return *number;
  int64_t value = 0;
  const nb::object index = nb::steal(PyNumber_Index(argument.object().ptr()));  // takes NumPy's integers too
  if (!index.is_valid() || !nb::try_cast(index, value)) {
    PyErr_Clear();
    fail(true, name, "an integer", repr_of(argument));
  }
  return value;
}

bool Arguments::flag(const char* name, const Argument& argument) const {
  if (const auto* flag = argument.get_if<bool>()) return *flag;
  if (!is_bool(argument.object())) fail(true, name, "a bool", repr_of(argument));
  return PyObject_IsTrue(argument.object().ptr()) != 0;
}

std::vector<bool> Arguments::flags(const char* name, const Argument& argument, size_t count) const {
  const auto fail_flags = [&](bool wrong_type) {
    fail(wrong_type, name, fmt::format("a tuple of {} bools", count), repr_of(argument));
  };
  if (const auto* flags = argument.get_if<std::vector<bool>>()) {
    if (flags->size() != count) fail_flags(false);
    return *flags;
  }
  if (!is_sequence(argument)) fail_flags(true);
  if (nb::len(argument.object()) != count) fail_flags(false);
  std::vector<bool> values;
  for (nb::handle entry : nb::borrow<nb::iterable>(argument.object())) {
    if (!is_bool(entry)) fail_flags(true);
    values.push_back(PyObject_IsTrue(entry.ptr()) != 0);
  }
  return values;
}

Array Arguments::result(const char* name, const Array& like, const Shape& shape, const Argument& out) const {
  if (out.is_none()) return new_array(like, shape);
  const char* type = name_of(like.type());
  Array array = read(name, out, type, true);
  if (array.type() != like.type()) fail(true, name, type, name_of(array.type()));
  check_shape(array, shape);
  check(array.writable, name, "an array that may be written to", "a read-only one");
  check(!overlaps_itself(array.view), name, "memory of its own for each element",
        "elements that share memory");
  array.given = true;
  return array;
}

Argument Arguments::entry(const char* name, const Argument& out, size_t count, size_t index) const {
  if (out.is_none()) return {};
  const nb::handle results = out.object();
  if (!is_sequence(out))
    fail(true, name, fmt::format("a tuple of {} arrays or None", count), type_name_of(results));
  check(nb::len(results) == count, name, fmt::format("{} entries", count),
        static_cast<int64_t>(nb::len(results)));
  return nb::object(results[index]);
}

void Arguments::claim(std::initializer_list<const Array*> results,
                      std::initializer_list<const Array*> inputs) const {
  const auto is_given = [](const Array* result) { return result != nullptr && result->given; };
  const auto check_apart = [&](const Array& result, const Array* other) {
    if (other == nullptr || result.gpu != other->gpu || !overlap(result.view, other->view)) return;
    fail(false, result.name, "memory of its own", fmt::format("memory that {} has, too", other->name));
  };
  for (auto result = results.begin(); result != results.end(); ++result) {
    if (!is_given(*result)) continue;
    for (const Array* input : inputs) check_apart(**result, input);
    for (auto other = results.begin(); other != result; ++other) check_apart(**result, *other);
  }
  for (const Array* result : results) {
    if (is_given(result)) note_change(*result);
  }
}

void Arguments::check_same_device(const Array& first, std::initializer_list<const Array*> others) const {
  for (const Array* other : others) {
    if (other->gpu == first.gpu) continue;
    fail(false, other->name, fmt::format("an array on {}, as {} is", device_name(first), first.name),
         "one on " + device_name(*other));
  }
}

void Arguments::check_type_on_gpu(const Array& array) const {
  if (!array.on_gpu() || array.type() != DataType::float64) return;
  fail(true, array.name, "float32, float16 or bfloat16 on a GPU", "float64");
}

void Arguments::check_same_type(const Array& first, std::initializer_list<const Array*> others) const {
  for (const Array* other : others) {
    if (other->type() == first.type()) continue;
    fail(true, other->name, fmt::format("{}, as {} is", name_of(first.type()), first.name),
         name_of(other->type()));
  }
}

void Arguments::check_rank(const Array& array, int64_t rank) const {
  if (array.view.rank == rank) return;
  fail(false, array.name, fmt::format("{} {}", rank, rank == 1 ? "axis" : "axes"),
       fmt::format("shape {}", format_shape(array.view)));
}

void Arguments::check_shape(const Array& array, const Shape& shape) const {
  if (array.view.has_shape(shape)) return;
  fail(false, array.name, "shape " + format_shape(shape), format_shape(array.view));
}

void Arguments::check(bool passed, const char* name, std::string_view expected, std::string_view got) const {
  if (!passed) fail(false, name, expected, got);
}

void Arguments::check(bool passed, const char* name, std::string_view expected, int64_t got) const {
  if (!passed) fail(false, name, expected, std::to_string(got));
}

void Arguments::check_entry(bool passed, const char* name, size_t index, std::string_view expected,
                            int64_t got) const {
  if (!passed) fail(false, fmt::format("{}[{}]", name, index).c_str(), expected, std::to_string(got));
}

void Arguments::check_ends(const char* name, const std::vector<int64_t>& ends) const {
  int64_t before = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const char* reason = i == 0 ? "" : ", the entry before";
    if (ends[i] < before) check_entry(false, name, i, fmt::format("at least {}{}", before, reason), ends[i]);
    before = ends[i];
  }
}

size_t Arguments::index_of(const char* name, const Argument& argument,
                           std::initializer_list<const char*> choices) const {
  const auto* text = argument.get_if<std::string>();
  const nb::handle object = argument.object();
  if (text == nullptr && !nb::isinstance<nb::str>(object)) fail(true, name, "a string", type_name_of(object));
  const auto found = std::find_if(choices.begin(), choices.end(), [&](const char* choice) {
    return text != nullptr ? *text == choice : PyUnicode_CompareWithASCIIString(object.ptr(), choice) == 0;
  });
  if (found == choices.end()) fail(false, name, list_of(choices), repr_of(argument));
  return static_cast<size_t>(found - choices.begin());
}

Array Arguments::read(const char* name, const Argument& argument, std::string_view types,
                      bool writable) const {
  try {
    Array array = read_array(argument, types, writable);
    array.name = name;
    const bool suits = !array.on_gpu() || memory_ == Memory::cpu_or_gpu;
    if (!suits) fail(false, name, "an array in the memory of the CPU", "one on " + device_name(array));
    return array;
  } catch (const NotAnArray& problem) {
    fail(problem.wrong_type, name, problem.expected, problem.got);
  }
}

void Arguments::fail(bool wrong_type, const char* name, std::string_view expected,
                     std::string_view got) const {
  const std::string message =
      fmt::format("aclgrad.{}: {}: expected {}, got {}", function_, name, expected, got);
  if (wrong_type) throw nb::type_error(message.c_str());
  throw nb::value_error(message.c_str());
}

}  // namespace aclgrad::python
