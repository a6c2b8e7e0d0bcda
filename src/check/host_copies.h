// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Queued copies from and to the host. A copy from the host reads a snapshot of its source, which is taken
// when the copy is queued. A copy to the host's own memory writes a buffer, whose contents arrive when the
// program synchronises. Until then the program must not change its memory; that it did is seen from the
// contents. Where the queue is open (order.h), the program may use its memory until the event is recorded, or
// in the callback: such a copy reads its source when its turn comes, and changes of that memory are no findings.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "runtime/device.h"
#include "tensor/region.h"

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

// A copy to memory of the host that is not replaced.
void arrives_in_place(const Copy& copy, Task task);

// A queued copy will write this memory of the host, which may be the source of earlier copies: that it
// changes is no finding on these.
void expect_change(const Region& destination);

// The host has synchronised with the tasks of which `is_done` is true. Needs no memory: what was copied must
// arrive.
void finish_host_copies(const std::function<bool(Task)>& is_done) noexcept;

void forget_host_copies(Task task) noexcept;

}  // namespace aclgrad::check
