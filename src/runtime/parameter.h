// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Checks of what comes in at the C interface.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string_view>

#include "acl/acl_base.h"
#include "base/error.h"
#include "runtime/deadline.h"

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

}  // namespace aclgrad
