// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "acl/acl_base.h"
#include "base/error.h"
#include "base/never_destroyed.h"
#include "check/check.h"
#include "check/host_copies.h"
#include "check/memory.h"
#include "check/views.h"

namespace aclgrad::check {
namespace {

struct Timeline {
  int number;
  std::string name;
  int device_id;
  Clock clock = {};                                     // what the next task comes after, and its own tasks
  std::vector<std::shared_ptr<EventState>> waits = {};  // for events that were not recorded yet
  bool hang_reported = false;
};

// One use of memory by queued work.
struct Access {
  std::string what;  // "aclrtMemcpyAsync.dst"
  Region region;
  bool writes;
  bool copies_to_host;
  int stream;
  std::string stream_name;
  uint64_t task;
  bool is_unordered;  // behind a wait for an event that is not recorded: what precedes it is not known yet
  Place place;
};

struct State {
  std::mutex mutex;
  int streams = 0;
  std::map<const Queue*, Timeline> timelines;
  Clock host;
  std::vector<Access> accesses;  // that the host does not know to be over
  std::vector<Access> dropped;   // writes that may never happen
  std::set<std::thread::id> threads;
};

thread_local Task newest{};
thread_local const RunningCallback* innermost_callback = nullptr;

State& state() {
  static NeverDestroyed<State> state;
  return *state;
}

// Needs no memory but for its arguments.
void join(Clock& clock, Clock other) noexcept {
  for (auto& [stream, tasks] : clock.tasks) {
    const auto found = other.tasks.find(stream);
    if (found != other.tasks.end()) tasks = std::max(tasks, found->second);
  }
  clock.tasks.merge(other.tasks);
}

bool has_done(const Clock& clock, int stream, uint64_t task) {
  const auto found = clock.tasks.find(stream);
  return found != clock.tasks.end() && found->second >= task;
}

// What was queued before the event; null before it is recorded.
std::shared_ptr<const Clock> recorded_after(const EventState& event) {
  return std::static_pointer_cast<const Clock>(event.note);
}

// Events that were recorded since their wait was queued are known now.
void resolve_waits(Timeline& timeline) {
  const auto is_known = [](const std::shared_ptr<EventState>& event) { return event->note != nullptr; };
  for (const std::shared_ptr<EventState>& event : timeline.waits) {
    if (is_known(event)) join(timeline.clock, *recorded_after(*event));
  }
  std::erase_if(timeline.waits, is_known);
}

Timeline& timeline_of(const Queue& queue) {
  State& all = state();
  all.threads.insert(std::this_thread::get_id());
  Timeline& timeline = all.timelines.at(&queue);
  resolve_waits(timeline);
  return timeline;
}

void join_host(State& all, Clock clock) noexcept {
  join(all.host, std::move(clock));
  std::erase_if(all.accesses, [&](const Access& access) {
    if (!has_done(all.host, access.stream, access.task)) return false;
    if (access.copies_to_host) allow_host_access(access.region.start, access.region.end());
    return true;
  });
  finish_host_copies([&](Task task) { return has_done(all.host, task.stream, task.number); });
}

std::string text_of(const Access& access) {
  return fmt::format("{} ({}, {} bytes), queued on {} at {}", access.what,
                     static_cast<const void*>(access.region.start), access.region.bytes_spanned(),
                     access.stream_name, access.place.text());
}

void report_conflict(const Call& call, const Use& use, const std::string& stream_name,
                     const Access& earlier) {
  const std::string later =
      fmt::format("{}.{} ({}, {} bytes)", call.function, use.parameter,
                  static_cast<const void*>(use.region.start), use.region.bytes_spanned());
  const char* uses = use.writes ? "writes" : "reads";
  const char* used = earlier.writes ? "writes" : "reads";
  if (call.queue != nullptr) {
    report("race", fmt::format("{} on {} {} memory that {} {}, and no event orders the two. Called at {}",
                               later, stream_name, uses, text_of(earlier), used, Place::here().text()));
  } else {
    report(use.writes ? "overwrite-while-queued" : "read-before-synchronize",
           fmt::format("{} {} memory that {} {}, and nothing has synchronised since. Called at {}", later,
                       uses, text_of(earlier), used, Place::here().text()));
  }
}

// The same use by a later task of the same stream stands for the earlier one.
void remember(State& all, Access access) {
  const auto is_same = [&](const Access& other) {
    return other.stream == access.stream && other.writes == access.writes && other.what == access.what &&
           other.region.start == access.region.start && other.region.end() == access.region.end() &&
           other.is_unordered == access.is_unordered;
  };
  const auto earlier = std::find_if(all.accesses.begin(), all.accesses.end(), is_same);
  if (earlier == all.accesses.end()) {
    all.accesses.push_back(std::move(access));
  } else {
    *earlier = std::move(access);
  }
}

void report_dropped(const Call& call, const Use& use, const Access& dropped) {
  report("dropped-work",
         fmt::format("{}.{} ({}, {} bytes) reads memory that {} was to write, but its stream was destroyed "
                     "by force before anything synchronised with it. Called at {}",
                     call.function, use.parameter, static_cast<const void*>(use.region.start),
                     use.region.bytes_spanned(), text_of(dropped), Place::here().text()));
}

// Work that was dropped leaves what it was to write without contents, until something else writes it.
void check_dropped(State& all, const Call& call) {
  std::erase_if(all.dropped, [&](const Access& dropped) {
    const auto use = std::find_if(call.uses.begin(), call.uses.end(),
                                  [&](const Use& u) { return overlap(u.region, dropped.region); });
    if (use == call.uses.end()) return false;
    if (!use->writes) as_far_as_memory_goes([&] { report_dropped(call, *use, dropped); });
    return true;
  });
}

void report_release(std::string_view function, const Region& memory, const Access& access) {
  report("free-while-queued",
         fmt::format("{} frees {} ({} bytes), which {} {}, and nothing has synchronised since. Called at {}",
                     function, static_cast<const void*>(memory.start), memory.bytes_spanned(),
                     text_of(access), access.writes ? "writes" : "reads", Place::here().text()));
}

void report_unfinished(const Access& access) {
  stop_watching({access.stream, access.task});
  report("unsynchronized-copy",
         fmt::format("{} copies to the host, and nothing synchronised with it before its stream ended",
                     text_of(access)),
         access.place);
}

}  // namespace

void stream_begins(const Queue& queue, const void* handle, int device_id) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  const int number = ++all.streams;
  Timeline timeline{number, fmt::format("stream {}", handle), device_id};
  timeline.clock.tasks[number] = 0;
  all.timelines.insert_or_assign(&queue, std::move(timeline));
}

