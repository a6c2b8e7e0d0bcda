// The frame of every C entry point of the runtime.
#pragma once

#include <utility>

#include "acl/acl_base.h"
#include "base/error.h"
#include "runtime/check.h"

namespace aclgrad {

// What aclrtGetLastError tells. Plain data, so that it may be used while the thread's other variables are
// destroyed.
inline thread_local Status last_error = ACL_SUCCESS;

// Runs the body; what it throws becomes the status.
template <class Body>
aclError entry(Body&& body) noexcept {
  const Status status = guarded(ACL_ERROR_BAD_ALLOC, std::forward<Body>(body));
  if (status != ACL_SUCCESS) last_error = status;
  return status;
}

}  // namespace aclgrad
