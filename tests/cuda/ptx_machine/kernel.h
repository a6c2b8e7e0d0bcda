// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A kernel as the machine runs it: what the parser makes of PTX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "requests.h"

namespace ptx {

inline constexpr int kLanes = 32;
inline constexpr Lanes kAllLanes = ~Lanes{0};

class Warp;
struct Instruction;

// Does what an instruction says in the lanes that are active.
using Run = void (*)(Warp& warp, const Instruction& instruction, Lanes active);

// A register or a constant: 32 lanes of 2, 4 or 8 bytes each, or a predicate, which is one word of 32 bits.
inline constexpr uint8_t kPredicateBytes = 1;
struct Operand {
  int32_t place = 0;    // of the first lane in the warp's registers, in bytes
  int32_t number = -1;  // of the register; -1: none
  uint8_t bytes = 0;    // of a lane; kPredicateBytes for a predicate

  bool exists() const { return number >= 0; }
};

enum class Kind : uint8_t { plain, branch, exit, barrier, warp_barrier, shuffle, atomic };
enum class Space : uint8_t { global, shared, local, param };

struct Instruction {
  Run run = nullptr;
  Kind kind = Kind::plain;
  Operand guard;  // runs in lanes where this predicate is true, or false where it is negated
  bool negated = false;
  std::vector<Operand> to,
      from;         // of an access to memory: the registers are one of them, the address is from[0]
  int target = -1;  // of a branch
  Space space = Space::global;  // of an access
  int64_t offset = 0;           // added to its address
  uint8_t bytes = 0;            // of each of its elements, or of a part of a register that is put together
  std::string_view text;
  int line = 0;  // in the module's PTX

  // Counts: how often a warp has run it, and in how many lanes.
  mutable uint64_t runs = 0, lanes = 0;
};

struct Parameter {
  size_t place, bytes;
};

enum class Special : uint8_t { thread, threads, block, blocks };

struct Kernel {
  std::string name;
  std::vector<Instruction> code;
  std::vector<Parameter> parameters;
  size_t parameter_bytes = 0;
  size_t shared_bytes = 0;
  size_t local_bytes = 0;  // of a thread
  unsigned max_threads = 1024;

  size_t register_bytes = 0;  // of a warp
  int register_count = 0;
  struct Constant {
    Operand at;
    uint64_t value;
  };
  std::vector<Constant> constants;
  std::vector<std::pair<Operand, Special>> specials;

  // Counts of all launches.
  mutable Requests loads, stores, atomics;
  mutable uint64_t launches = 0, threads = 0;
};

// Of those that nvcc has put into the program, by the address of its function on the host. Null where there is none for the
// architecture that was asked for.
const Kernel* find_kernel(const void* host_function);

}  // namespace ptx
