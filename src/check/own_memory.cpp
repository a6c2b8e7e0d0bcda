// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/own_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>

namespace aclgrad::check {

namespace {

int open_own_memory() {
  return open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
}

int& own_memory() {
  static int file = open_own_memory();
  return file;
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

void reopen_own_memory() {
  close(own_memory());
  own_memory() = open_own_memory();
}

}  // namespace aclgrad::check
