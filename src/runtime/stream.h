// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Contexts: which device a thread works with, and the options and streams, queues of work, that belong together there.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>

#include "runtime/device.h"
#include "runtime/observer.h"

namespace aclgrad {

// A value of aclSysParamOpt indexes it; kOptionUnset where it was never set.
inline constexpr size_t kOptions = 4;
inline constexpr int64_t kOptionUnset = -1;
using Options = std::array<std::atomic<int64_t>, kOptions>;

struct Context {
  int device_id = 0;
  Device* device = nullptr;
  // Of the device, shared by all threads: it lives while more calls of aclrtSetDevice than of aclrtResetDevice have been
  // made.
  bool is_default = false;
  StopFlag stopped = std::make_shared<std::atomic<bool>>(false);
  Options options{kOptionUnset, kOptionUnset, kOptionUnset, kOptionUnset};
  void* default_stream = nullptr;
};

// Each thread has at most one current context. It is kept as a handle: where another thread has destroyed the
// context, its next use here is an error. All functions throw Error on wrong use; `function` names the caller
// in it.

// 107002 where the thread has no live context.
void* current_context_handle();
std::shared_ptr<Context> current_context();

// Of the calling thread's context; nothing where it has none.
std::optional<int> current_device_id() noexcept;

void reset_all_devices();

// The device on which a thread without a context works, where the configuration names one; and its place in aclInit.
inline constexpr std::string_view kImplicitDevice = "configPath defaultDevice.default_device";
void set_implicit_device(std::optional<int> device_id);

struct Subscription;

struct Stream {
  void* context = nullptr;  // handle
  int device_id = 0;
  std::unique_ptr<Queue> queue;
  std::atomic<bool> failure_mode_set{false};
  std::shared_ptr<Subscription> subscription;  // to its callbacks; guarded by the progress board
};

// The queue of `stream`; null means the default stream of the calling thread's context. Throws Error: 107002
// where the thread has no context, 107003 where the stream does not belong to it or is not a live stream.
// To be held while it is used: another thread may destroy the stream meanwhile. `function` names the caller in errors
// and findings.
std::shared_ptr<Queue> queue_of_stream(std::string_view function, void* stream);

// Whether operators planned now must be bitwise reproducible run after run (ACL_OPT_DETERMINISTIC of the process).
bool deterministic_requested() noexcept;

void* create_stream(void* context_handle, const Context& context);

// The stream ends: no thread is subscribed to its callbacks any more. Those that have not begun are dropped.
void end_subscription(Stream& stream);

// The calling thread waits for the end of the stream from here on, or no longer. If it is the subscriber, it runs no
// callback meanwhile: those that hold the stream up are dropped. Streams may wait for each other, so this comes first for
// all of which the end is waited for.
void note_wait_for_end(Stream& stream, bool waits);

// As queue_of_stream(), for what may be asked of a stream of any context.
std::shared_ptr<Stream> stream_of_any_context(std::string_view function, void* stream);

// Waits for all streams of the device, then throws the first failure. False where the deadline passes first.
bool synchronize_device(int device_id, Deadline deadline);

// Waits for the work of every stream. Failures that nobody asked for go to the log.
void finish_all_streams();

// The same for the streams of one context, which are destroyed.
void destroy_streams_of(void* context_handle);

}  // namespace aclgrad
