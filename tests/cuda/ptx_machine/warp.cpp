// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "warp.h"

#include <algorithm>
#include <limits>

#include "fault.h"
#include "findings.h"
#include "grid.h"
#include "settings.h"

namespace ptx {
namespace {

constexpr int kNowhere = std::numeric_limits<int>::max();

// The same numbers in every run.
int random_below(int limit) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return static_cast<int>((state >> 8) % static_cast<uint32_t>(limit));
}

}  // namespace

Warp::Warp(const Kernel& kernel, unsigned first_thread, unsigned threads)
    : kernel_(kernel),
      first_thread_(first_thread),
      threads_(threads - first_thread >= kLanes ? kAllLanes
                                                : one_lane(static_cast<int>(threads - first_thread)) - 1),
      registers_(kernel.register_bytes),
      defined_(static_cast<size_t>(kernel.register_count)) {
  for (const auto& [at, value] : kernel.constants) {
    for (int lane = 0; lane < kLanes; ++lane) set_value(at, lane, value);
  }
}

void Warp::start(unsigned block, unsigned blocks) {
  std::fill(defined_.begin(), defined_.end(), 0);
  for (const auto& constant : kernel_.constants) defined(constant.at) = kAllLanes;
  for (const auto& [at, which] : kernel_.specials) {
    defined(at) = kAllLanes;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      lanes<uint32_t>(at)[lane] = which == Special::thread    ? first_thread_ + lane
                                  : which == Special::threads ? Grid::running()->threads()
                                  : which == Special::block   ? block
                                                              : blocks;
    }
  }
  put(kAllLanes, 0);
  alive_ = threads_;
  at_barrier_ = at_shuffle_ = carry = carry_defined = 0;
}

const Instruction& Warp::place_of_barrier() const {
  return kernel_.code[static_cast<size_t>(places_[std::countr_zero(at_barrier_)])];
}

void Warp::pass_barrier() {
  for_each_lane(at_barrier_, [&](int lane) { ++places_[lane]; });
  at_barrier_ = 0;
}

void Warp::put(Lanes lanes, int place) {
  for_each_lane(lanes, [&](int lane) { places_[lane] = place; });
}

Lanes Warp::lanes_at(int place, Lanes among) const {
  Lanes found = 0;
  for_each_lane(among, [&](int lane) { found |= places_[lane] == place ? one_lane(lane) : 0; });
  return found;
}

int Warp::place_to_go_on(Lanes ready) const {
  const Schedule schedule = settings().schedule;
  int place = places_[std::countr_zero(ready)];
  if (schedule == Schedule::lowest || schedule == Schedule::highest) {
    for_each_lane(ready, [&](int lane) {
      place = schedule == Schedule::lowest ? std::min(place, places_[lane]) : std::max(place, places_[lane]);
    });
  } else {
    for (int skipped = random_below(std::popcount(ready)); skipped > 0; --skipped) ready &= ready - 1;
    place = places_[std::countr_zero(ready)];
  }
  return place;
}

void Warp::run() {
  for (;;) {
    const Lanes ready = alive_ & ~at_barrier_ & ~at_shuffle_;
    if (ready == 0) {
      if (at_shuffle_ == 0) return;
      end_stuck_shuffle();
      continue;
    }
    const int place = place_to_go_on(ready);
    const Lanes group = lanes_at(place, ready);
    // Threads elsewhere get their turn: when the group comes to them, or after each instruction.
    int stop = kNowhere;
    if (group != ready) {
      stop = 0;
      if (settings().schedule == Schedule::lowest) {
        stop = kNowhere;
        for_each_lane(ready & ~group, [&](int lane) { stop = std::min(stop, places_[lane]); });
      }
    }
    run_group(place, group, stop);
  }
}

Lanes Warp::active_of(const Instruction& instruction, Lanes group) {
  if (!instruction.guard.exists()) return group;
  if ((group & ~defined(instruction.guard)) != 0) report("an undefined predicate decides");
  const Lanes guard = predicate(instruction.guard);
  return group & (instruction.negated ? ~guard : guard);
}

void Warp::run_group(int place, Lanes group, int stop) {
  const uint64_t blocks = Grid::running()->blocks_like_this();
  do {
    const Instruction& instruction = kernel_.code[static_cast<size_t>(place)];
    Grid::running()->set_place(instruction, *this, group);
    const Lanes active = active_of(instruction, group);
    instruction.runs += blocks;
    instruction.lanes += blocks * static_cast<unsigned>(std::popcount(active));
    ++place;
    switch (instruction.kind) {
      case Kind::plain:
      case Kind::atomic:
        if (active != 0) instruction.run(*this, instruction, active);
        break;
      case Kind::branch:
        if (active == group) {
          place = instruction.target;
        } else if (active != 0) {
          put(active, instruction.target);
          put(group & ~active, place);
          return;
        }
        break;
      case Kind::exit:
        alive_ &= ~active;
        group &= ~active;
        if (group == 0) return;
        break;
      case Kind::barrier:
        if (&instruction == planted_fault()) break;
        put(group, place - 1);
        at_barrier_ |= group;
        return;
      case Kind::warp_barrier:
        if (&instruction == planted_fault()) break;
        [[fallthrough]];
      case Kind::shuffle:
        put(group, place - 1);
        come_to_shuffle(instruction, place - 1, group);
        return;
    }
  } while (place < stop);
  put(group, place);
}

// The lanes that a lane's mask names go together, when all of them are there.
void Warp::come_to_shuffle(const Instruction& instruction, int place, Lanes group) {
  const Lanes here = lanes_at(place, group | at_shuffle_);
  const Operand& mask_of = instruction.from.back();
  Lanes complete = 0;
  for_each_lane(here, [&](int lane) {
    const auto mask = static_cast<Lanes>(value(mask_of, lane));
    if ((defined(mask_of) >> lane & 1) == 0) report("a shuffle or barrier of a warp with an undefined mask");
    if ((mask >> lane & 1) == 0) report("a shuffle or barrier of a warp by a lane that its mask leaves out");
    if ((mask & ~here) == 0) complete |= one_lane(lane);
  });
  at_shuffle_ = (at_shuffle_ | here) & ~complete;
  if (complete == 0) return;
  instruction.run(*this, instruction, complete);
  put(complete, place + 1);
}

void Warp::end_stuck_shuffle() {
  report("a shuffle or barrier of a warp whose mask names lanes that never come");
  for_each_lane(at_shuffle_, [&](int lane) { ++places_[lane]; });
  at_shuffle_ = 0;
}

}  // namespace ptx
