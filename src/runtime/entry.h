// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The frame of every C entry point of the runtime, and checks of what comes in there.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <string_view>

#include "acl/acl_base.h"
#include "base/error.h"
#include "runtime/observer.h"

namespace aclgrad {

struct Parameter {
  std::string_view function;
  std::string_view name;
};

template <class Got>
Error bad_parameter(Status status, Parameter parameter, std::string_view expected, const Got& got) {
  return Error(status,
               fmt::format("{}.{}: expected {}, got {}.", parameter.function, parameter.name, expected, got));
}

template <class Got>
void require(bool passed, Status status, Parameter parameter, std::string_view expected, const Got& got) {
  if (!passed) throw bad_parameter(status, parameter, expected, got);
}

inline void require_pointer(const void* pointer, Parameter parameter) {
  require(pointer != nullptr, ACL_ERROR_INVALID_PARAM, parameter, "a pointer", "null");
}

// -1 waits for ever; otherwise milliseconds, which must be positive.
inline Deadline deadline_after(int32_t milliseconds, Status status, Parameter parameter) {
  if (milliseconds == -1) return std::nullopt;
  require(milliseconds > 0, status, parameter, "-1 or a positive number of milliseconds", milliseconds);
  return Clock::now() + std::chrono::milliseconds(milliseconds);
}

inline Error not_supported(std::string_view what) {
  return Error(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, fmt::format("{} is not supported.", what));
}

// What aclrtGetLastError tells. Plain data, so that it may be used while the thread's other variables are
// destroyed.
inline thread_local Status last_error = ACL_SUCCESS;

// Names the function where the text of the error names it nowhere.
inline Error error_of(std::string_view function, const Error& error) {
  if (error.text().find(function) != std::string::npos) return error;
  return Error(error.status(), fmt::format("{}: {}", function, error.text()), error.possible_cause(),
               error.solution());
}

// Runs the body; what it throws becomes the status.
template <class Body>
aclError entry(std::string_view function, Body&& body) noexcept {
  const Status status = guarded(ACL_ERROR_BAD_ALLOC, [&] {
    try {
      body();
    } catch (const Error& error) {
      throw error_of(function, error);
    }
  });
  if (status != ACL_SUCCESS) last_error = status;
  return status;
}

// An entry that programs also call to find out whether it fails.
template <class Body>
aclError question(std::string_view function, Body&& body) noexcept {
  const aclError status = entry(function, std::forward<Body>(body));
  if (status != ACL_SUCCESS) runtime_observer->question_failed();
  return status;
}

}  // namespace aclgrad
