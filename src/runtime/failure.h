// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How the work of queues fails, on every kind of device.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "acl/acl_base.h"
#include "base/error.h"
#include "runtime/device.h"

namespace aclgrad {

// The error with the status under which a queue reports it.
inline Error failure_of_queue(const Error& error) noexcept {
  const bool stays = error.status() / 1000 == 507 || error.status() == ACL_ERROR_RT_STREAM_ABORT;
  return stays ? error : error.with_status(ACL_ERROR_RT_AICORE_EXCEPTION);
}

template <class Work>
std::optional<Error> failure_of_work(Work&& work) noexcept {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return failure_of_queue(error);
  } catch (const std::exception& exception) {
    return Error::from(exception, ACL_ERROR_RT_AICORE_EXCEPTION);
  }
}

inline Error dropped_work() noexcept {
  try {
    return Error(ACL_ERROR_RT_STREAM_ABORT, "Work of the stream was dropped.");
  } catch (const std::exception& exception) {
    return Error::from(exception, ACL_ERROR_RT_STREAM_ABORT);
  }
}

// What queues on every kind of device do about failures. mutex_ guards closed_, failure_ and stops_on_failure_.
class FailingQueue : public Queue {
 public:
  void stop_on_failure() final {
    std::lock_guard lock(mutex_);
    stops_on_failure_ = true;
  }
  bool closing() const final { return closing_; }
  void act_on_lock(LockAction action) final { action(mutex_); }

 protected:
  explicit FailingQueue(StopFlag context_stopped) : context_stopped_(std::move(context_stopped)) {}

  // These three are called under the lock.
  void fail(const Error& error) noexcept {
    if (!failure_) failure_ = error;
    const bool is_given_up = closing_;  // a wait that was broken off is no reason to stop the context
    if (stops_on_failure_ && !is_given_up) *context_stopped_ = true;
  }

  bool drops_tasks() const { return closed_ || *context_stopped_ || (stops_on_failure_ && failure_); }

  void refuse_where_stopped() const {
    if (!drops_tasks()) return;
    if (failure_) throw *failure_;
    throw Error(ACL_ERROR_RT_STREAM_ABORT, "The stream accepts no work any more.",
                "It was destroyed, or a stream of its context that stops on failure has failed.");
  }

  mutable std::mutex mutex_;
  bool closed_ = false;
  std::optional<Error> failure_;  // the first one
  std::atomic<bool> closing_{false};

 private:
  const StopFlag context_stopped_;
  bool stops_on_failure_ = false;
};

}  // namespace aclgrad
