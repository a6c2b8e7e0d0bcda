// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What all threads share and each looks at for a moment: in several parts, so that they seldom meet.
#pragma once

#include <hwy/cache_control.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/fork.h"

namespace aclgrad {

// For a mutex that nobody holds for longer than a look-up. To sleep and be woken takes a hundred times as long, so a
// thread that meets another tries again first.
class BriefLock {
 public:
  explicit BriefLock(std::mutex& mutex) : mutex_(mutex) {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      if (mutex_.try_lock()) return;
      hwy::Pause();
    }
    mutex_.lock();
  }
  ~BriefLock() { mutex_.unlock(); }
  BriefLock(const BriefLock&) = delete;
  BriefLock& operator=(const BriefLock&) = delete;

 private:
  // Some microseconds: about what it takes to be woken.
  static constexpr int kAttempts = 100;
  std::mutex& mutex_;
};

// Parts of one table, such as a map. A key belongs to the same part always.
template <class Part, size_t kParts>
class Shards {
 public:
  // A part while no other thread uses it.
  class Locked {
   public:
    Locked(std::mutex& mutex, Part& part) : lock_(mutex), part_(part) {}
    Part& operator*() const { return part_; }
    Part* operator->() const { return &part_; }

   private:
    BriefLock lock_;
    Part& part_;
  };

  Locked lock(const void* key) {
    // Consecutive keys and those that are multiples of a power of two go to different parts.
    const uint64_t mixed = reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15u;
    return lock(shards_[(mixed >> 48) % kParts]);
  }

  // Calls function(part) for one part after the other.
  template <class Function>
  void for_each(Function&& function) {
    for (Shard& shard : shards_) function(*lock(shard));
  }

  // For a fork, which holds the locks and so sees all parts as they are.
  void act_on_locks(LockAction action) {
    for (Shard& shard : shards_) action(shard.mutex);
  }
  template <class Function>
  void for_each_while_locked(Function&& function) const {
    for (const Shard& shard : shards_) function(shard.part);
  }

 private:
  // On cache lines of its own.
  struct alignas(64) Shard {
    std::mutex mutex;
    Part part;
  };

  static Locked lock(Shard& shard) { return Locked(shard.mutex, shard.part); }

  std::array<Shard, kParts> shards_;
};

}  // namespace aclgrad
