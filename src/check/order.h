// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// In which order the work of streams and of the host happens, as far as the program has made sure of it.
//
// The host and every stream are timelines. A task comes after all that the host did before it was queued, after
// the tasks before it in its stream, and after what precedes the events that its stream waited for. The host
// comes after a task only once it has synchronised. Two uses of the same memory of which at least one writes
// must be ordered so; whether they would meet in this run does not matter, so that findings do not depend on
// timing. A stream may wait for an event before that is recorded: what its later tasks come after is known then, and
// judged then. All threads of the host count as one timeline, because how they wait for each other cannot be seen.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fork.h"
#include "check/call.h"
#include "check/host_copies.h"
#include "check/place.h"
#include "runtime/device.h"

namespace aclgrad::check {

// What has been done at some point: so many tasks of each stream, by its number, and all that comes before these events,
// which were not recorded yet.
struct Clock {
  std::map<int, uint64_t> tasks;
  std::vector<std::shared_ptr<EventState>> waits = {};
};

// The turn of a host callback in its stream.
struct CallbackTurn {
  Clock after = {};  // what is over when it runs
  bool holds_stream_up = false;
  Task task = {};
  std::string stream_name = {};
  Place queued = {};
};

void stream_begins(const Queue& queue, const void* handle, int device_id);

// The stream's work is waited for without being asked for: copies to the host that nobody synchronised.
void report_unfinished_copies(const Queue& queue);
void report_unfinished_copies();  // of all streams, at exit

// All that was queued is done.
void stream_ended(const Queue& queue) noexcept;

// Or was dropped, as far as the host had not synchronised with it: nothing more will write what it was to write.
void stream_dropped(const Queue& queue);

int device_of(const Queue& queue);

// All that is queued so far, which the host may then have reached.
Clock clock_of(const Queue& queue);
void host_reached(Clock clock);

// Whether it still depends on an event that is not recorded.
bool is_open(Clock& clock);
bool is_open(const Queue& queue);

// A wait for a queue that is open may never end. This is for one that has lasted a while: it throws Error where the
// queue is still open and no other thread could record the event.
void check_hang(const Queue& queue);

CallbackTurn callback_queued(const Queue& queue, bool holds_stream_up);

// While one lives, the callback of the turn runs in this thread. Needs no memory: the callback must run.
class RunningCallback {
 public:
  explicit RunningCallback(CallbackTurn& turn) noexcept;
  ~RunningCallback();
  RunningCallback(const RunningCallback&) = delete;
  RunningCallback& operator=(const RunningCallback&) = delete;

  const CallbackTurn& turn;
  const RunningCallback* const outer;
};

// Before the host waits without end: throws Error where the calling thread runs a callback that holds up what is waited
// for, so that it would wait for itself. The status says what timed out.
void check_wait_in_callback(const Clock& awaited, Status status);
void check_wait_in_callback(const EventState& awaited);

void event_recorded(EventState& event, const Queue& queue);
void event_not_recorded(EventState& event) noexcept;  // after all
void event_reached(const EventState& event);          // as the host has learned
void event_awaited(const std::shared_ptr<EventState>& event, const Queue& queue);
void waits_ended(const EventState& event);  // all of an event that was reached, as the host has learned

// Looks for uses of the same memory that are not ordered, and remembers those of the call.
void check_order(const Call& call);

// True where queued work still uses the memory, which is then a finding.
bool check_release_order(std::string_view function, const Region& memory) noexcept;

// The host uses this byte through a pointer, which it should not while a queued copy is to write it.
void check_host_order(const std::byte* byte, std::string_view use, const Place& place);

// The one of the calling thread's last check_order() with a queue.
Task newest_task();

void act_on_order_lock(LockAction action);  // for a fork

}  // namespace aclgrad::check
