// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Streams at the C interface.
#include <optional>
#include <utility>

#include "acl/acl_rt.h"
#include "base/log.h"
#include "base/never_destroyed.h"
#include "runtime/entry.h"
#include "runtime/fork.h"
#include "runtime/handle_table.h"
#include "runtime/observer.h"
#include "runtime/stream.h"

namespace aclgrad {
namespace {

constexpr Singleton<HandleTable<Stream>> streams{};

Error not_live(std::string_view function, void* stream) {
  if (observer != nullptr) observer->dead_handle_passed(function, "aclrtStream", stream);
  return Error(ACL_ERROR_RT_STREAM_CONTEXT,
               fmt::format("{}.stream: expected a live aclrtStream, got {}.", function, stream),
               "The stream was destroyed, or its context was destroyed or reset.",
               "Destroy a stream after its last use, and before its context.");
}

// Waits for the work. A failure that nobody asked for goes to the log.
void finish(Stream& stream) {
  runtime_observer->stream_ends(*stream.queue, StreamEnd::finish);
  note_wait_for_end(stream, true);
  try {
    runtime_observer->synchronize(*stream.queue, std::nullopt);
  } catch (const Error& error) {
    log(LogLevel::error, error.text());
  }
  note_wait_for_end(stream, false);
}

void close(Stream& stream) {
  stream.queue->close();
  end_subscription(stream);
  runtime_observer->stream_ended(*stream.queue);
}

void destroy_stream(std::string_view function, void* handle, StreamEnd end) {
  require_pointer(handle, {function, "stream"});
  const std::shared_ptr<Stream> stream = streams().remove(handle);
  if (stream == nullptr) throw not_live(function, handle);
  if (end == StreamEnd::finish) {
    finish(*stream);
  } else {
    runtime_observer->stream_ends(*stream->queue, end);
  }
  close(*stream);
  if (observer != nullptr) observer->handle_destroyed(handle, nullptr);
}

void* new_stream() {
  void* stream = create_stream(current_context_handle(), *current_context());
  if (observer != nullptr) observer->handle_made(stream, "aclrtStream");
  return stream;
}

}  // namespace

std::shared_ptr<Queue> queue_of_stream(std::string_view function, void* stream) {
  void* context = current_context_handle();
  if (stream == nullptr) stream = current_context()->default_stream;
  const std::shared_ptr<Stream> found = streams().find(stream);
  if (found != nullptr && found->context == context) return {found, found->queue.get()};
  current_context();
  if (found == nullptr) throw not_live(function, stream);
  runtime_observer->foreign_stream_passed(function, stream, context);
  throw Error(ACL_ERROR_RT_STREAM_CONTEXT, "The stream does not belong to the current context.",
              "The thread's context was switched after the stream was created.",
              "Make the stream's context current with aclrtSetCurrentContext first.");
}

void* create_stream(void* context_handle, const Context& context) {
  auto stream = std::make_shared<Stream>();
  stream->context = context_handle;
  stream->device_id = context.device_id;
  stream->queue = context.device->make_queue(context.stopped);
  void* handle = new_handle();
  runtime_observer->stream_made(*stream->queue, handle, stream->device_id);
  streams().add(handle, std::move(stream));
  return handle;
}

std::shared_ptr<Stream> stream_of_any_context(std::string_view function, void* stream) {
  if (stream == nullptr) stream = current_context()->default_stream;
  std::shared_ptr<Stream> found = streams().find(stream);
  if (found == nullptr) throw not_live(function, stream);
  return found;
}

bool synchronize_device(int device_id, Deadline deadline) {
  std::optional<Error> failure;
  bool in_time = true;
  streams().for_each([&](void*, Stream& stream) {
    if (stream.device_id != device_id || !in_time) return;
    try {
      in_time = runtime_observer->synchronize(*stream.queue, deadline);
    } catch (const Error& error) {
      if (!failure) failure = error;
    }
  });
  if (failure && in_time) throw *failure;
  return in_time;
}

void finish_all_streams() {
  streams().for_each([](void*, Stream& stream) { note_wait_for_end(stream, true); });
  streams().for_each([](void*, Stream& stream) { finish(stream); });
}

void act_on_stream_table_locks(LockAction action) {
  streams().act_on_locks(action);
}

void act_on_queue_locks(LockAction action) {
  streams().for_each_while_locked([action](Stream& stream) { stream.queue->act_on_lock(action); });
}

void continue_streams_in_child() {
  streams().for_each_while_locked([](Stream& stream) { stream.queue->continue_in_child(); });
}

void destroy_streams_of(void* context_handle) {
  streams().for_each([&](void*, Stream& stream) {
    if (stream.context == context_handle) note_wait_for_end(stream, true);
  });
  streams().for_each([&](void* handle, Stream& stream) {
    if (stream.context != context_handle || streams().remove(handle) == nullptr) return;
    finish(stream);
    close(stream);
    runtime_observer->stream_lost(handle);
  });
}

}  // namespace aclgrad

