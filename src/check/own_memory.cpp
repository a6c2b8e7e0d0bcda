// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/own_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace aclgrad::check {

namespace {

constexpr int kNone = -1;
// No lock or static object of a function guards it: a child would wait for a thread of its parent that was opening it.
std::atomic<int> file{kNone};

int own_memory() {
  if (const int opened = file; opened != kNone) return opened;
  const int mine = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  int other = kNone;
  if (file.compare_exchange_strong(other, mine)) return mine;
  close(mine);
  return other;
}

}  // namespace

bool read_own_memory(const void* from, std::byte* to, size_t bytes) {
  auto address = static_cast<off_t>(reinterpret_cast<uintptr_t>(from));
  while (bytes > 0) {
    const ssize_t done = pread(own_memory(), to, bytes, address);
    if (done <= 0) return false;
    to += done;
    address += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

void forget_own_memory() {
  if (const int of_parent = file.exchange(kNone); of_parent != kNone) close(of_parent);
}

}  // namespace aclgrad::check
