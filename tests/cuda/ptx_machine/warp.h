// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// 32 threads that run the same instruction where they are at the same place.
#pragma once

#include <bit>
#include <cstring>
#include <vector>

#include "kernel.h"

namespace ptx {

template <class Function>
void for_each_lane(Lanes lanes, Function&& function) {
  for (; lanes != 0; lanes &= lanes - 1) function(std::countr_zero(lanes));
}

inline constexpr Lanes one_lane(int lane) {
  return Lanes{1} << lane;
}

class Warp {
 public:
  Warp(const Kernel& kernel, unsigned first_thread, unsigned threads);

  // Makes it ready for a block.
  void start(unsigned block, unsigned blocks);

  // Runs until all its threads wait for the barrier or have ended.
  void run();

  Lanes at_barrier() const { return at_barrier_; }
  bool has_ended_threads() const { return alive_ != threads_; }
  const Instruction& place_of_barrier() const;
  void pass_barrier();

  unsigned first_thread() const { return first_thread_; }

  // ---- Registers

  template <class T>
  T* lanes(const Operand& operand) {
    return reinterpret_cast<T*>(registers_.data() + operand.place);
  }
  Lanes& predicate(const Operand& operand) { return *lanes<Lanes>(operand); }
  Lanes& defined(const Operand& operand) { return defined_[static_cast<size_t>(operand.number)]; }

  void mark(const Operand& to, Lanes active, Lanes defined_lanes) {
    Lanes& all = defined(to);
    all = (all & ~active) | (defined_lanes & active);
  }

  template <class T>
  void assign(const Operand& to, const T* values, Lanes active, Lanes defined_lanes) {
    T* into = lanes<T>(to);
    if (active == kAllLanes) {
      std::memcpy(into, values, kLanes * sizeof(T));
    } else {
      for_each_lane(active, [&](int lane) { into[lane] = values[lane]; });
    }
    mark(to, active, defined_lanes);
  }
  void assign_predicate(const Operand& to, Lanes values, Lanes active, Lanes defined_lanes) {
    Lanes& all = predicate(to);
    all = (all & ~active) | (values & active);
    mark(to, active, defined_lanes);
  }

  // Of any width, as the lower bits.
  uint64_t value(const Operand& operand, int lane) const {
    uint64_t bits = 0;
    std::memcpy(&bits, registers_.data() + operand.place + lane * operand.bytes, operand.bytes);
    return bits;
  }
  void set_value(const Operand& operand, int lane, uint64_t bits) {
    std::memcpy(registers_.data() + operand.place + lane * operand.bytes, &bits, operand.bytes);
  }

  // The carry of add.cc and sub.cc.
  Lanes carry = 0, carry_defined = 0;

 private:
  int place_to_go_on(Lanes ready) const;
  Lanes lanes_at(int place, Lanes among) const;
  void put(Lanes lanes, int place);
  void run_group(int place, Lanes group, int stop);
  Lanes active_of(const Instruction& instruction, Lanes group);
  void come_to_shuffle(const Instruction& instruction, int place, Lanes group);
  void end_stuck_shuffle();

  const Kernel& kernel_;
  const unsigned first_thread_;
  const Lanes threads_;
  std::vector<std::byte> registers_;  // of all lanes, one register after the other
  std::vector<Lanes> defined_;        // for each register
  int places_[kLanes] = {};           // of the next instruction
  Lanes alive_ = 0, at_barrier_ = 0, at_shuffle_ = 0;
};

}  // namespace ptx