using namespace aclgrad;

aclError aclrtCreateStream(aclrtStream* stream) {
  return entry(__func__, [&] {
    require_pointer(stream, {"aclrtCreateStream", "stream"});
    *stream = new_stream();
  });
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t flag) {
  return entry(__func__, [&] {
    require_pointer(stream, {"aclrtCreateStreamWithConfig", "stream"});
    constexpr uint32_t kKnown = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_PERSISTENT |
                                ACL_STREAM_HUGE | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;
    require((flag & ~kKnown) == 0, ACL_ERROR_RT_PARAM_INVALID, {"aclrtCreateStreamWithConfig", "flag"},
            "a sum of ACL_STREAM_ flags", flag);
    *stream = new_stream();
  });
}

aclError aclrtDestroyStream(aclrtStream stream) {
  return entry(__func__, [&] { destroy_stream("aclrtDestroyStream", stream, StreamEnd::finish); });
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  return entry(__func__, [&] { destroy_stream("aclrtDestroyStreamForce", stream, StreamEnd::drop); });
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  return entry(__func__, [&] {
    const std::shared_ptr<Stream> found = stream_of_any_context("aclrtSynchronizeStream", stream);
    runtime_observer->synchronize(*found->queue, std::nullopt);
  });
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  return entry(__func__, [&] {
    const Deadline deadline =
        deadline_after(timeout, ACL_ERROR_RT_PARAM_INVALID, {"aclrtSynchronizeStreamWithTimeout", "timeout"});
    const std::shared_ptr<Stream> found = stream_of_any_context("aclrtSynchronizeStreamWithTimeout", stream);
    if (runtime_observer->synchronize(*found->queue, deadline)) return;
    throw Error(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                fmt::format("The stream's work was not done after {} milliseconds.", timeout),
                "The work takes longer than the time-out, or waits for an event that nobody records.",
                "Wait longer, or -1 for ever, and check that every event is recorded.");
  });
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  return entry(__func__, [&] {
    require_pointer(status, {"aclrtStreamQuery", "status"});
    const std::shared_ptr<Stream> found = stream_of_any_context("aclrtStreamQuery", stream);
    *status =
        runtime_observer->is_idle(*found->queue) ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  });
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  return entry(__func__, [&] {
    require(mode <= ACL_STOP_ON_FAILURE, ACL_ERROR_RT_PARAM_INVALID, {"aclrtSetStreamFailureMode", "mode"},
            "ACL_CONTINUE_ON_FAILURE or ACL_STOP_ON_FAILURE", mode);
    const std::shared_ptr<Stream> found = stream_of_any_context("aclrtSetStreamFailureMode", stream);
    require(!found->failure_mode_set.exchange(true), ACL_ERROR_RT_PARAM_INVALID,
            {"aclrtSetStreamFailureMode", "stream"}, "a stream whose mode was not set before",
            "one that has a mode");
    if (mode == ACL_STOP_ON_FAILURE) found->queue->stop_on_failure();
  });
}
