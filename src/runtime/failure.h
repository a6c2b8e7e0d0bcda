// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How the work of queues fails, on every kind of device.
#pragma once

#include <optional>

#include "acl/acl_base.h"
#include "base/error.h"

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

// For a queue that takes no more work: its first failure, if any, is why.
[[noreturn]] inline void refuse_work(const std::optional<Error>& failure) {
  if (failure) throw *failure;
  throw Error(ACL_ERROR_RT_STREAM_ABORT, "The stream accepts no work any more.",
              "It was destroyed, or a stream of its context that stops on failure has failed.");
}

}  // namespace aclgrad
