// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/memory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "acl/acl_base.h"
#include "base/error.h"
#include "base/never_destroyed.h"
#include "check/check.h"
#include "check/checker.h"
#include "check/failures.h"
#include "check/order.h"
#include "check/views.h"

namespace aclgrad::check {
namespace {

// All bits set is a NaN in every floating type.
constexpr uint8_t kPattern = 0xFF;
constexpr size_t kGuard = 512;  // bytes; a multiple of the alignment of allocations
constexpr size_t kMaxKeptBytes = size_t{256} << 20;

// Part of an allocation, in bytes from its begin.
struct Interval {
  int64_t begin;
  int64_t end;
};

struct Block {
  MemoryPlace place;
  Device* device;
  int device_id;
  std::byte* begin;  // what the program sees; guards lie before and behind
  int64_t bytes;     // what the program asked for
  size_t reserved;   // with the guards
  CallStack made;
  std::list<const std::byte*> link;  // for Blocks::kept_oldest_first, so that releasing needs no memory
  std::map<int64_t, int64_t> written = {};  // begin to end of what calls wrote, apart from each other

  bool free_failed = false;  // which was a finding
  bool freed = false;
  bool kept = true;  // false once the memory of a freed block was given back
  CallStack freed_at = {};

  std::byte* start() const { return begin - kGuard; }
  std::byte* end() const { return begin + bytes; }
  bool contains(const Region& region) const { return region.start >= begin && region.end() <= end(); }
};

// A call's use of memory on the device.
struct Read {
  std::string text;  // "aclrtMemcpyAsync.src (…)"
  Region region;
  bool needs_all;
  CallStack place;
  const Queue* queue = nullptr;  // where it is open,
  Clock before = {};             // and what it comes after
};

struct Blocks {
  const pid_t process = getpid();
  std::vector<Read> open_reads;
  std::map<const std::byte*, Block> by_start;
  std::list<const std::byte*> kept_oldest_first;  // a deque takes memory when it is made
  size_t kept_bytes = 0;
};

constexpr Singleton<Blocks> blocks{};

// The block around the address, guards included.
Block* find_block(const void* address) {
  const auto* byte = static_cast<const std::byte*>(address);
  auto after = blocks().by_start.upper_bound(byte);
  if (after == blocks().by_start.begin()) return nullptr;
  Block& block = std::prev(after)->second;
  return byte < block.start() + block.reserved ? &block : nullptr;
}

const char* name_of(MemoryPlace place) {
  return place == MemoryPlace::device ? "device memory" : "host memory of aclrtMallocHost";
}

std::string text_of(const Block& block) {
  std::string text = fmt::format("{} {} of {} bytes, allocated at {}", name_of(block.place),
                                 static_cast<void*>(block.begin), block.bytes, block.made.text());
  if (block.freed) text += ", freed at " + block.freed_at.text();
  return text;
}

// After a fault of a GPU the checker can neither read nor write the GPU's memory. That is no finding: the program's own
// calls fail, too.
template <class Body>
void as_far_as_device_works(Body&& body) {
  try {
    body();
  } catch (const Error&) {  // NOLINT: as said above
  }
}

void fill_with_pattern(const Block& block, std::byte* begin, size_t bytes) {
  as_far_as_device_works([&] { block.device->fill({library_view(begin), kPattern, bytes}); });
}

// The first byte of the range that does not hold the pattern; nothing where all do.
std::optional<int64_t> first_without_pattern(const Block& block, const std::byte* from, int64_t bytes) {
  std::array<uint8_t, 16384> chunk;
  for (int64_t done = 0; done < bytes;) {
    const auto size = std::min<size_t>(chunk.size(), static_cast<size_t>(bytes - done));
    block.device->copy({chunk.data(), size, library_view(from + done), size, size, 1});
    for (size_t i = 0; i < size; ++i) {
      if (chunk[i] != kPattern) return done + static_cast<int64_t>(i);
    }
    done += static_cast<int64_t>(size);
  }
  return std::nullopt;
}

void check_guard(const Block& block, std::byte* guard, size_t bytes) {
  const std::optional<int64_t> damaged = first_without_pattern(block, guard, static_cast<int64_t>(bytes));
  if (!damaged) return;
  report("guard-damaged", block.made, "something wrote byte {} of {}. Noticed at {}",
         guard + *damaged - block.begin, text_of(block), CallStack::here().text());
  fill_with_pattern(block, guard, bytes);
}

void check_guards(const Block& block) {
  const size_t behind = block.reserved - kGuard - static_cast<size_t>(block.bytes);
  as_far_as_device_works([&] {
    check_guard(block, block.start(), kGuard);
    check_guard(block, block.end(), behind);
  });
}

void mark_written(Block& block, Interval interval) {
  auto next = block.written.lower_bound(interval.begin);
  if (next != block.written.begin() && std::prev(next)->second >= interval.begin) --next;
  while (next != block.written.end() && next->first <= interval.end) {
    interval = {std::min(interval.begin, next->first), std::max(interval.end, next->second)};
    next = block.written.erase(next);
  }
  block.written.emplace(interval.begin, interval.end);
}

void mark_unset(Block& block, Interval interval) {
  auto next = block.written.lower_bound(interval.begin);
  if (next != block.written.begin()) --next;
  while (next != block.written.end() && next->first < interval.end) {
    const Interval written{next->first, next->second};
    ++next;
    if (written.end <= interval.begin) continue;
    block.written.erase(written.begin);
    if (written.begin < interval.begin) block.written.emplace(written.begin, interval.begin);
    if (written.end > interval.end) block.written.emplace(interval.end, written.end);
  }
}

Interval interval_in(const Block& block, const Region& region) {
  return {region.start - block.begin, region.end() - block.begin};
}

std::vector<Interval> gaps_between_writes(const Block& block, Interval interval) {
  std::vector<Interval> gaps;
  for (const auto& [begin, end] : block.written) {
    if (begin > interval.begin) gaps.push_back({interval.begin, std::min(begin, interval.end)});
    interval.begin = std::max(interval.begin, end);
    if (interval.begin >= interval.end) return gaps;
  }
  gaps.push_back(interval);
  return gaps;
}

// The parts of the region that no call has written, and that the program has not written itself either.
std::vector<Interval> unset_parts(const Block& block, const Region& region) {
  std::vector<Interval> parts = gaps_between_writes(block, interval_in(block, region));
  std::erase_if(parts, [&](const Interval& part) {
    const std::byte* begin = block.begin + part.begin;
    const bool is_in_region = region.touches(begin, block.begin + part.end);
    return !is_in_region || first_without_pattern(block, begin, part.end - part.begin);
  });
  return parts;
}

// What does not need all may leave out what is not set, but not use that alone.
void check_set(const Read& read, const Block& block) {
  const std::vector<Interval> unset = unset_parts(block, read.region);
  if (unset.empty()) return;
  const Interval all = interval_in(block, read.region);
  const bool is_everything = unset[0].begin == all.begin && unset[0].end == all.end;
  if (!is_everything && !read.needs_all) return;
  report("unset-memory", read.place,
         "{} reads memory that was never written: bytes {} to {} of {}. Called at {}", read.text,
         unset[0].begin, unset[0].end - 1, text_of(block), read.place.text());
}

bool is_readable(const std::byte* address) {
  std::byte byte;
  return read_memory(address, &byte, 1);
}

[[noreturn]] void refuse(const Call& call, const Use& use) {
  throw Error(ACL_ERROR_RT_PARAM_INVALID,
              fmt::format("{}.{}: expected memory that may be used, got {}.", call.function, use.parameter,
                          static_cast<const void*>(use.region.start)),
              "ACLGRAD_CHECK refuses calls that would leave their memory.");
}

// What the program should not have passed is used all the same, as without the checker, where that does no
// harm.
void report_wrong_memory(const char* kind, const std::string& what, const Call& call, const Use& use,
                         bool is_usable) {
  if (is_usable) {
    report_call(kind, "{} {}.", text_of(call, use), what);
  } else {
    report_refusal(kind, "{} {}.", text_of(call, use), what);
    refuse(call, use);
  }
}

void check_foreign(const Call& call, const Use& use) {
  if (use.side == Side::host) return;
  const bool is_usable = is_readable(use.region.start) && is_readable(use.region.end() - 1);
  report_wrong_memory("host-pointer", "is not memory of aclrtMalloc", call, use, is_usable);
}

void check_freed(const Call& call, const Use& use, const Block& block) {
  const bool is_usable = block.kept && block.contains(use.region);
  report_wrong_memory("use-after-free", "lies in " + text_of(block), call, use, is_usable);
}

void check_side(const Call& call, const Use& use, const Block& block) {
  const bool wants_device = use.side == Side::device && block.place == MemoryPlace::host;
  const bool wants_host = use.side == Side::host && block.place == MemoryPlace::device;
  if (!wants_device && !wants_host) return;
  report_call(wants_device ? "host-pointer" : "device-pointer",
              "{} is in {}, but {} memory is expected there.", text_of(call, use), text_of(block),
              wants_device ? "device" : "host");
}

void check_bounds(const Call& call, const Use& use, const Block& block) {
  if (block.contains(use.region)) return;
  const Interval interval = interval_in(block, use.region);
  report_refusal("out-of-bounds", "{} uses bytes {} to {} of {}.", text_of(call, use), interval.begin,
                 interval.end - 1, text_of(block));
  refuse(call, use);
}

void check_device(const Call& call, const Use& use, const Block& block) {
  if (!call.is_operator || block.place != MemoryPlace::device) return;
  const std::optional<int> device_id = device_of(*call.queue);
  if (!device_id || *device_id == block.device_id) return;
  report_call("wrong-device", "{} runs on device {} but is in memory of device {}: {}.", text_of(call, use),
              *device_id, block.device_id, text_of(block));
}

void check_read(const Call& call, const Use& use, const Block& block) {
  Read read{text_of(call, use), use.region, use.needs_all, CallStack::here()};
  if (call.queue == nullptr || !is_open(*call.queue)) return check_set(read, block);
  read.queue = call.queue;
  read.before = clock_of(*call.queue);
  blocks().open_reads.push_back(std::move(read));
}

void check_use(const Call& call, const Use& use, Block* block) {
  const bool was_given_back = block != nullptr && !block->kept;
  const bool is_other_memory_now = was_given_back && use.side == Side::host;
  if (block == nullptr || is_other_memory_now) return check_foreign(call, use);
  if (block->freed) return check_freed(call, use, *block);
  check_side(call, use, *block);
  check_bounds(call, use, *block);
  check_device(call, use, *block);
  if (!use.writes && block->place == MemoryPlace::device) check_read(call, use, *block);
}

void check_arguments_apart(const Call& call) {
  for (const Use& written : call.uses) {
    for (const Use& other : call.uses) {
      const bool is_one_pair = other.writes ? &other < &written : true;
      if (!written.writes || &other == &written || !is_one_pair) continue;
      if (!overlap(written.region, other.region)) continue;
      report_call("overlap", "{} and {} share memory.", text_of(call, written), text_of(call, other));
    }
  }
}

// In two views where there are such; a GPU's memory is out of the host's reach anyway.
std::byte* allocate_pages(Device& device, MemoryPlace place, size_t bytes) {
  const bool may_have_views = device.kind() == DeviceKind::cpu && bytes <= device.memory_info().total_bytes;
  std::byte* start = may_have_views ? map_views(bytes) : nullptr;
  return start != nullptr ? start : static_cast<std::byte*>(device.allocate(place, bytes));
}

void release_pages(Device& device, MemoryPlace place, std::byte* start, size_t bytes) {
  if (is_in_program_view(start)) {
    unmap_views(start, bytes);
  } else {
    device.release(place, start);
  }
}

// Shared with the process of which this is a fork.
bool is_of_parent(const Block& block) {
  return getpid() != blocks().process && is_in_program_view(block.start());
}

void give_back(Block& block) {
  block.kept = false;
  if (!is_of_parent(block)) release_pages(*block.device, block.place, block.start(), block.reserved);
}

// Gives the memory of the oldest freed blocks back, but keeps in mind that they were there.
void trim(Blocks& all) {
  while (all.kept_bytes > kMaxKeptBytes && !all.kept_oldest_first.empty()) {
    Block& block = all.by_start.at(all.kept_oldest_first.front());
    all.kept_oldest_first.pop_front();
    all.kept_bytes -= block.reserved;
    give_back(block);
  }
}

void forget_freed(Blocks& all, const std::byte* begin, const std::byte* end) {
  auto next = all.by_start.lower_bound(begin);
  if (next != all.by_start.begin()) {
    const Block& before = std::prev(next)->second;
    if (before.start() + before.reserved > begin) --next;
  }
  while (next != all.by_start.end() && next->first < end) next = all.by_start.erase(next);
}

void report_host_use(const Block* block, const std::byte* byte, HostUse use, const CallStack& place) {
  if (block == nullptr) {
    report("host-access", place, "the host {} {}, where no allocation is. At {}", verb_of(use),
           static_cast<const void*>(byte), place.text());
  } else if (block->freed || block->place == MemoryPlace::device) {
    report(block->freed ? "use-after-free" : "host-access", place,
           "the host {} byte {} of {}, through a pointer. At {}", verb_of(use), byte - block->begin,
           text_of(*block), place.text());
  } else {
    check_host_order(byte, use, place);
  }
}

}  // namespace

void* Checker::allocate(Device& device, int device_id, MemoryPlace place, size_t requested, size_t reserved) {
  const size_t with_guards = reserved + 2 * kGuard;
  Blocks& all = blocks();
  std::byte* start = allocate_pages(device, place, with_guards);
  try {
    device.fill({library_view(start), kPattern, with_guards});
    std::lock_guard lock(calls_mutex);
    forget_freed(all, start, start + with_guards);
    all.by_start.insert_or_assign(start, Block{place,
                                               &device,
                                               device_id,
                                               start + kGuard,
                                               static_cast<int64_t>(requested),
                                               with_guards,
                                               CallStack::here(),
                                               {start}});
  } catch (...) {
    release_pages(device, place, start, with_guards);
    throw;
  }
  if (place == MemoryPlace::device) deny_host_access(start, start + with_guards);
  return start + kGuard;
}

void Checker::release(std::string_view function, Device&, MemoryPlace, void* memory) noexcept {
  std::lock_guard lock(calls_mutex);
  Blocks& all = blocks();
  Block& block = *find_block(memory);
  as_far_as_memory_goes([&] { check_guards(block); });
  const Region region = Region::contiguous(block.begin, static_cast<size_t>(block.bytes));
  const bool is_in_use = check_release_order(function, region);
  forget_results(region);
  block.freed = true;
  block.freed_at = CallStack::here();
  block.written.clear();
  deny_host_access(block.start(), block.start() + block.reserved);
  // Work that is still queued goes on to use it, and so does the process of which this is a fork.
  if (is_in_use || is_of_parent(block)) return;
  all.kept_oldest_first.splice(all.kept_oldest_first.end(), block.link);
  all.kept_bytes += block.reserved;
  as_far_as_memory_goes([&] {
    fill_with_pattern(block, block.begin, static_cast<size_t>(block.bytes));
    trim(all);
  });
}

void Checker::release_refused(std::string_view function, const void* memory) {
  std::lock_guard lock(calls_mutex);
  Block* block = find_block(memory);
  if (block != nullptr) block->free_failed = true;
  const std::string what = block == nullptr ? "memory that this library did not allocate" : text_of(*block);
  report_refusal(block != nullptr && block->freed ? "double-free" : "invalid-free",
                 "{} got {}, which is not the start of live memory that it frees, but lies in {}.", function,
                 memory, what);
}

bool is_allocated_memory(const void* address) {
  const Block* block = find_block(address);
  return block != nullptr && block->kept;
}

bool is_device_memory(const void* address) {
  const Block* block = find_block(address);
  return block != nullptr && block->kept && block->place == MemoryPlace::device;
}

void deny_destination(const Region& destination) {
  const Block* block = find_block(destination.start);
  if (block == nullptr || block->freed || block->place != MemoryPlace::host) return;
  if (!destination.is_contiguous()) return;
  // Pages that hold nothing else: what lies beside it in the block may be used.
  const bool is_first = destination.start == block->begin;
  const bool is_last = destination.end() == block->end();
  deny_host_access(is_first ? block->start() : page_at_or_behind(destination.start),
                   is_last ? block->start() + block->reserved : page_at_or_before(destination.end()));
}

Region part_in_live_memory(const Region& region) {
  const Block* block = region.empty() ? nullptr : find_block(region.start);
  if (block == nullptr || block->freed || region.start < block->begin) return {};
  if (block->contains(region)) return region;
  return Region::contiguous(region.start,
                            static_cast<size_t>(std::max<int64_t>(block->end() - region.start, 0)));
}

void take_as_written(const Region& region) {
  Block* block = find_block(region.start);
  if (block != nullptr && block->contains(region)) mark_written(*block, interval_in(*block, region));
}

void host_used(const void* address, HostUse use, const CallStack& place) noexcept {
  std::lock_guard lock(calls_mutex);
  const auto* byte = static_cast<const std::byte*>(address);
  const Block* block = find_block(address);
  as_far_as_memory_goes([&] { report_host_use(block, byte, use, place); });
  if (block == nullptr) {
    allow_host_access(byte, byte + 1);
  } else {
    allow_host_access(block->start(), block->start() + block->reserved);
  }
}

void check_memory(const Call& call) {
  for (const Use& use : call.uses) {
    if (!use.region.empty()) check_use(call, use, find_block(use.region.start));
  }
  if (call.is_operator && !call.may_alias) check_arguments_apart(call);
  for (const Use& use : call.uses) {
    Block* block = find_block(use.region.start);
    const bool is_written = use.writes && !use.region.empty() && block != nullptr && !block->freed;
    if (is_written) mark_written(*block, interval_in(*block, use.region));
  }
}

void check_open_reads() {
  std::erase_if(blocks().open_reads, [&](Read& read) {
    if (is_open(read.before)) return false;
    const Block* block = find_block(read.region.start);
    const bool is_live = block != nullptr && !block->freed && block->contains(read.region);
    if (is_live) as_far_as_device_works([&] { check_set(read, *block); });
    return true;
  });
}

void forget_open_reads(const Queue& queue) noexcept {
  std::erase_if(blocks().open_reads, [&](const Read& read) { return read.queue == &queue; });
}

void copy_unset(const Copy& copy) {
  const Block* from = find_block(copy.source);
  Block* to = find_block(copy.destination);
  const auto is_on_device = [](const Block* block) {
    return block != nullptr && !block->freed && block->place == MemoryPlace::device;
  };
  if (!is_on_device(from) || !is_on_device(to)) return;
  const auto* source = static_cast<const std::byte*>(copy.source);
  auto* destination = static_cast<std::byte*>(copy.destination);
  const int64_t distance = (destination - to->begin) - (source - from->begin);
  for (size_t i = 0; i < copy.height; ++i) {
    const Region row = Region::contiguous(source + i * copy.source_pitch, copy.width);
    const int64_t shift = distance + static_cast<int64_t>(i) * (static_cast<int64_t>(copy.destination_pitch) -
                                                                static_cast<int64_t>(copy.source_pitch));
    for (const Interval part : unset_parts(*from, row))
      mark_unset(*to, {part.begin + shift, part.end + shift});
  }
}

void report_damaged_guards() {
  for (const auto& [start, block] : blocks().by_start) {
    if (!block.freed) check_guards(block);
  }
}

void report_unreleased_memory() {
  for (const auto& [start, block] : blocks().by_start) {
    const bool is_leaked = !block.freed && !block.free_failed;
    if (is_leaked) report("leak", block.made, "never freed: {}", text_of(block));
  }
}

}  // namespace aclgrad::check
