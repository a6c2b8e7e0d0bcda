// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The calls that a program can be made of, in the order in which byte strings number them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "program.h"

namespace aclgrad::fuzz {

struct Call {
  const char* name;  // of the function
  void (*make)(Program&);
};
using Calls = std::span<const Call>;

Calls runtime_calls();
Calls tensor_calls();
Calls executor_calls();
Calls older_calls();
Calls later_calls();     // the last, so that byte strings of before keep most of their meaning
Calls operator_calls();  // both phases of each operator, as it describes itself

// Calls the function of that name.
void call(Program& program, const std::string& name);

// ---- What several of them draw ----

using Shape = std::vector<int64_t>;

constexpr size_t kMaxAllocation = 1 << 14;       // bytes
constexpr size_t kAbsurdSize = size_t{1} << 46;  // bytes that no machine has; entries that no array has

Shape contiguous_strides(const Shape& shape);

}  // namespace aclgrad::fuzz
