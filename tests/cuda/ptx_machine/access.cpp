// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <string>
#include <unordered_map>

#include "arithmetic.h"
#include "fault.h"
#include "findings.h"
#include "grid.h"
#include "operations.h"
#include "settings.h"
#include "warp.h"

namespace ptx {
namespace {

const char* name_of(Space space) {
  constexpr const char* kNames[] = {"global", "shared", "local", "the parameters'"};
  return kNames[static_cast<size_t>(space)];
}

// ---- Where a lane's access goes

struct Target {
  std::byte* memory = nullptr;  // null: nowhere, which has been reported
  Region* region = nullptr;
};

void report_bounds(const Instruction& in, int lane, uint64_t past) {
  report("out of the bounds of " + std::string(name_of(in.space)) + " memory, in lane " +
         std::to_string(lane) + ", by " + std::to_string(past) + " bytes");
}

Target locate_global(const Instruction& in, int lane, uint64_t address, size_t bytes) {
  Region*& region = Grid::running()->last_region(in);
  if (region == nullptr || !region->contains(address, bytes)) {
    region = Memory::get().last_from(reinterpret_cast<const void*>(address));
    if (region == nullptr || !region->contains(address, bytes)) {
      const uint64_t end =
          region == nullptr ? 0 : reinterpret_cast<uint64_t>(region->begin()) + region->bytes();
      report_bounds(in, lane, address + bytes - end);
      return {};
    }
  }
  return {reinterpret_cast<std::byte*>(address), region};
}

Target locate(const Warp& warp, const Instruction& in, int lane, uint64_t address, size_t bytes) {
  if (address % bytes != 0) {
    report("a misaligned address, " + std::to_string(address % bytes) + " bytes past a multiple of " +
           std::to_string(bytes));
  }
  if (in.space == Space::global) return locate_global(in, lane, address, bytes);
  Region& region = Grid::running()->region(in.space);
  const bool is_local = in.space == Space::local;
  const size_t size = is_local ? Grid::running()->kernel().local_bytes : region.bytes();
  if (address > size || bytes > size - address) {
    report_bounds(in, lane, address + bytes - size);
    return {};
  }
  const size_t base = is_local ? (warp.first_thread() + static_cast<unsigned>(lane)) * size : 0;
  return {region.begin() + base + address, &region};
}

// ---- What is known of memory

void note_use(const Warp& warp, const Instruction& in, int lane, const Target& at, size_t bytes, Use use) {
  if (in.space == Space::param || in.space == Space::local) return;
  const Moment& moment = Grid::running()->moment();
  const auto thread = static_cast<uint16_t>(warp.first_thread() + static_cast<unsigned>(lane));
  Cell* const first = at.region->cells(at.memory);
  for (size_t i = 0; i < bytes / kCellBytes; ++i) {
    const char* other = first[i].note(use, moment, thread);
    if (other == nullptr) continue;
    constexpr const char* kVerbs[] = {"reads", "writes", "adds to"};
    report("a race: thread " + std::to_string(thread) + " " + kVerbs[static_cast<size_t>(use)] + " " +
           name_of(in.space) + " memory that another has " + other);
    return;
  }
}

bool is_defined(const Target& at, size_t bytes) {
  if (at.region->holds_values()) return true;
  const Cell* const first = at.region->cells(at.memory);
  bool defined = first->defined;
  for (size_t i = 1; i < bytes / kCellBytes; ++i) defined &= first[i].defined;
  return defined;
}

// The addresses of all lanes.
struct Addresses {
  uint64_t of[kLanes];

