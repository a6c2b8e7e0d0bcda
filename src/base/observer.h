// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What a layer lets one observer see of what goes on in it. Each layer has an interface of its own, which names what
// happens in the layer's words; this one is that of what all layers share. An observer is set before any call, if at all:
// where there is none, an event costs the test of a pointer or an empty call.
#pragma once

#include <memory>
#include <string_view>

#include "base/error.h"

namespace aclgrad {

class Observer {
 public:
  virtual ~Observer() = default;

  virtual void error_recorded(const Error&) {}  // for the calling thread

  // The calling thread has asked for the message or the status of its errors.
  virtual void errors_read() {}

  // `type` is a literal, such as "aclTensor".
  virtual void handle_made(const void* /*handle*/, const char* /*type*/) noexcept {}

  // `object` may be null. As long as it is kept, no other object gets its address.
  virtual void handle_destroyed(const void* /*handle*/,
                                const std::shared_ptr<const void>& /*object*/) noexcept {}

  // `function` got a handle that is not live.
  virtual void dead_handle_passed(std::string_view /*function*/, const char* /*type*/,
                                  const void* /*handle*/) {}
};

inline Observer* observer = nullptr;

}  // namespace aclgrad
