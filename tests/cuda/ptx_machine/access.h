// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Loads, stores and atomic operations, with their checks: bounds, alignment, undefined values and addresses, races.
#pragma once

#include <string_view>

#include "kernel.h"

namespace ptx {

// Completes the instruction for an opcode such as ld.global.v4.f32. Returns how many elements it has in a lane; 0 for an
// opcode that is not known.
size_t decode_access(std::string_view opcode, Instruction& instruction);

}  // namespace ptx
