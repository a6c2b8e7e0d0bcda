// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the host does until work is done, and what it knows then.
#include <chrono>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "acl/acl_base.h"
#include "base/error.h"
#include "check/check.h"
#include "check/checker.h"
#include "check/order.h"

namespace aclgrad::check {
namespace {

// While one lives, the callback of the turn runs in this thread.
struct RunningCallback {
  explicit RunningCallback(const CallbackTurn& running_turn) : turn(running_turn) { innermost = this; }
  ~RunningCallback() { innermost = outer; }
  RunningCallback(const RunningCallback&) = delete;
  RunningCallback& operator=(const RunningCallback&) = delete;

  static thread_local const RunningCallback* innermost;

  const CallbackTurn& turn;
  const RunningCallback* const outer = innermost;
};

thread_local const RunningCallback* RunningCallback::innermost = nullptr;

// Whether what has this clock waits until the callback has returned.
bool holds_up(const RunningCallback& callback, const Clock& clock) {
  return callback.turn.holds_stream_up && has_done(clock, callback.turn.task);
}

// Throws Error where the calling thread runs a callback that holds up what it is about to wait for. The
// status says what timed out.
void check_wait_in_callback(const Clock& awaited, Status status) {
  for (auto* callback = RunningCallback::innermost; callback != nullptr; callback = callback->outer) {
    if (!holds_up(*callback, awaited)) continue;
    const CallbackTurn& turn = callback->turn;
    report_refusal("callback-waits",
                   "a callback waits for work that comes after it: {}, on which it was queued at {}, waits "
                   "until it has returned.",
                   turn.stream_name, turn.queued.text());
    throw Error(status, "The callback that waits holds up what it waits for.");
  }
}

void note_reached(Clock reached) {
  std::lock_guard lock(calls_mutex);
  host_reached(std::move(reached));
}

// As queue.synchronize(). Where the work has failed, the clock is reached all the same: the work is over.
bool wait_for(Queue& queue, Deadline deadline, std::optional<Clock>& reached) {
  try {
    return queue.synchronize(deadline);
  } catch (const Error&) {
    if (reached) note_reached(*std::move(reached));
    throw;
  }
}

// The first wait of a queue that waits for an event itself is a short one.
void check_end(Queue& queue, std::optional<Clock>& reached) {
  if (wait_for(queue, std::chrono::steady_clock::now() + std::chrono::seconds(1), reached)) return;
  std::lock_guard lock(calls_mutex);
  as_far_as_memory_goes([&] { check_hang(queue); });
}

}  // namespace

bool waits_for_running_callback(const Clock& before) {
  for (auto* callback = RunningCallback::innermost; callback != nullptr; callback = callback->outer) {
    if (holds_up(*callback, before)) return true;
  }
  return false;
}

bool Checker::synchronize(Queue& queue, Deadline deadline) {
  std::optional<Clock> reached;
  bool may_hang = false;
  as_far_as_memory_goes([&] {
    std::lock_guard lock(calls_mutex);
    reached = clock_of(queue);
    if (deadline) return;
    check_wait_in_callback(*reached, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    may_hang = !reached->waits.empty();
  });
  if (may_hang) check_end(queue, reached);
  if (!wait_for(queue, deadline, reached)) return false;
  if (!reached)
    throw Error::from(std::bad_alloc(), ACL_ERROR_BAD_ALLOC);  // copies to the host have not arrived
  note_reached(*std::move(reached));
  return true;
}

bool Checker::is_idle(const Queue& queue) {
  std::unique_lock lock(calls_mutex);
  Clock reached = clock_of(queue);
  lock.unlock();
  if (!queue.idle()) return false;
  note_reached(std::move(reached));
  return true;
}

void Checker::event_wait_begins(const EventState& event) {
  if (RunningCallback::innermost == nullptr) return;
  std::lock_guard lock(calls_mutex);
  as_far_as_memory_goes([&] {
    if (const std::optional<Clock> before = clock_before(event))
      check_wait_in_callback(*before, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
  });
}

void Checker::run_callback(const Note& note, aclrtCallback function, void* user_data) {
  CallbackTurn& turn = *static_cast<CallbackTurn*>(note.get());
  as_far_as_memory_goes([&] { note_reached(std::move(turn.after)); });
  struct Returned {
    CallbackTurn& turn;
    ~Returned() {
      std::lock_guard lock(calls_mutex);
      callback_returned(turn);
    }
  };
  const Returned returned{turn};  // also if it throws
  const RunningCallback running(turn);
  function(user_data);
}

}  // namespace aclgrad::check
