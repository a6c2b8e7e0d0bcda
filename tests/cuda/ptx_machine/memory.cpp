// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "findings.h"

namespace ptx {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kGap = 256;  // to the next allocation, so that what runs over the end is in none

}  // namespace

Region::Region(std::byte* begin, size_t bytes, bool holds_values)
    : begin_(begin), bytes_(bytes), holds_values_(holds_values) {}

Region::~Region() {
  if (cells_ != nullptr) munmap(static_cast<void*>(cells_), cell_count() * sizeof(Cell));
}

// Address space that is zero, and takes memory only where it is written.
void Region::map_cells() {
  void* memory = mmap(nullptr, cell_count() * sizeof(Cell), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  cells_ = static_cast<Cell*>(memory);
}

void Region::define(const std::byte* at, size_t bytes, bool defined) {
  if (holds_values_ || bytes == 0) return;
  Cell* const end = cells(at + bytes - 1) + 1;
  for (Cell* cell = cells(at); cell != end; ++cell) cell->defined = defined;
}

void Region::forget() {
  if (cells_ != nullptr) std::fill_n(cells_, cell_count(), Cell{});
}

Memory& Memory::get() {
  static auto& memory =
      *new Memory;  // a program's streams may end after everything that is static here would have
  return memory;
}

void* Memory::allocate(size_t bytes, bool of_host) {
  auto* begin = static_cast<std::byte*>(
      std::aligned_alloc(kAlignment, (bytes + kGap + kAlignment - 1) / kAlignment * kAlignment));
  if (begin == nullptr) return nullptr;
  const std::lock_guard lock(mutex);
  regions_[reinterpret_cast<uint64_t>(begin)] = std::make_unique<Region>(begin, bytes, of_host);
  return begin;
}

bool Memory::release(void* memory) {
  if (memory == nullptr) return true;
  if (!remove(memory)) return false;
  std::free(memory);
  return true;
}

void Memory::add(void* memory, size_t bytes) {
  const std::lock_guard lock(mutex);
  regions_[reinterpret_cast<uint64_t>(memory)] =
      std::make_unique<Region>(static_cast<std::byte*>(memory), bytes, true);
}

bool Memory::remove(void* memory) {
  const std::lock_guard lock(mutex);
  return regions_.erase(reinterpret_cast<uint64_t>(memory)) != 0;
}

Region* Memory::last_from(const void* at) {
  const auto next = regions_.upper_bound(reinterpret_cast<uint64_t>(at));
  return next == regions_.begin() ? nullptr : std::prev(next)->second.get();
}

Region* Memory::find(const void* at) {
  Region* region = last_from(at);
  return region != nullptr && region->contains(reinterpret_cast<uint64_t>(at), 0) ? region : nullptr;
}

void Memory::check(const void* memory, size_t bytes, const char* call) {
  const Region* region = find(memory);
  if (region == nullptr || region->contains(reinterpret_cast<uint64_t>(memory), bytes)) return;
  report(std::string(call) + " of " + std::to_string(bytes) + " bytes runs over the end of its allocation");
}

void Memory::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex);
  check(to, bytes, "a copy to");
  check(from, bytes, "a copy from");
  std::memmove(to, from, bytes);
  Region* target = find(to);
  if (target == nullptr || target->holds_values()) return;
  const auto* at = static_cast<const std::byte*>(to);
  const auto* source_at = static_cast<const std::byte*>(from);
  Region* source = find(from);
  if (source == nullptr || source->holds_values()) return target->define(at, bytes, true);
  for (size_t i = 0; i < bytes; i += kCellBytes) {
    target->cells(at + i)->defined = source->cells(source_at + i)->defined;
  }
}

void Memory::fill(void* to, int value, size_t bytes) {
  const std::lock_guard lock(mutex);
  check(to, bytes, "a fill");
  filled_bytes += bytes;
  std::memset(to, value, bytes);
  if (Region* target = find(to)) target->define(static_cast<std::byte*>(to), bytes, true);
}

void Memory::undefine(void* memory, size_t bytes) {
  const std::lock_guard lock(mutex);
  if (Region* region = find(memory)) region->define(static_cast<std::byte*>(memory), bytes, false);
}

}  // namespace ptx