void report_unfinished_copies(const Queue& queue) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  const int stream = timeline_of(queue).number;
  for (const Access& access : all.accesses) {
    if (access.copies_to_host && access.stream == stream) report_unfinished(access);
  }
}

void report_unfinished_copies() {
  State& all = state();
  std::lock_guard lock(all.mutex);
  for (const Access& access : all.accesses) {
    if (access.copies_to_host) report_unfinished(access);
  }
}

void stream_ended(const Queue& queue) noexcept {
  State& all = state();
  std::lock_guard lock(all.mutex);
  const auto ended = all.timelines.find(&queue);
  as_far_as_memory_goes([&] { resolve_waits(ended->second); });
  const int number = ended->second.number;
  join_host(all, std::move(ended->second.clock));
  all.timelines.erase(ended);
  // Its work is over for whatever comes: clocks need not name it for the rest of the program.
  all.host.tasks.erase(number);
  for (auto& [other, timeline] : all.timelines) timeline.clock.tasks.erase(number);
}

void stream_dropped(const Queue& queue) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  const int stream = timeline_of(queue).number;
  for (const Access& access : all.accesses) {
    const bool is_left_undone = access.stream == stream && access.writes;
    if (is_left_undone) all.dropped.push_back(access);
  }
}

int device_of(const Queue& queue) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  return timeline_of(queue).device_id;
}

Clock clock_of(const Queue& queue) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  return timeline_of(queue).clock;
}

void check_hang(const Queue& queue) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  Timeline& timeline = timeline_of(queue);
  const bool another_thread_may_record_it = all.threads.size() > 1;
  if (timeline.waits.empty() || another_thread_may_record_it) return;
  if (!std::exchange(timeline.hang_reported, true)) {
    report_refusal("event-unrecorded",
                   fmt::format("the host waits for {}, which waits for an event that was never recorded. "
                               "Called at {}",
                               timeline.name, Place::here().text()));
  }
  throw Error(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "The stream waits for an event that was never recorded.");
}

CallbackTurn callback_queued(const Queue& queue, bool holds_stream_up) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  Timeline& timeline = timeline_of(queue);
  Clock after = timeline.clock;
  const uint64_t task = ++timeline.clock.tasks.at(timeline.number);
  return {std::move(after), holds_stream_up, {timeline.number, task}, timeline.name, Place::here()};
}

RunningCallback::RunningCallback(CallbackTurn& running_turn) noexcept
    : turn(running_turn), outer(innermost_callback) {
  host_reached(std::move(running_turn.after));
  innermost_callback = this;
}

RunningCallback::~RunningCallback() {
  innermost_callback = outer;
}

void check_wait_in_callback(const Clock& awaited, Status status) {
  for (const RunningCallback* callback = innermost_callback; callback != nullptr;
       callback = callback->outer) {
    const CallbackTurn& turn = callback->turn;
    if (!turn.holds_stream_up || !has_done(awaited, turn.task.stream, turn.task.number)) continue;
    report_refusal(
        "callback-waits",
        fmt::format("a callback waits for work that comes after it: {}, on which it was queued at {}, waits "
                    "until it has returned. Called at {}",
                    turn.stream_name, turn.queued.text(), Place::here().text()));
    throw Error(status, "The callback that waits holds up what it waits for.");
  }
}

