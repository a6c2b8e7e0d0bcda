// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/stream.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "acl/acl_base.h"
#include "base/error.h"
#include "base/log.h"
#include "base/never_destroyed.h"
#include "runtime/fork.h"
#include "runtime/handle_table.h"

namespace aclgrad {
namespace {

HandleTable<Stream>& streams() {
  static NeverDestroyed<HandleTable<Stream>> streams;
  return *streams;
}

Error not_live(std::string_view function, void* stream) {
  if (observer != nullptr) observer->dead_handle_passed(function, "aclrtStream", stream);
  return Error(ACL_ERROR_RT_STREAM_CONTEXT,
               fmt::format("{}.stream: expected a live aclrtStream, got {}.", function, stream),
               "The stream was destroyed, or its context was destroyed or reset.",
               "Destroy a stream after its last use, and before its context.");
}

// Waits for the work. A failure that nobody asked for goes to the log.
void finish(Stream& stream) {
  if (runtime_observer != nullptr) runtime_observer->stream_ends(*stream.queue, StreamEnd::finish);
  try {
    synchronize_queue(*stream.queue, std::nullopt);
  } catch (const Error& error) {
    log(LogLevel::error, error.text());
  }
}

void close(Stream& stream) {
  stream.queue->close();
  end_subscription(stream);
  if (runtime_observer != nullptr) runtime_observer->stream_ended(*stream.queue);
}

}  // namespace

std::shared_ptr<Queue> queue_of_stream(std::string_view function, void* stream) {
  void* context = current_context_handle();
  if (stream == nullptr) stream = current_context()->default_stream;
  const std::shared_ptr<Stream> found = streams().find(stream);
  if (found != nullptr && found->context == context) return {found, found->queue.get()};
  current_context();
  if (found == nullptr) throw not_live(function, stream);
  if (runtime_observer != nullptr) runtime_observer->foreign_stream_passed(function, stream, context);
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
  if (runtime_observer != nullptr) runtime_observer->stream_made(*stream->queue, handle, stream->device_id);
  streams().add(handle, std::move(stream));
  return handle;
}

std::shared_ptr<Stream> stream_of_any_context(std::string_view function, void* stream) {
  if (stream == nullptr) stream = current_context()->default_stream;
  std::shared_ptr<Stream> found = streams().find(stream);
  if (found == nullptr) throw not_live(function, stream);
  return found;
}

void destroy_stream(std::string_view function, void* handle, StreamEnd end) {
  const std::shared_ptr<Stream> stream = streams().remove(handle);
  if (stream == nullptr) throw not_live(function, handle);
  if (end == StreamEnd::finish) {
    finish(*stream);
  } else if (runtime_observer != nullptr) {
    runtime_observer->stream_ends(*stream->queue, end);
  }
  close(*stream);
  if (observer != nullptr) observer->handle_destroyed(handle, nullptr);
}

bool synchronize_queue(Queue& queue, Deadline deadline) {
  return runtime_observer != nullptr ? runtime_observer->synchronize(queue, deadline)
                                     : queue.synchronize(deadline);
}

bool synchronize_device(int device_id, Deadline deadline) {
  std::optional<Error> failure;
  bool in_time = true;
  streams().for_each([&](void*, Stream& stream) {
    if (stream.device_id != device_id || !in_time) return;
    try {
      in_time = synchronize_queue(*stream.queue, deadline);
    } catch (const Error& error) {
      if (!failure) failure = error;
    }
  });
  if (failure && in_time) throw *failure;
  return in_time;
}

void finish_all_streams() {
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
  streams().for_each([&](void* handle, Stream& stream) {
    if (stream.context != context_handle || streams().remove(handle) == nullptr) return;
    finish(stream);
    close(stream);
    if (runtime_observer != nullptr) runtime_observer->stream_lost(handle);
  });
}

}  // namespace aclgrad
