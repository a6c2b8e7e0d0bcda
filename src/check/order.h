// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// In which order the work of streams and of the host happens, as far as the program has made sure of it.
//
// The host and every stream are timelines. A task comes after all that the host did before it was queued,
// after the tasks before it in its stream, and after what precedes the events that its stream waited for. The
// host comes after a task only once it has synchronised. Two uses of the same memory of which at least one
// writes must be ordered so; whether they would meet in this run does not matter, so that findings do not
// depend on timing. A stream may wait for an event before that is recorded: what its later tasks come after
// is known then, and judged then. A stream may also wait for a callback that has not returned: what the
// callback does comes before the stream's later tasks. All threads of the host count as one timeline, because
// how they wait for each other cannot be seen.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check/call.h"
#include "check/call_stack.h"
#include "check/host_copies.h"
#include "runtime/device.h"

namespace aclgrad::check {

// What has been done at some point: so many tasks of each stream, by its number, and all that comes before
// these events, which were not recorded yet.
struct Clock {
  std::map<int, uint64_t> tasks;
  std::vector<std::shared_ptr<EventState>> waits = {};
};

bool has_done(const Clock& clock, Task task);

// The turn of a host callback in its stream.
struct CallbackTurn {
  Clock after = {};  // what is over when it runs
  bool holds_stream_up = false;
  Task task = {};
  std::string stream_name = {};
  CallStack queued = {};
};

// Copies to the host with which nothing has synchronised, of one stream or of all.
void report_unfinished_copies(std::optional<int> stream = {});

// Another thread may end a stream while its queue is passed to these. Such a queue has no device and an empty
// clock, and is not open.

std::optional<int> device_of(const Queue& queue);

// All that is queued so far, which the host may then have reached.
Clock clock_of(const Queue& queue);
void host_reached(Clock clock);

// Whether what comes next waits for something of which the end is not known: an event that is not recorded, or
// a callback that has not returned.
bool is_open(Clock& clock);
bool is_open(const Queue& queue);

// Whether what has this clock waits for a callback that runs in the calling thread.
bool waits_for_running_callback(const Clock& before);

void callback_returned(const CallbackTurn& turn);

// For a wait for an open queue that has lasted a while: throws Error where the queue is still open and no
// other thread could record the event, so that the wait would never end.
void check_hang(const Queue& queue);

// What is done when the event is reached; nothing where the event is not recorded.
std::optional<Clock> clock_before(const EventState& event);

// Looks for uses of the same memory that are not ordered, and remembers those of the call.
void check_order(const Call& call);

// True where queued work still uses the memory, which is then a finding.
bool check_release_order(std::string_view function, const Region& memory) noexcept;

// The host uses this byte through a pointer, which it should not while a queued copy is to write it.
void check_host_order(const std::byte* byte, HostUse use, const CallStack& place);

// The task that the calling thread's last check_order() with a queue has noted.
Task newest_task();

}  // namespace aclgrad::check
