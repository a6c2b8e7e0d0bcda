// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The kinds of arguments that functions of the C interface take. One is drawn before the call, mostly right, and told
// when the call has succeeded.
#pragma once

#include <tuple>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "calls.h"

namespace aclgrad::fuzz {

template <class Value>
struct Drawn {
  Value value;
  operator Value() const { return value; }
  void succeeded(Program&) {}
};

// ---- Handles ----

template <Kind kKind, Null kNull = Null::refused>
struct Handle : Drawn<typename HandleOf<kKind>::Type*> {
  explicit Handle(Program& program)
      : Drawn<typename HandleOf<kKind>::Type*>{program.handle<typename HandleOf<kKind>::Type>(kKind, kNull)} {
  }
};

template <Kind kKind, Null kNull = Null::refused>
struct Ended : Handle<kKind, kNull> {
  using Handle<kKind, kNull>::Handle;
  void succeeded(Program& program) { program.gone(kKind, this->value); }
};

using Stream = Handle<Kind::stream, Null::allowed>;
using Event = Handle<Kind::event>;
using Tensor = Handle<Kind::tensor>;
using Executor = Handle<Kind::executor>;

// ---- Places for results ----

template <class Value>
struct Out {
  Value value{};
  bool is_null;
  explicit Out(Program& program) : is_null(program.refused_if(program.rarely())) {}
  operator Value*() { return is_null ? nullptr : &value; }
  void succeeded(Program&) {}
};

// A number that must then be in the range.
template <class Value, Value kFirst, Value kLast>
struct Between : Out<Value> {
  using Out<Value>::Out;
  void succeeded(Program& program) {
    require(this->value >= kFirst && this->value <= kLast,
            program.function() + std::string(": a right number"));
  }
};

template <Kind kKind>
struct Made : Out<void*> {
  using Out<void*>::Out;
  void succeeded(Program& program) { program.add(kKind, value); }
};

// ---- Numbers ----

template <class Value>
struct Any : Drawn<Value> {
  explicit Any(Program& program) : Drawn<Value>{static_cast<Value>(program.integer())} {}
};

template <class Value, Value kLast>
struct AtMost : Any<Value> {
  explicit AtMost(Program& program) : Any<Value>(program) { program.refused_if(this->value > kLast); }
};

// Of an enumeration that begins at 0; rarely none of its values.
template <auto kLast>
struct Value : Drawn<decltype(kLast)> {
  explicit Value(Program& program) : Drawn<decltype(kLast)>{program.value_of(kLast)} {}
};

// Where one outside of it must be refused.
template <auto kLast>
struct KnownValue : Value<kLast> {
  explicit KnownValue(Program& program) : Value<kLast>(program) {
    program.refused_if(this->value < 0 || this->value > kLast);
  }
};

using DataTypeValue = Value<ACL_FLOAT4_E1M2>;
using FormatValue = Value<ACL_FORMAT_FRACTAL_NZ_C0_8>;

struct Timeout : Drawn<int32_t> {
  explicit Timeout(Program& program) : Drawn{program.one_of({1, 1, 1, 2, -1, 0, -2, -100})} {
    program.refused_if(value == 0 || value < -1);
    if (value == -1) program.unblock();
  }
};

// ---- Calls ----

// Draws the arguments in their order and calls `function`, which returns a status.
template <bool kWaits, auto kFunction, class... Arguments>
void call(Program& program) {
  std::tuple<Arguments...> arguments{Arguments(program)...};
  if (kWaits) program.unblock();
  if (!program.succeeded(std::apply(kFunction, arguments))) return;
  std::apply([&](Arguments&... each) { (each.succeeded(program), ...); }, arguments);
}

// Of functions that return something else.
template <auto kFunction, class... Arguments>
void ask(Program& program) {
  std::tuple<Arguments...> arguments{Arguments(program)...};
  std::apply(kFunction, arguments);
  program.returned();
}

// Of functions that are declared so that programs link, and always refused.
template <auto kFunction>
void call_refused(Program& program) {
  program.refused_if(true);
  program.succeeded([]<class... Parameters>(auto(*function)(Parameters...)) {
    return function(Parameters{}...);
  }(kFunction));
}

// Entries of a table of calls.
#define CALL(function, ...) \
  { #function, call < false, function __VA_OPT__(, ) __VA_ARGS__> }
#define CALL_THAT_WAITS(function, ...) \
  { #function, call < true, function __VA_OPT__(, ) __VA_ARGS__> }
#define ASK(function, ...) \
  { #function, ask < function __VA_OPT__(, ) __VA_ARGS__> }
#define REFUSED(function) \
  { #function, call_refused < function> }

}  // namespace aclgrad::fuzz