void check_wait_in_callback(const EventState& awaited) {
  if (innermost_callback == nullptr) return;
  std::unique_lock lock(state().mutex);
  const std::shared_ptr<const Clock> before = recorded_after(awaited);
  lock.unlock();
  if (before != nullptr) check_wait_in_callback(*before, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
}

bool waits_for_unrecorded_event(const Queue& queue) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  return !timeline_of(queue).waits.empty();
}

void host_reached(Clock clock) noexcept {
  State& all = state();
  {
    std::lock_guard lock(all.mutex);
    join_host(all, std::move(clock));
  }
  as_far_as_memory_goes(report_damaged_guards);
}

void event_recorded(EventState& event, const Queue& queue) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  Clock clock = timeline_of(queue).clock;
  join(clock, all.host);
  event.note = std::make_shared<const Clock>(std::move(clock));
}

void event_not_recorded(EventState& event) noexcept {
  std::lock_guard lock(state().mutex);
  event.note = nullptr;
}

void event_reached(const EventState& event) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  all.threads.insert(std::this_thread::get_id());
  if (event.note != nullptr) join_host(all, *recorded_after(event));
}

void event_awaited(const std::shared_ptr<EventState>& event, const Queue& queue) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  Timeline& timeline = timeline_of(queue);
  timeline.waits.push_back(event);
  resolve_waits(timeline);
}

void check_order(const Call& call) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  Timeline* timeline = call.queue == nullptr ? nullptr : &timeline_of(*call.queue);
  if (timeline != nullptr) join(timeline->clock, all.host);
  const Clock& before = timeline == nullptr ? all.host : timeline->clock;
  const bool is_unordered = timeline != nullptr && !timeline->waits.empty();
  check_dropped(all, call);
  for (const Use& use : call.uses) {
    for (const Access& earlier : all.accesses) {
      const bool order_is_known = timeline == nullptr || !(is_unordered || earlier.is_unordered);
      if (!order_is_known || has_done(before, earlier.stream, earlier.task)) continue;
      const bool conflicts = (use.writes || earlier.writes) && overlap(use.region, earlier.region);
      if (conflicts) report_conflict(call, use, timeline == nullptr ? "" : timeline->name, earlier);
    }
  }
  if (timeline == nullptr) return;
  const uint64_t task = ++timeline->clock.tasks.at(timeline->number);
  newest = {timeline->number, task};
  for (const Use& use : call.uses) {
    if (use.region.empty()) continue;
    const bool to_host = use.writes && use.side == Side::host;
    remember(all, {fmt::format("{}.{}", call.function, use.parameter), use.region, use.writes, to_host,
                   timeline->number, timeline->name, task, is_unordered, Place::here()});
  }
}

void expect_work() {
  newest = {};
}

void forget_refused() {
  State& all = state();
  std::lock_guard lock(all.mutex);
  const auto is_refused = [](const auto& work) {
    return work.stream == newest.stream && work.task == newest.number;
  };
  for (const Access& access : all.accesses) {
    if (is_refused(access) && access.copies_to_host)
      allow_host_access(access.region.start, access.region.end());
  }
  std::erase_if(all.accesses, is_refused);
  forget_host_copies(newest);
}

void check_host_order(const std::byte* byte, std::string_view use, const Place& place) {
  State& all = state();
  std::lock_guard lock(all.mutex);
  for (Access& access : all.accesses) {
    if (!access.copies_to_host || !access.region.touches(byte, byte + 1)) continue;
    const bool is_write = use == "writes";
    report(is_write ? "overwrite-while-queued" : "read-before-synchronize",
           fmt::format(
               "the host {} {} through a pointer, which {} writes, and nothing has synchronised since. At {}",
               use, static_cast<const void*>(byte), text_of(access), place.text()),
           place);
    access.copies_to_host = false;  // that nothing has synchronised was said
  }
}

bool check_release_order(std::string_view function, const Region& memory) noexcept {
  State& all = state();
  std::lock_guard lock(all.mutex);
  std::erase_if(all.dropped, [&](const Access& access) { return overlap(memory, access.region); });
  bool found = false;
  std::erase_if(all.accesses, [&](const Access& access) {
    if (!overlap(memory, access.region)) return false;
    if (!std::exchange(found, true)) {
      as_far_as_memory_goes([&] { report_release(function, memory, access); });
    }
    return true;
  });
  return found;
}

Task newest_task() {
  return newest;
}

void act_on_order_lock(LockAction action) {
  action(state().mutex);
}

}  // namespace aclgrad::check
