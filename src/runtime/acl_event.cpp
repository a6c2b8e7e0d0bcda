// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Events at the C interface.
#include <mutex>
#include <utility>

#include "acl/acl_rt.h"
#include "base/never_destroyed.h"
#include "runtime/entry.h"
#include "runtime/fork.h"
#include "runtime/handle_table.h"
#include "runtime/observer.h"
#include "runtime/stream.h"

namespace aclgrad {
namespace {

// Each recording makes a mark of its own, so that who waits for an earlier one is not held up by a later one.
// The first mark exists before it is recorded: a stream may wait for it beforehand.
struct Event {
  std::mutex mutex;  // never held while a queue is called, which may block
  std::shared_ptr<EventState> mark;
  std::shared_ptr<EventWaits> waits = std::make_shared<EventWaits>();
  bool taken = false;  // the mark, by a recording, be it complete or not
  bool recorded = false;
  bool timed = false;
};

constexpr Singleton<HandleTable<Event>> events{};

std::shared_ptr<Event> find_event(Parameter parameter, aclrtEvent handle) {
  require_pointer(handle, parameter);
  std::shared_ptr<Event> event = events().find(handle);
  if (observer != nullptr && event == nullptr)
    observer->dead_handle_passed(parameter.function, "aclrtEvent", handle);
  require(event != nullptr, ACL_ERROR_RT_INVALID_HANDLE, parameter, "a live aclrtEvent", handle);
  return event;
}

std::shared_ptr<EventState> new_mark(const Event& event) {
  std::shared_ptr<EventState> mark = current_context()->device->make_event_state();
  mark->waits_of_event = event.waits;
  return mark;
}

struct Mark {
  std::shared_ptr<EventState> state;
  bool recorded;
};

Mark mark_of(Parameter parameter, aclrtEvent handle) {
  const std::shared_ptr<Event> event = find_event(parameter, handle);
  std::lock_guard lock(event->mutex);
  return {event->mark, event->recorded};
}

std::shared_ptr<EventState> mark_to_record(Event& event) {
  std::lock_guard lock(event.mutex);
  if (!std::exchange(event.taken, true)) return event.mark;
  return new_mark(event);
}

// An event whose first recording has failed is as it was before.
void give_back(Event& event, const std::shared_ptr<EventState>& mark) {
  std::lock_guard lock(event.mutex);
  if (event.mark == mark) event.taken = false;
}

bool is_reached(Parameter parameter, aclrtEvent handle) {
  const std::shared_ptr<EventState> mark = mark_of(parameter, handle).state;
  const bool reached = mark->reached();
  if (reached) runtime_observer->event_reached(*mark);
  return reached;
}

aclrtEvent create_event(bool timed) {
  auto event = std::make_shared<Event>();
  event->mark = new_mark(*event);
  event->timed = timed;
  void* handle = new_handle();
  if (observer != nullptr) observer->handle_made(handle, "aclrtEvent");
  events().add(handle, std::move(event));
  return handle;
}

aclError create_event_with_flag(std::string_view function, aclrtEvent* event, uint32_t flag) {
  return entry(function, [&] {
    require_pointer(event, {function, "event"});
    constexpr uint32_t kSupported = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE;
    constexpr uint32_t kKnown = kSupported | ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;
    require((flag & ~kKnown) == 0, ACL_ERROR_RT_PARAM_INVALID, {function, "flag"},
            "a sum of ACL_EVENT_ flags", flag);
    if ((flag & ~kSupported) != 0) throw not_supported(fmt::format("{}.flag {}", function, flag));
    *event = create_event((flag & ACL_EVENT_TIME_LINE) != 0);
  });
}

// An event that was never recorded would be waited for without end.
void synchronize(Parameter parameter, aclrtEvent event, Deadline deadline, int32_t timeout) {
  const Mark mark = mark_of(parameter, event);
  require(mark.recorded, ACL_ERROR_RT_INTERNAL_ERROR, parameter, "a recorded event",
          "one that was not recorded");
  if (!deadline) runtime_observer->event_wait_begins(*mark.state);
  const bool reached = mark.state->wait(deadline);
  if (reached) runtime_observer->event_reached(*mark.state);
  if (reached) return;
  throw Error(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
              fmt::format("The event was not reached after {} milliseconds.", timeout),
              "The work before the event takes longer than the time-out, or waits for another event.",
              "Wait longer, or -1 for ever.");
}

std::shared_ptr<EventState> timed_mark(Parameter parameter, aclrtEvent handle) {
  const std::shared_ptr<Event> event = find_event(parameter, handle);
  std::lock_guard lock(event->mutex);
  require(event->recorded, ACL_ERROR_RT_INTERNAL_ERROR, parameter, "a recorded event",
          "one that was not recorded");
  require(event->timed, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, parameter, "an event with ACL_EVENT_TIME_LINE",
          "one without");
  require(event->mark->reached(), ACL_ERROR_RT_EVENT_NOT_COMPLETE, parameter, "a completed event",
          "one that is not reached yet");
  return event->mark;
}

}  // namespace

void act_on_event_table_locks(LockAction action) {
  events().act_on_locks(action);
}

void act_on_event_locks(LockAction action) {
  events().for_each_while_locked([action](Event& event) { action(event.mutex); });
}

void continue_events_in_child() {
  events().for_each_while_locked([](Event& event) {
    if (event.recorded) event.mark->continue_in_child();
    event.mark->queued_waits = 0;
    event.waits->continue_in_child();
  });
}

}  // namespace aclgrad

