// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Uses of a few bytes of the program's own memory, which the processor can watch for: in one thread, and only where the
// system lets a process watch itself.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>

#include "check/place.h"

namespace aclgrad::check {

class Watchpoint {
 public:
  // Watches the first bytes of the memory, as many as can be, in the calling thread.
  Watchpoint(const std::byte* memory, size_t bytes) noexcept;
  ~Watchpoint();
  Watchpoint(const Watchpoint&) = delete;
  Watchpoint& operator=(const Watchpoint&) = delete;

  // Where the program has used them first. Uses by functions of the C library do not count, since those that look for
  // the end of a string read beyond it.
  std::optional<Place> first_use() const;

 private:
  bool is_set() const;

  const pid_t process_;
  int event_ = -1;
  void* records_ = nullptr;  // of the uses, by the system
};

}  // namespace aclgrad::check
