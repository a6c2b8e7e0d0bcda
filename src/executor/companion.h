// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How a companion library, which is built with this one and lies beside it, adds functions of the two-phase protocol. It
// says what the parameters of a function are; its interpreter says what the function computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "aclgrad/types.h"
#include "aclnn/acl_meta.h"

namespace aclgrad::companion {

enum class Kind : uint8_t {
  tensor,
  tensor_list,
  scalar,
  scalar_list,
  int_array,
  float_array,
  bool_array,
  text,
  integer,
  data_type,  // an aclDataType
  real,
};

// A tensor that is changed in place is an input and an output. One that is sized by data has room for the largest result
// that there can be; phase 2 gives its handle the shape of the result.
enum class Role : uint8_t { input, output, in_place, sized_by_data };

struct Parameter {
  const char* name;
  Kind kind;
  Role role = Role::input;
  bool optional = false;  // may be null
};

struct Function {
  const char* name;
  const Parameter* parameters;
  size_t count;
  const char* mathematics;  // in the interpreter's language
};

// An argument, of its parameter's kind.
union Value {
  template <class T>
  Value(T value) {  // NOLINT: that is how calls pass arguments
    if constexpr (std::is_pointer_v<T>) {
      handle = value;
    } else if constexpr (std::is_floating_point_v<T>) {
      real = static_cast<double>(value);
    } else {
      integer = static_cast<int64_t>(value);
    }
  }

  const void* handle;  // or text
  int64_t integer;
  double real;
};

// What phase 2 runs.
class Computation {
 public:
  virtual ~Computation() = default;

  // Gives a tensor, by its number among the storages, the shape of the result that it now holds.
  using SetShape = std::function<void(size_t tensor, const std::vector<int64_t>& shape)>;

  // The storages of the tensors in the order of the parameters, members of lists one by one; null where a tensor was not
  // given. What this throws comes out of the next synchronisation.
  virtual void run(void* const* storages, const SetShape& set_shape) const = 0;

  double serial_nanoseconds = 0;  // estimate
};

class Interpreter {
 public:
  virtual ~Interpreter() = default;

  // The arguments are not null, unless optional, and their handles are live. std::invalid_argument is a refusal: its text
  // begins with the name of the parameter.
  virtual std::unique_ptr<Computation> plan(const Function& function, const Value* arguments) = 0;
};

// The two phases. The interpreter is asked for at the first plan; a library that cannot be loaded throws.
ACLGRAD_API aclnnStatus plan_function(const Function& function, const Value* arguments,
                                      Interpreter& (*interpreter)(), uint64_t* workspace_size,
                                      aclOpExecutor** executor) noexcept;
ACLGRAD_API aclnnStatus run_function(const Function& function, void* workspace, uint64_t workspace_size,
                                     aclOpExecutor* executor, aclrtStream stream) noexcept;

}  // namespace aclgrad::companion
