// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The frame of every C entry point of the runtime.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "acl/acl_base.h"
#include "base/error.h"
#include "runtime/observer.h"
#include "runtime/parameter.h"

namespace aclgrad {

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
  if (runtime_observer != nullptr && status != ACL_SUCCESS) runtime_observer->question_failed();
  return status;
}

}  // namespace aclgrad
