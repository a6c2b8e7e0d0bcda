// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Queued copies from and to the host. What is copied from the host is so a snapshot, taken when the copy is
// queued, and what is copied to the host's own memory arrives when the program has synchronised: until then
// the program must leave its memory alone, and what it does to it all the same shows. Where the queue is open
// (order.h), the program may use its memory until the event is recorded: such a copy reads its source when
// its turn comes, and what the program does to it is no finding.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "check/region.h"
#include "runtime/device.h"

namespace aclgrad::check {

// The `number`th of a stream.
struct Task {
  int stream;
  uint64_t number;

  bool operator==(const Task& other) const = default;
};

// The copies to do in place of `copy`.
Copy from_snapshot(std::string_view function, const Copy& copy, Task task, Queue& queue, bool is_open);
Copy to_staging(std::string_view function, const Copy& copy, Task task, bool is_open);

// A copy to memory of the host that is done as it is.
void arrives_in_place(const Copy& copy, Task task);

// A queued copy will write this memory of the host, where it may be the source of earlier ones.
void expect_change(const Region& destination);

// The host has synchronised with the tasks of which `is_done` is true. Needs no memory: what was copied must
// arrive.
void finish_host_copies(const std::function<bool(Task)>& is_done) noexcept;

void forget_host_copies(Task task) noexcept;

}  // namespace aclgrad::check
