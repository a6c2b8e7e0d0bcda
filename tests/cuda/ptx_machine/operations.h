// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What instructions do: all that the machine knows but for branches and barriers.
#pragma once

#include <string_view>

#include "kernel.h"

namespace ptx {

struct Operation {
  Run run = nullptr;
  uint8_t to_bytes = 0;         // of a lane of the result; kPredicateBytes for a predicate
  uint8_t from_bytes[4] = {};   // and of the operands; 0: there are no more
  Run run_any_width = nullptr;  // where registers are wider than that; null: they may not be
  Kind kind = Kind::plain;
};

// By the opcode with all that follows it, such as fma.rn.f32. Null for what is not known.
const Operation* find_operation(std::string_view opcode);

// Of loads, stores and atomic operations, with their checks: bounds, alignment, undefined values and addresses, races.
// Completes the instruction for an opcode such as ld.global.v4.f32. Returns how many elements it has in a lane; 0 for an
// opcode that is not known.
size_t decode_access(std::string_view opcode, Instruction& instruction);

// bar.warp.sync: what one lane did before comes before what another does after.
void meet(Warp& warp, const Instruction& instruction, Lanes active);

// mov of a vector of registers to one, and the reverse.
void join_parts(Warp& warp, const Instruction& instruction, Lanes active);
void split_parts(Warp& warp, const Instruction& instruction, Lanes active);

}  // namespace ptx
