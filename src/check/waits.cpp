// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/waits.h"

#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "base/error.h"
#include "check/check.h"
#include "check/order.h"

namespace aclgrad::check {
namespace {

// The first wait of a queue that waits for an event itself is a short one.
void check_end(Queue& queue) {
  if (queue.synchronize(std::chrono::steady_clock::now() + std::chrono::seconds(1))) return;
  as_far_as_memory_goes([&] { check_hang(queue); });
}

}  // namespace

bool synchronize(Queue& queue, Deadline deadline) {
  std::optional<Clock> reached;
  bool may_hang = false;
  as_far_as_memory_goes([&] {
    reached = clock_of(queue);
    if (deadline) return;
    check_wait_in_callback(*reached, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    may_hang = is_open(*reached);
  });
  if (may_hang) check_end(queue);
  try {
    if (!queue.synchronize(deadline)) return false;
  } catch (const Error&) {  // the work has failed, but it is over
    if (reached) host_reached(*std::move(reached));
    throw;
  }
  if (!reached)
    throw Error::from(std::bad_alloc(), ACL_ERROR_BAD_ALLOC);  // copies to the host have not arrived
  host_reached(*std::move(reached));
  return true;
}

bool is_idle(const Queue& queue) {
  Clock reached = clock_of(queue);
  if (!queue.idle()) return false;
  host_reached(std::move(reached));
  return true;
}

Note note_callback(const Queue& queue, bool holds_stream_up) {
  return std::make_shared<CallbackTurn>(callback_queued(queue, holds_stream_up));
}

void run_callback(const Note& note, aclrtCallback function, void* user_data) {
  const RunningCallback running(*static_cast<CallbackTurn*>(note.get()));
  function(user_data);
}

}  // namespace aclgrad::check
