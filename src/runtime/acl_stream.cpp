// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Streams at the C interface.
#include <utility>

#include "acl/acl_rt.h"
#include "runtime/entry.h"
#include "runtime/observer.h"
#include "runtime/stream.h"

using namespace aclgrad;

namespace {

void* new_stream() {
  void* stream = create_stream(current_context_handle(), *current_context());
  if (observer != nullptr) observer->handle_made(stream, "aclrtStream");
  return stream;
}

}  // namespace

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
  return entry(__func__, [&] {
    require_pointer(stream, {"aclrtDestroyStream", "stream"});
    destroy_stream("aclrtDestroyStream", stream, StreamEnd::finish);
  });
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  return entry(__func__, [&] {
    require_pointer(stream, {"aclrtDestroyStreamForce", "stream"});
    destroy_stream("aclrtDestroyStreamForce", stream, StreamEnd::drop);
  });
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  return entry(__func__, [&] {
    const std::shared_ptr<Stream> found = stream_of_any_context("aclrtSynchronizeStream", stream);
    synchronize_queue(*found->queue, std::nullopt);
  });
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  return entry(__func__, [&] {
    const Deadline deadline =
        deadline_after(timeout, ACL_ERROR_RT_PARAM_INVALID, {"aclrtSynchronizeStreamWithTimeout", "timeout"});
    const std::shared_ptr<Stream> found = stream_of_any_context("aclrtSynchronizeStreamWithTimeout", stream);
    if (synchronize_queue(*found->queue, deadline)) return;
    throw Error(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                fmt::format("The stream's work was not done after {} milliseconds.", timeout),
                "The work takes longer than the time-out, or waits for an event that nobody records.",
                "Wait longer, or -1 for ever, and check that every event is recorded.");
  });
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  return entry(__func__, [&] {
    require_pointer(status, {"aclrtStreamQuery", "status"});
    const Queue& queue = *stream_of_any_context("aclrtStreamQuery", stream)->queue;
    const bool idle = runtime_observer != nullptr ? runtime_observer->is_idle(queue) : queue.idle();
    *status = idle ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
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
