// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Memory that kernels may use, and what is known of each two bytes of it: whether they hold a value, and which threads have
// used them since the last barrier. That is what findings of bounds, undefined values and races come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace ptx {

// Time counts intervals. A warp that runs begins one, and another after each of its own barriers. Blocks run one after
// another, and warps from one of the block's barriers to the next, so what happens in an interval is of one warp.
struct Moment {
  uint32_t launch = 0, block = 0;  // the first intervals of those that run
  uint32_t barrier = 0;            // the first since the block's last barrier
  uint32_t now = 0;
};

enum class Use { read, write, add };  // add: any atomic operation

// What is known of two bytes. Threads are numbered in their block.
class Cell {
 public:
  bool defined = false;

  // Notes a use. Returns what it has a race with: "read", "written" or "added to" by another thread, of this warp since its
  // last barrier, of this block since that one's, or of another one in this launch. Null: with nothing.
  const char* note(Use use, const Moment& moment, uint16_t thread) {
    const bool after_write = written_.has_race(moment, thread);
    const bool after_read = use != Use::read && read_.has_race(moment, thread);
    const bool after_add = use != Use::add && added_.has_race(moment, thread);
    (use == Use::write ? written_ : use == Use::read ? read_ : added_).take(moment, thread);
    return after_write ? "written" : after_read ? "read" : after_add ? "added to" : nullptr;
  }

 private:
  // The last use of a kind. Packed, since the machine mostly waits for cells to come from memory.
  struct __attribute__((packed, aligned(2))) Note {
    static constexpr uint16_t kSeveralOfWarp = 0x8000, kSeveralWarps = 0xFFFF;

    uint32_t interval = 0;  // 0: never
    uint16_t thread = 0;    // with kSeveralOfWarp, it and others of its warp

    bool has_race(const Moment& moment, uint16_t self) const {
      if (interval < moment.launch) return false;
      if (interval < moment.block) return true;
      if (interval < moment.barrier) return false;
      return is_of_another_warp(self) || (interval == moment.now && thread != self);
    }

    // A use by another block of the launch stays: it has a race with all that may follow.
    void take(const Moment& moment, uint16_t self) {
      if (interval >= moment.launch && interval < moment.block) return;
      if (interval >= moment.barrier && is_of_another_warp(self)) {
        thread = kSeveralWarps;
      } else {
        const bool is_shared = interval == moment.now && thread != self;
        thread = static_cast<uint16_t>(is_shared ? self | kSeveralOfWarp : self);
      }
      interval = moment.now;
    }

    bool is_of_another_warp(uint16_t self) const {
      constexpr int kThreadsOfWarp = 32;
      return thread == kSeveralWarps || (thread & ~kSeveralOfWarp) / kThreadsOfWarp != self / kThreadsOfWarp;
    }
  };

  Note written_, read_, added_;
};

inline constexpr size_t kCellBytes = 2;

// A piece of memory with its cells, which take memory of their own only where they are used.
class Region {
 public:
  // `holds_values`: all of it does from the start, as it does where the host writes.
  Region(std::byte* begin, size_t bytes, bool holds_values);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  bool contains(uint64_t address, size_t bytes) const {
    const uint64_t offset = address - reinterpret_cast<uint64_t>(begin_);
    return offset < bytes_ && bytes <= bytes_ - offset;
  }
  std::byte* begin() const { return begin_; }
  size_t bytes() const { return bytes_; }
  bool holds_values() const { return holds_values_; }
  Cell* cells(const std::byte* at) {
    if (cells_ == nullptr) map_cells();
    return cells_ + static_cast<size_t>(at - begin_) / kCellBytes;
  }

  void define(const std::byte* at, size_t bytes, bool defined);
  void forget();  // all that is known

 private:
  void map_cells();
  size_t cell_count() const { return (bytes_ + kCellBytes - 1) / kCellBytes; }

  std::byte* const begin_;
  const size_t bytes_;
  const bool holds_values_;
  Cell* cells_ = nullptr;
};

// All memory that CUDA knows of. The lock is held while a kernel runs.
class Memory {
 public:
  static Memory& get();

  std::recursive_mutex mutex;
  uint64_t filled_bytes = 0;  // for the counts

  void* allocate(size_t bytes, bool of_host);
  bool release(void* memory);
  void add(void* memory, size_t bytes);  // of the program's own
  bool remove(void* memory);

  Region* find(const void* at);
  Region* last_from(const void* at);  // the last one that begins there or before; null: none

  // What the runtime does. What runs over the end of a region is a finding.
  void copy(void* to, const void* from, size_t bytes);
  void fill(void* to, int value, size_t bytes);
  void undefine(void* memory, size_t bytes);

 private:
  void check(const void* memory, size_t bytes, const char* call);

  std::map<uint64_t, std::unique_ptr<Region>> regions_;  // by their first addresses
};

}  // namespace ptx
