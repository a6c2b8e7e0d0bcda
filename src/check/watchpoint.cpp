// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/watchpoint.h"

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace aclgrad::check {
namespace {

size_t page_size() {
  return static_cast<size_t>(getpagesize());
}

// One page that says how far the records reach, and one of records.
size_t records_size() {
  return 2 * page_size();
}

// Watched bytes are 1, 2, 4 or 8, at a multiple of their number.
uint64_t watched_length(const std::byte* memory, size_t bytes) {
  uint64_t length = 8;
  while (length > bytes || reinterpret_cast<uintptr_t>(memory) % length != 0) length /= 2;
  return length;
}

int open_event(const std::byte* memory, size_t bytes) {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_BREAKPOINT;
  attributes.bp_type = HW_BREAKPOINT_RW;
  attributes.bp_addr = reinterpret_cast<uintptr_t>(memory);
  attributes.bp_len = watched_length(memory, bytes);
  attributes.sample_period = 1;
  attributes.sample_type = PERF_SAMPLE_IP;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

struct Record {
  perf_event_header header;
  uint64_t instruction;  // behind the use
};

}  // namespace

Watchpoint::Watchpoint(const std::byte* memory, size_t bytes) noexcept : process_(getpid()) {
  event_ = open_event(memory, bytes);
  if (event_ < 0) return;
  void* records = mmap(nullptr, records_size(), PROT_READ | PROT_WRITE, MAP_SHARED, event_, 0);
  if (records != MAP_FAILED) records_ = records;
}

Watchpoint::~Watchpoint() {
  if (is_set()) munmap(records_, records_size());
  if (event_ >= 0) close(event_);
}

// A fork does not have the records.
bool Watchpoint::is_set() const {
  return records_ != nullptr && getpid() == process_;
}

std::optional<Place> Watchpoint::first_use() const {
  if (!is_set()) return std::nullopt;
  const auto* page = static_cast<const perf_event_mmap_page*>(records_);
  const uint64_t end = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
  const auto* first = static_cast<const std::byte*>(records_) + page_size();
  for (uint64_t at = 0; at + sizeof(Record) <= end && at + sizeof(Record) <= page_size();) {
    Record record;
    std::memcpy(&record, first + at, sizeof record);
    if (record.header.size == 0) break;
    if (record.header.type == PERF_RECORD_SAMPLE) {
      const Place place = Place::behind(reinterpret_cast<const void*>(record.instruction));
      if (place.is_in_program()) return place;
    }
    at += record.header.size;
  }
  return std::nullopt;
}

}  // namespace aclgrad::check