  Addresses(Warp& warp, const Instruction& in, Lanes active) {
    if ((active & ~warp.defined(in.from[0])) != 0) report("an undefined address");
    const auto offset = static_cast<uint64_t>(in.offset);
    if (in.from[0].bytes == 8) {
      const auto* base = warp.lanes<uint64_t>(in.from[0]);
      for (int lane = 0; lane < kLanes; ++lane) of[lane] = base[lane] + offset;
    } else {
      const auto* base = warp.lanes<uint32_t>(in.from[0]);
      for (int lane = 0; lane < kLanes; ++lane) of[lane] = static_cast<uint32_t>(base[lane] + offset);
    }
  }
};

void note_requests(Requests& requests, const Addresses& addresses, Lanes active, size_t bytes) {
  requests.note(addresses.of, active, bytes, Grid::running()->blocks_like_this());
}

bool are_equal(const Addresses& addresses) {
  return std::all_of(addresses.of, addresses.of + kLanes,
                     [&](uint64_t address) { return address == addresses.of[0]; });
}

// ---- The instructions

template <class T>
void set_lane(Warp& warp, const Operand& to, int lane, T value) {
  if (to.bytes == sizeof(T)) {
    warp.lanes<T>(to)[lane] = value;
  } else {  // a wider register
    warp.set_value(to, lane, static_cast<uint64_t>(int64_t{value}));
  }
}

// One for all lanes, as nearly all parameters are loaded.
template <class T>
void load_parameter(Warp& warp, const Instruction& in, Lanes active, uint64_t address) {
  const Target at = locate(warp, in, 0, address, sizeof(T) * in.to.size());
  for (size_t i = 0; i < in.to.size() && at.memory != nullptr; ++i) {
    T value;
    std::memcpy(&value, at.memory + i * sizeof(T), sizeof value);
    for_each_lane(active, [&](int lane) { set_lane(warp, in.to[i], lane, value); });
    warp.mark(in.to[i], active, kAllLanes);
  }
}

// T: as an integer, signed where the value is to be extended so.
template <class T>
void load(Warp& warp, const Instruction& in, Lanes active) {
  const Addresses addresses(warp, in, active);
  const size_t parts = in.to.size(), bytes = sizeof(T) * parts;
  if (in.space == Space::param && are_equal(addresses))
    return load_parameter<T>(warp, in, active, addresses.of[0]);
  if (in.space == Space::global) note_requests(Grid::running()->kernel().loads, addresses, active, bytes);
  Lanes defined[4] = {};
  for_each_lane(active, [&](int lane) {
    const Target at = locate(warp, in, lane, addresses.of[lane], bytes);
    if (at.memory == nullptr) return;
    note_use(warp, in, lane, at, bytes, Use::read);
    for (size_t i = 0; i < parts; ++i) {
      const Target part{at.memory + i * sizeof(T), at.region};
      T value;
      std::memcpy(&value, part.memory, sizeof value);
      set_lane(warp, in.to[i], lane, value);
      if (is_defined(part, sizeof(T))) defined[i] |= one_lane(lane);
    }
  });
  for (size_t i = 0; i < parts; ++i) warp.mark(in.to[i], active, defined[i]);
}

// The registers that are stored follow the address.
template <class T>
void store(Warp& warp, const Instruction& in, Lanes active) {
  const Addresses addresses(warp, in, active);
  const size_t parts = in.from.size() - 1, bytes = sizeof(T) * parts;
  if (in.space == Space::global) note_requests(Grid::running()->kernel().stores, addresses, active, bytes);
  for_each_lane(active, [&](int lane) {
    const Target at = locate(warp, in, lane, addresses.of[lane], bytes);
    if (at.memory == nullptr) return;
    note_use(warp, in, lane, at, bytes, Use::write);
    for (size_t i = 0; i < parts; ++i) {
      const Operand& from = in.from[1 + i];
      const bool defined = (warp.defined(from) >> lane & 1) != 0;
      if (!defined && in.space == Space::global) report("an undefined value is stored in global memory");
      const auto value = static_cast<T>(warp.value(from, lane));
      std::memcpy(at.memory + i * sizeof(T), &value, sizeof value);
      at.region->define(at.memory + i * sizeof(T), sizeof(T), defined);
    }
  });
}

template <class T, class Function>
uint64_t on_bits(uint64_t before, uint64_t operand, Function function) {
  T a, b;
  std::memcpy(&a, &before, sizeof a);
  std::memcpy(&b, &operand, sizeof b);
  const T after = function(a, b);
  uint64_t bits = 0;
  std::memcpy(&bits, &after, sizeof after);
  return bits;
}

template <class Function>
void change_element(Warp& warp, const Instruction& in, int lane, size_t i, const Target& at,
                    Function function) {
  const Operand& from = in.from[1 + i];
  if ((warp.defined(from) >> lane & 1) == 0) report("an undefined value is added to memory");
  const bool defined = is_defined(at, in.bytes);
  if (!defined) report("an undefined value in memory is added to");
  uint64_t before = 0;
  std::memcpy(&before, at.memory, in.bytes);
  const uint64_t after = function(before, warp.value(from, lane));
  std::memcpy(at.memory, &after, in.bytes);
  if (in.to.empty() || !in.to[0].exists()) return;
  warp.set_value(in.to[0], lane, before);
  warp.mark(in.to[0], one_lane(lane), defined ? kAllLanes : 0);
}

template <class T, class Function>
Run atomic(Function) {
  return [](Warp& warp, const Instruction& in, Lanes active) {
    const Addresses addresses(warp, in, active);
    const size_t count_in_lane = in.from.size() - 1, bytes = in.bytes * count_in_lane;
    note_requests(Grid::running()->kernel().atomics, addresses, active, bytes);
    const Use use = &in == planted_fault() ? Use::write : Use::add;
    for (int i = 0; i < kLanes; ++i) {
      const int lane = settings().reversed ? kLanes - 1 - i : i;
      if ((active >> lane & 1) == 0) continue;
      const Target at = locate(warp, in, lane, addresses.of[lane], bytes);
      if (at.memory == nullptr) continue;
      note_use(warp, in, lane, at, bytes, use);
      for (size_t k = 0; k < count_in_lane; ++k) {
        change_element(warp, in, lane, k, {at.memory + k * in.bytes, at.region},
                       [](uint64_t a, uint64_t b) { return on_bits<T>(a, b, Function{}); });
      }
    }
  };
}

// ---- Opcodes

const std::unordered_map<std::string_view, Run>& atomics() {
  constexpr auto kAdd = [](auto a, auto b) { return a + b; };
  constexpr auto kAddFloats = [](auto a, auto b) { return added_in_memory(a, b); };
  constexpr auto kMax = [](auto a, auto b) { return std::max(a, b); };
  constexpr auto kOr = [](auto a, auto b) { return a | b; };
  static const auto& table = *new std::unordered_map<std::string_view, Run>{
      {"add.u32", atomic<uint32_t>(kAdd)},       {"add.u64", atomic<uint64_t>(kAdd)},
      {"add.f32", atomic<float>(kAddFloats)},    {"add.f64", atomic<double>(kAddFloats)},
      {"add.v4.f32", atomic<float>(kAddFloats)}, {"max.u32", atomic<uint32_t>(kMax)},
      {"max.u64", atomic<uint64_t>(kMax)},       {"or.b32", atomic<uint32_t>(kOr)},
  };
  return table;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// The end of an opcode: v4.f32. Returns the number of elements.
size_t decode_elements(std::string_view text, Instruction& instruction) {
  const size_t count = take_prefix(text, "v4.") ? 4 : take_prefix(text, "v2.") ? 2 : 1;
  int bits = 0;
  if (text.size() < 2 || std::string_view("busf").find(text[0]) == std::string_view::npos) return 0;
  std::from_chars(text.data() + 1, text.data() + text.size(), bits);
  instruction.bytes = static_cast<uint8_t>(bits / 8);
  const bool needs_cells = instruction.space != Space::param;
  const bool is_known = bits == 16 || bits == 32 || bits == 64 || (bits == 8 && !needs_cells);
  return is_known ? count : 0;
}

Run load_of(int bytes, bool is_signed) {
  switch (bytes) {
    case 1:
      return is_signed ? load<int8_t> : load<uint8_t>;
    case 2:
      return is_signed ? load<int16_t> : load<uint16_t>;
    case 4:
      return is_signed ? load<int32_t> : load<uint32_t>;
    default:
      return load<int64_t>;
  }
}

Run store_of(int bytes) {
  return bytes == 2 ? store<uint16_t> : bytes == 4 ? store<uint32_t> : store<uint64_t>;
}

}  // namespace

size_t decode_access(std::string_view opcode, Instruction& instruction) {
  if (take_prefix(opcode, "atom.global.") || take_prefix(opcode, "red.global.") ||
      take_prefix(opcode, "red.relaxed.gpu.global.")) {
    const auto found = atomics().find(opcode);
    if (found == atomics().end()) return 0;
    instruction.run = found->second;
    instruction.kind = Kind::atomic;
    return decode_elements(opcode.substr(opcode.find('.') + 1), instruction);
  }
  const bool is_load = take_prefix(opcode, "ld.");
  if (!is_load && !take_prefix(opcode, "st.")) return 0;
  if (take_prefix(opcode, "shared.")) {
    instruction.space = Space::shared;
  } else if (take_prefix(opcode, "local.")) {
    instruction.space = Space::local;
  } else if (is_load && take_prefix(opcode, "param.")) {
    instruction.space = Space::param;
  } else if (!take_prefix(opcode, "global.")) {
    return 0;
  }
  const size_t count = decode_elements(opcode, instruction);
  const bool is_signed = opcode.find(".s") != std::string_view::npos || opcode[0] == 's';
  instruction.run = is_load ? load_of(instruction.bytes, is_signed) : store_of(instruction.bytes);
  return count;
}

}  // namespace ptx