using namespace aclgrad;

aclError aclrtCreateEvent(aclrtEvent* event) {
  return entry(__func__, [&] {
    require_pointer(event, {"aclrtCreateEvent", "event"});
    *event = create_event(true);
  });
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return create_event_with_flag("aclrtCreateEventWithFlag", event, flag);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  return create_event_with_flag("aclrtCreateEventExWithFlag", event, flag);
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  return entry(__func__, [&] {
    const Mark mark = mark_of({"aclrtDestroyEvent", "event"}, event);
    // Without its handle nobody could record it any more.
    require(mark.recorded || mark.state->queued_waits == 0, ACL_ERROR_RT_PARAM_INVALID,
            {"aclrtDestroyEvent", "event"}, "an event that no stream waits for, or a recorded one",
            "an unrecorded one that a stream waits for");
    require(events().remove(event) != nullptr, ACL_ERROR_RT_INVALID_HANDLE, {"aclrtDestroyEvent", "event"},
            "a live aclrtEvent", event);
    if (observer != nullptr) observer->handle_destroyed(event, nullptr);
  });
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return entry(__func__, [&] {
    const std::shared_ptr<Event> found = find_event({"aclrtRecordEvent", "event"}, event);
    const std::shared_ptr<Queue> queue = queue_of_stream("aclrtRecordEvent", stream);
    std::shared_ptr<EventState> mark = mark_to_record(*found);
    runtime_observer->event_recorded(*mark, *queue);
    try {
      queue->record(mark);
    } catch (...) {
      runtime_observer->event_not_recorded(*mark);
      give_back(*found, mark);
      throw;
    }
    std::lock_guard lock(found->mutex);
    found->taken = true;  // though it may have been reset meanwhile
    found->mark = std::move(mark);
    found->recorded = true;
  });
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  return entry(__func__, [&] {
    const std::shared_ptr<Event> found = find_event({"aclrtResetEvent", "event"}, event);
    queue_of_stream("aclrtResetEvent", stream);
    std::lock_guard lock(found->mutex);
    if (!found->recorded) return;
    // Waits that are queued already keep the old mark, so there is nothing to queue.
    found->mark = new_mark(*found);
    found->taken = found->recorded = false;
  });
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return entry(__func__, [&] {
    const Mark mark = mark_of({"aclrtStreamWaitEvent", "event"}, event);
    const std::shared_ptr<Queue> queue = queue_of_stream("aclrtStreamWaitEvent", stream);
    queue->wait(mark.state);
    // Only now: a wait that has failed is none.
    runtime_observer->event_awaited(mark.state, *queue);
  });
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  return entry(__func__, [&] {
    require_pointer(status, {"aclrtQueryEvent", "status"});
    *status = is_reached({"aclrtQueryEvent", "event"}, event) ? ACL_EVENT_STATUS_COMPLETE
                                                              : ACL_EVENT_STATUS_NOT_READY;
  });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  return entry(__func__, [&] {
    require_pointer(status, {"aclrtQueryEventStatus", "status"});
    *status = is_reached({"aclrtQueryEventStatus", "event"}, event) ? ACL_EVENT_RECORDED_STATUS_COMPLETE
                                                                    : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  });
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  return entry(__func__, [&] {
    require_pointer(status, {"aclrtQueryEventWaitStatus", "status"});
    const std::shared_ptr<EventState> mark = mark_of({"aclrtQueryEventWaitStatus", "event"}, event).state;
    const bool complete = mark->waits_of_event->are_over();
    if (complete && mark->reached()) runtime_observer->event_waits_ended(*mark);
    *status = complete ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  });
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return entry(__func__, [&] { synchronize({"aclrtSynchronizeEvent", "event"}, event, std::nullopt, -1); });
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  return entry(__func__, [&] {
    const Deadline deadline =
        deadline_after(timeout, ACL_ERROR_RT_PARAM_INVALID, {"aclrtSynchronizeEventWithTimeout", "timeout"});
    synchronize({"aclrtSynchronizeEventWithTimeout", "event"}, event, deadline, timeout);
  });
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  return entry(__func__, [&] {
    require_pointer(ms, {"aclrtEventElapsedTime", "ms"});
    const auto start = timed_mark({"aclrtEventElapsedTime", "startEvent"}, startEvent);
    const auto end = timed_mark({"aclrtEventElapsedTime", "endEvent"}, endEvent);
    const double milliseconds = end->milliseconds_since(*start);
    require(milliseconds >= 0, ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, {"aclrtEventElapsedTime", "endEvent"},
            "an event that was reached after startEvent", "one that was reached before it");
    runtime_observer->event_reached(*start);
    runtime_observer->event_reached(*end);
    *ms = static_cast<float>(milliseconds);
  });
}
