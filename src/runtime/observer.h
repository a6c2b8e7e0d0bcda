// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What one observer may see of the runtime, and what it may do in its place (base/observer.h).
#pragma once

#include <memory>
#include <string_view>

#include "acl/acl_rt.h"
#include "base/fork.h"
#include "base/observer.h"
#include "runtime/device.h"

namespace aclgrad {

enum class StreamEnd { finish, drop };

// What the observer wants to know of a thing later, kept with the thing.
using Note = std::shared_ptr<void>;

// This one does nothing and lets everything be done as it is.
class RuntimeObserver {
 public:
  // aclInit or its like, and aclFinalize.
  virtual void library_started(bool /*must_be_ended*/) {}
  virtual void library_ended() {}

  // `function` is about to make a device's context.
  virtual void device_wanted(std::string_view /*function*/) {}

  // The default context of the device is gone, and its streams.
  virtual void device_reset(int /*device_id*/) noexcept {}

  // A call has failed that programs also make to find out whether it does.
  virtual void question_failed() {}

  // Memory of `reserved` bytes of which the program asked for `requested`, and its end.
  virtual void* allocate(Device& device, int /*device_id*/, MemoryPlace place, size_t /*requested*/,
                         size_t reserved) {
    return device.allocate(place, reserved);
  }
  virtual void release(std::string_view /*function*/, Device& device, MemoryPlace place,
                       void* memory) noexcept {
    device.release(place, memory);
  }

  // `function` got a pointer that is no live memory of the place that it frees.
  virtual void release_refused(std::string_view /*function*/, const void* /*memory*/) {}

  // The work to do in place of the one that was asked for. The queue is null for work that is done at once.
  // Throws Error where the work cannot be done.
  virtual Copy copy_begins(std::string_view /*function*/, const Copy& copy, aclrtMemcpyKind, Queue*) {
    return copy;
  }
  virtual Fill fill_begins(std::string_view /*function*/, const Fill& fill, const Queue*) { return fill; }

  // Around a call that hands work to a queue.
  virtual void submission_begins() {}
  virtual void submission_failed() {}

  // As the queue's own, which they call.
  virtual bool synchronize(Queue& queue, Deadline deadline) { return queue.synchronize(deadline); }
  virtual bool is_idle(const Queue& queue) { return queue.idle(); }

  virtual void stream_made(const Queue&, const void* /*handle*/, int /*device_id*/) {}

  // The stream is destroyed, alone or with its context: its work is about to be finished, or dropped,
  // although the program has not synchronised with it.
  virtual void stream_ends(const Queue&, StreamEnd) noexcept {}
  virtual void stream_ended(const Queue&) noexcept {}

  // The program has not destroyed it: it ended with its context or device.
  virtual void stream_lost(const void* /*handle*/) noexcept {}

  // `function` got a stream of another context than the current one.
  virtual void foreign_stream_passed(std::string_view /*function*/, const void* /*stream*/,
                                     const void* /*current_context*/) {}

  virtual void event_recorded(EventState&, const Queue&) {}
  virtual void event_not_recorded(EventState&) noexcept {}  // the queue has refused the mark
  virtual void event_awaited(const std::shared_ptr<EventState>&, const Queue&) noexcept {}

  // The host is about to wait for it without a deadline. Throws Error where that would never end.
  virtual void event_wait_begins(const EventState&) {}
  // The host has learned that the event was reached; and that this is so and all waits of streams for it have
  // ended.
  virtual void event_reached(const EventState&) {}
  virtual void event_waits_ended(const EventState&) {}

  // fork(): the locks under which streams and queues are used, and those that may be taken under the locks of
  // any of these; and what the observer does in the child while all are held.
  virtual void act_on_outer_locks(LockAction) {}
  virtual void act_on_inner_locks(LockAction) {}
  virtual void continue_in_child() {}

  virtual Note callback_queued(const Queue&, bool /*holds_stream_up*/) { return nullptr; }
  virtual void run_callback(const Note&, aclrtCallback function, void* user_data) { function(user_data); }
};

inline constinit RuntimeObserver no_observer;
inline RuntimeObserver* runtime_observer = &no_observer;

// `queue_work` hands the work of a call to its queue.
template <class Function>
void submit_observed(Function&& queue_work) {
  runtime_observer->submission_begins();
  try {
    queue_work();
  } catch (...) {
    runtime_observer->submission_failed();
    throw;
  }
}

}  // namespace aclgrad
