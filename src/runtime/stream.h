// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Streams: queues of work that belong to a context.
#pragma once

#include <memory>
#include <string_view>

#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/observer.h"

namespace aclgrad {

struct CallbackMailbox;

struct Stream {
  void* context = nullptr;  // handle
  int device_id = 0;
  std::unique_ptr<Queue> queue;
  std::atomic<bool> failure_mode_set{false};
  std::shared_ptr<CallbackMailbox> subscriber;  // guarded by the progress board
};

// The queue of `stream`; null means the default stream of the calling thread's context. Throws Error: 107002
// where the thread has no context, 107003 where the stream does not belong to it or is not a live stream.
// To be held while it is used: another thread may destroy the stream meanwhile. `function` names the caller in errors
// and findings.
std::shared_ptr<Queue> queue_of_stream(std::string_view function, void* stream);

// Whether operators planned now must be bitwise reproducible run after run (ACL_OPT_DETERMINISTIC of the process).
bool deterministic_requested() noexcept;

void* create_stream(void* context_handle, const Context& context);

// Of the callbacks of a stream that ends.
void end_subscription(Stream& stream);

// As queue_of_stream(), for what may be asked of a stream of any context.
std::shared_ptr<Stream> stream_of_any_context(std::string_view function, void* stream);

// queue.synchronize(), of which the observer knows.
bool synchronize_queue(Queue& queue, Deadline deadline);

// Waits for the work of the stream, or drops what has not started; then destroys it.
void destroy_stream(std::string_view function, void* stream, StreamEnd end);

// Waits for all streams of the device, then throws the first failure. False where the deadline passes first.
bool synchronize_device(int device_id, Deadline deadline);

// Waits for the work of every stream. Failures that nobody asked for go to the log.
void finish_all_streams();

// The same for the streams of one context, which are destroyed.
void destroy_streams_of(void* context_handle);

}  // namespace aclgrad
