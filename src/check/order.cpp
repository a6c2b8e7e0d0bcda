// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/order.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "acl/acl_base.h"
#include "base/error.h"
#include "base/never_destroyed.h"
#include "check/check.h"
#include "check/checker.h"
#include "check/host_copies.h"
#include "check/memory.h"
#include "check/views.h"

namespace aclgrad::check {
namespace {

struct Timeline {
  int number;
  std::string name;
  int device_id;
  Clock clock = {};  // what the next task comes after, and its own tasks
  bool hang_reported = false;
  bool is_dropped = false;  // what it waited for may not be over when it ends
};

// One use of memory by queued work.
struct Access {
  std::string what;  // "aclrtMemcpyAsync.dst"
  Region region;
  bool writes;
  bool copies_to_host;
  Task task;
  std::string stream_name;
  // Its stream's where that is open; else empty, since nothing that is queued later can come before it.
  Clock before;
  CallStack place;

  bool waits_for_event() const { return !before.waits.empty(); }
};

// Two that may not happen in any order. One of them at least waits for an event that is not recorded, so that
// they may be ordered yet.
struct Meeting {
  Access earlier;  // queued earlier
  Access later;

  bool waits_for_event() const { return earlier.waits_for_event() || later.waits_for_event(); }
};

// The note of an event's mark.
struct Mark {
  std::optional<Clock> before;   // once it is recorded
  std::optional<Clock> waiting;  // before the waits for it, if there are any
};

struct State {
  int streams = 0;
  std::map<const Queue*, Timeline> timelines;
  Clock host;
  std::vector<Access> accesses;  // that the host does not know to be over
  std::vector<Access> dropped;   // writes that may never happen
  std::vector<Meeting> undecided;
  std::set<std::thread::id> threads;
  bool has_callbacks = false;
  std::vector<Task> callbacks;  // that hold up their streams, and have not returned
};

thread_local Task newest{};

constexpr Singleton<State> state{};

// Needs no memory but for its arguments.
void join(Clock& clock, std::map<int, uint64_t> other) noexcept {
  for (auto& [stream, tasks] : clock.tasks) {
    const auto found = other.find(stream);
    if (found != other.end()) tasks = std::max(tasks, found->second);
  }
  clock.tasks.merge(other);
}

Mark& mark_of(EventState& event) {
  if (event.note == nullptr) event.note = std::make_shared<Mark>();
  return *static_cast<Mark*>(event.note.get());
}

// Null where there is none yet.
const Clock* recorded_after(const EventState& event) {
  const auto* mark = static_cast<const Mark*>(event.note.get());
  return mark != nullptr && mark->before ? &*mark->before : nullptr;
}

// Learns of the events that were recorded since the clock was taken, and of those that their streams waited
// for.
void resolve(Clock& clock) {
  const auto is_recorded = [](const auto& event) { return recorded_after(*event) != nullptr; };
  if (std::none_of(clock.waits.begin(), clock.waits.end(), is_recorded)) return;
  Clock resolved{clock.tasks};
  std::vector<std::shared_ptr<EventState>> open = clock.waits;
  std::set<const EventState*> seen;
  while (!open.empty()) {
    const std::shared_ptr<EventState> event = std::move(open.back());
    open.pop_back();
    if (!seen.insert(event.get()).second) continue;
    if (const Clock* before = recorded_after(*event)) {
      join(resolved, before->tasks);
      open.insert(open.end(), before->waits.begin(), before->waits.end());
    } else {
      resolved.waits.push_back(event);
    }
  }
  clock = std::move(resolved);
}

// Null where another thread has ended the stream.
Timeline* timeline_of(const Queue& queue) {
  state().threads.insert(std::this_thread::get_id());
  const auto found = state().timelines.find(&queue);
  if (found == state().timelines.end()) return nullptr;
  resolve(found->second.clock);
  return &found->second;
}

bool comes_after_callback(const Clock& clock) {
  return std::any_of(state().callbacks.begin(), state().callbacks.end(),
                     [&](Task callback) { return has_done(clock, callback); });
}

// Events that are not recorded by then were given up with the work that waited for them.
void join_host(Clock clock) noexcept {
  join(state().host, std::move(clock.tasks));
  // A callback that has not returned by then was given up.
  std::erase_if(state().callbacks, [](Task callback) { return has_done(state().host, callback); });
  std::erase_if(state().accesses, [&](const Access& access) {
    if (!has_done(state().host, access.task)) return false;
    if (access.copies_to_host) allow_host_access(access.region.start, access.region.end());
    return true;
  });
  // The other one's event will be recorded later than now.
  std::erase_if(state().undecided, [&](const Meeting& meeting) {
    return has_done(state().host, meeting.earlier.task) || has_done(state().host, meeting.later.task);
  });
  finish_host_copies([&](Task task) { return has_done(state().host, task); });
}

std::string text_of(const Access& access) {
  return fmt::format("{}, queued on {} at {}", check::text_of(access.what, access.region), access.stream_name,
                     access.place.text());
}

const char* verb_of(bool writes) {
  return writes ? "writes" : "reads";
}

void report_race(const Meeting& meeting) {
  const auto& [earlier, later] = meeting;
  report("race", later.place, "{} on {} {} memory that {} {}, and no event orders the two. Called at {}",
         check::text_of(later.what, later.region), later.stream_name, verb_of(later.writes), text_of(earlier),
         verb_of(earlier.writes), later.place.text());
}

void report_unsynchronized(const Call& call, const Use& use, const Access& earlier) {
  report_call(use.writes ? "overwrite-while-queued" : "read-before-synchronize",
              "{} {} memory that {} {}, and nothing has synchronised since.", text_of(call, use),
              verb_of(use.writes), text_of(earlier), verb_of(earlier.writes));
}

template <class User>
bool conflict(const User& user, const Access& earlier) {
  return (user.writes || earlier.writes) && overlap(user.region, earlier.region);
}

// What is done when the call returns. It comes before what waits for an event, which is recorded later, and
// before what waits for the callback that makes the call.
void check_blocking_call(const Call& call) {
  for (const Use& use : call.uses) {
    for (const Access& earlier : state().accesses) {
      const bool comes_later = earlier.waits_for_event() || waits_for_running_callback(earlier.before);
      const bool is_ordered = comes_later || has_done(state().host, earlier.task);
      if (!is_ordered && conflict(use, earlier)) report_unsynchronized(call, use, earlier);
    }
  }
}

// `clock` is that of the access's stream. What a callback queues is taken to be over when the callback returns.
void check_access(const Clock& clock, const Access& access) {
  constexpr size_t kMaxUndecided = 10000;
  for (const Access& earlier : state().accesses) {
    if (has_done(clock, earlier.task) || waits_for_running_callback(earlier.before)) continue;
    if (!conflict(access, earlier)) continue;
    Meeting meeting{earlier, access};
    if (!meeting.waits_for_event()) {
      report_race(meeting);
    } else if (state().undecided.size() < kMaxUndecided) {
      state().undecided.push_back(std::move(meeting));
    }
  }
}

// An event was recorded.
void decide() {
  for (Access& access : state().accesses) resolve(access.before);
  std::erase_if(state().undecided, [](Meeting& meeting) {
    auto& [earlier, later] = meeting;
    resolve(earlier.before);
    resolve(later.before);
    if (has_done(later.before, earlier.task) || has_done(earlier.before, later.task)) return true;
    if (meeting.waits_for_event()) return false;
    report_race(meeting);
    return true;
  });
}

// The same use by a later task of the same stream stands for the earlier one.
void remember(Access access) {
  const auto is_same = [&](const Access& other) {
    return other.task.stream == access.task.stream && other.writes == access.writes &&
           other.what == access.what && other.region == access.region &&
           other.before.waits == access.before.waits;
  };
  const auto earlier = std::find_if(state().accesses.begin(), state().accesses.end(), is_same);
  if (earlier == state().accesses.end()) {
    state().accesses.push_back(std::move(access));
  } else {
    *earlier = std::move(access);
  }
}

void report_dropped(const Call& call, const Use& use, const Access& dropped) {
  report_call("dropped-work",
              "{} reads memory that {} was to write, but its stream was destroyed by force before anything "
              "synchronised with it.",
              text_of(call, use), text_of(dropped));
}

// Work that was dropped leaves what it was to write without contents, until something else writes it.
void check_dropped(const Call& call) {
  std::erase_if(state().dropped, [&](const Access& dropped) {
    const auto use = std::find_if(call.uses.begin(), call.uses.end(),
                                  [&](const Use& u) { return overlap(u.region, dropped.region); });
    if (use == call.uses.end()) return false;
    if (!use->writes) as_far_as_memory_goes([&] { report_dropped(call, *use, dropped); });
    return true;
  });
}

void report_release(std::string_view function, const Region& memory, const Access& access) {
  report_call("free-while-queued", "{} frees {} ({} bytes), which {} {}, and nothing has synchronised since.",
              function, static_cast<const void*>(memory.start), memory.bytes_spanned(), text_of(access),
              verb_of(access.writes));
}

// The queued work with which the host has not synchronised is dropped, and with it what it was to write.
void note_dropped_work(int stream) {
  for (const Access& access : state().accesses) {
    const bool is_left_undone = access.task.stream == stream && access.writes;
    if (is_left_undone) state().dropped.push_back(access);
  }
  std::erase_if(state().undecided, [&](const Meeting& meeting) {
    return meeting.earlier.task.stream == stream || meeting.later.task.stream == stream;
  });
}

// The host has learned that the event was reached.
void host_learned_of(const EventState& event) {
  state().threads.insert(std::this_thread::get_id());
  if (std::optional<Clock> before = clock_before(event)) join_host(*std::move(before));
}

}  // namespace

bool has_done(const Clock& clock, Task task) {
  const auto found = clock.tasks.find(task.stream);
  return found != clock.tasks.end() && found->second >= task.number;
}

void Checker::stream_made(const Queue& queue, const void* handle, int device_id) {
  std::lock_guard lock(calls_mutex);
  const int number = ++state().streams;
  Timeline timeline{number, fmt::format("stream {}", handle), device_id};
  timeline.clock.tasks[number] = 0;
  state().timelines.insert_or_assign(&queue, std::move(timeline));
}

void report_unfinished_copies(std::optional<int> stream) {
  for (const Access& access : state().accesses) {
    if (!access.copies_to_host || (stream && access.task.stream != *stream)) continue;
    report("unsynchronized-copy", access.place,
           "{} copies to the host, and nothing synchronised with it before its stream ended",
           text_of(access));
  }
}

void Checker::stream_ends(const Queue& queue, StreamEnd end) noexcept {
  std::lock_guard lock(calls_mutex);
  const auto found = state().timelines.find(&queue);
  if (found == state().timelines.end()) return;
  Timeline& timeline = found->second;
  timeline.is_dropped = end == StreamEnd::drop;
  if (timeline.is_dropped) forget_open_reads(queue);
  as_far_as_memory_goes([&] {
    report_unfinished_copies(timeline.number);
    if (timeline.is_dropped) note_dropped_work(timeline.number);
  });
}

void Checker::stream_ended(const Queue& queue) noexcept {
  std::lock_guard lock(calls_mutex);
  const auto ended = state().timelines.find(&queue);
  Clock& clock = ended->second.clock;
  const int number = ended->second.number;
  if (ended->second.is_dropped) {
    std::erase_if(clock.tasks, [&](const auto& tasks) { return tasks.first != number; });
  } else {
    as_far_as_memory_goes([&] { resolve(clock); });
  }
  join_host(std::move(clock));
  state().timelines.erase(ended);
  // Its work is over for whatever comes: clocks need not name it for the rest of the program.
  state().host.tasks.erase(number);
  for (auto& [other, timeline] : state().timelines) timeline.clock.tasks.erase(number);
}

std::optional<int> device_of(const Queue& queue) {
  const Timeline* timeline = timeline_of(queue);
  return timeline != nullptr ? std::optional(timeline->device_id) : std::nullopt;
}

Clock clock_of(const Queue& queue) {
  const Timeline* timeline = timeline_of(queue);
  return timeline != nullptr ? timeline->clock : Clock{};
}

void check_hang(const Queue& queue) {
  Timeline* timeline = timeline_of(queue);
  if (timeline == nullptr || timeline->clock.waits.empty()) return;
  const bool another_thread_may_record_it = state().threads.size() > 1 || state().has_callbacks;
  if (another_thread_may_record_it) return;
  if (!std::exchange(timeline->hang_reported, true)) {
    report_refusal("event-unrecorded",
                   "the host waits for {}, which waits for an event that was never recorded.",
                   timeline->name);
  }
  throw Error(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "The stream waits for an event that was never recorded.");
}

Note Checker::callback_queued(const Queue& queue, bool holds_stream_up) {
  std::lock_guard lock(calls_mutex);
  auto turn = std::make_shared<CallbackTurn>();
  Timeline* timeline = timeline_of(queue);
  if (timeline == nullptr) return turn;  // the queue refuses the callback
  state().has_callbacks = true;
  Clock after = timeline->clock;
  const uint64_t task = ++timeline->clock.tasks.at(timeline->number);
  *turn = {std::move(after), holds_stream_up, {timeline->number, task}, timeline->name, CallStack::here()};
  if (holds_stream_up) state().callbacks.push_back(turn->task);
  return turn;
}

void callback_returned(const CallbackTurn& turn) {
  std::erase(state().callbacks, turn.task);
  as_far_as_memory_goes(check_open_reads);
}

std::optional<Clock> clock_before(const EventState& event) {
  const Clock* recorded = recorded_after(event);
  if (recorded == nullptr) return std::nullopt;
  Clock before = *recorded;
  resolve(before);
  return before;
}

bool is_open(Clock& clock) {
  resolve(clock);
  return !clock.waits.empty() || comes_after_callback(clock);
}

bool is_open(const Queue& queue) {
  Timeline* timeline = timeline_of(queue);
  return timeline != nullptr && is_open(timeline->clock);
}

void host_reached(Clock clock) {
  resolve(clock);
  join_host(std::move(clock));
  as_far_as_memory_goes(check_open_reads);
  as_far_as_memory_goes(report_damaged_guards);
}

void Checker::event_recorded(EventState& event, const Queue& queue) {
  std::lock_guard lock(calls_mutex);
  Clock clock = clock_of(queue);
  join(clock, state().host.tasks);
  mark_of(event).before = std::move(clock);
  as_far_as_memory_goes(decide);
  as_far_as_memory_goes(check_open_reads);
}

void Checker::event_not_recorded(EventState& event) noexcept {
  std::lock_guard lock(calls_mutex);
  if (event.note != nullptr) static_cast<Mark*>(event.note.get())->before.reset();
}

void Checker::event_awaited(const std::shared_ptr<EventState>& event, const Queue& queue) noexcept {
  std::lock_guard lock(calls_mutex);
  as_far_as_memory_goes([&] {
    Timeline* timeline = timeline_of(queue);
    if (timeline == nullptr) return;
    Mark& mark = mark_of(*event);
    if (!mark.waiting) mark.waiting.emplace();
    join(*mark.waiting, timeline->clock.tasks);
    timeline->clock.waits.push_back(event);
    resolve(timeline->clock);
  });
}

void Checker::event_reached(const EventState& event) {
  std::lock_guard lock(calls_mutex);
  host_learned_of(event);
}

void Checker::event_waits_ended(const EventState& event) {
  std::lock_guard lock(calls_mutex);
  const auto* mark = static_cast<const Mark*>(event.note.get());
  if (mark == nullptr || !mark->waiting) return;  // that no wait is left says nothing where there was none
  Clock waiting = *mark->waiting;
  host_learned_of(event);
  host_reached(std::move(waiting));
}

void check_order(const Call& call) {
  check_dropped(call);
  if (call.queue == nullptr) return check_blocking_call(call);
  Timeline* timeline = timeline_of(*call.queue);
  if (timeline == nullptr) return;  // the queue refuses the work
  Clock& clock = timeline->clock;
  join(clock, state().host.tasks);
  newest = {timeline->number, ++clock.tasks.at(timeline->number)};
  const Clock before = is_open(clock) ? clock : Clock{};
  std::vector<Access> accesses;
  for (const Use& use : call.uses) {
    if (use.region.empty()) continue;
    const bool to_host = use.writes && use.side == Side::host;
    accesses.push_back({fmt::format("{}.{}", call.function, use.parameter), use.region, use.writes, to_host,
                        newest, timeline->name, before, CallStack::here()});
  }
  for (const Access& access : accesses) check_access(clock, access);
  for (Access& access : accesses) remember(std::move(access));
}

void Checker::submission_begins() {
  newest = {};
}

void Checker::submission_failed() {
  std::lock_guard lock(calls_mutex);
  const auto is_refused = [](const Access& access) { return access.task == newest; };
  for (const Access& access : state().accesses) {
    if (is_refused(access) && access.copies_to_host)
      allow_host_access(access.region.start, access.region.end());
  }
  std::erase_if(state().accesses, is_refused);
  std::erase_if(state().undecided, [&](const Meeting& meeting) { return is_refused(meeting.later); });
  forget_host_copies(newest);
}

void check_host_order(const std::byte* byte, HostUse use, const CallStack& place) {
  for (Access& access : state().accesses) {
    if (!access.copies_to_host || !access.region.touches(byte, byte + 1)) continue;
    report(use == HostUse::writes ? "overwrite-while-queued" : "read-before-synchronize", place,
           "the host {} {} through a pointer, which {} writes, and nothing has synchronised since. At {}",
           verb_of(use), static_cast<const void*>(byte), text_of(access), place.text());
    access.copies_to_host = false;  // that nothing has synchronised was said
  }
}

bool check_release_order(std::string_view function, const Region& memory) noexcept {
  std::erase_if(state().dropped, [&](const Access& access) { return overlap(memory, access.region); });
  bool found = false;
  std::erase_if(state().accesses, [&](const Access& access) {
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

}  // namespace aclgrad::check
