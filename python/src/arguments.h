// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The arguments of one call, and the words in which a function states what it expects of them.
#pragma once

#include <vector>

#include "array.h"

namespace aclgrad::python {

// Whatever is wrong is thrown as TypeError or ValueError that names function, argument, what was expected and what
// came.
class Arguments {
 public:
  enum class Memory { cpu, cpu_or_gpu };

  explicit Arguments(const char* function, Memory memory = Memory::cpu)
      : function_(function), memory_(memory) {}

  Array floats(const char* name, const Argument& argument) const;  // float32, float16, bfloat16 or float64
  Array integers(const char* name,
                 const Argument& argument) const;  // int32 or int64, in an array or a sequence

  int64_t integer(const char* name, const Argument& argument) const;
  bool flag(const char* name, const Argument& argument) const;  // of Python or NumPy
  std::vector<bool> flags(const char* name, const Argument& argument, size_t count) const;

  // Which of the strings it is, as an enumerator counted from 0.
  template <class Enum>
  Enum choice(const char* name, const Argument& argument, std::initializer_list<const char*> choices) const {
    return static_cast<Enum>(index_of(name, argument, choices));
  }

  // `out` where it is given, which then is checked, else a new array of the kind and type of `like`.
  Array result(const char* name, const Array& like, const Shape& shape, const Argument& out) const;

  // The i-th of `count` entries of a tuple or list of results; None where there is no tuple.
  Argument entry(const char* name, const Argument& out, size_t count, size_t index) const;

  // Of the results, those that the caller gave must share no memory with each other or with what is read. PyTorch hears
  // that they change, so that its autograd does not use overwritten values. The last check of a call. Null is no array.
  void claim(std::initializer_list<const Array*> results, std::initializer_list<const Array*> inputs) const;

  void check_same_device(const Array& first, std::initializer_list<const Array*> others) const;
  void check_type_on_gpu(const Array& array) const;  // float64 is for the CPU, where a kernel has no doubles
  void check_same_type(const Array& first, std::initializer_list<const Array*> others) const;
  void check_rank(const Array& array, int64_t rank) const;
  void check_shape(const Array& array, const Shape& shape) const;
  void check(bool passed, const char* name, std::string_view expected, std::string_view got) const;
  void check(bool passed, const char* name, std::string_view expected, int64_t got) const;
  // The same for the entry `index` of an array of indices.
  void check_entry(bool passed, const char* name, size_t index, std::string_view expected, int64_t got) const;
  void check_ends(const char* name, const std::vector<int64_t>& ends) const;  // from 0 on and non-decreasing

 private:
  size_t index_of(const char* name, const Argument& argument,
                  std::initializer_list<const char*> choices) const;
  Array read(const char* name, const Argument& argument, std::string_view types, bool writable) const;
  [[noreturn]] void fail(bool wrong_type, const char* name, std::string_view expected,
                         std::string_view got) const;

  const char* function_;
  Memory memory_;
};

}  // namespace aclgrad::python
