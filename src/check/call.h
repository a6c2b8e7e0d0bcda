// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A call that uses memory, at once or when its turn in a stream comes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "acl/acl_rt.h"
#include "check/check.h"
#include "check/region.h"
#include "runtime/device.h"

namespace aclgrad::check {

// Where the memory must lie.
enum class Side {
  device,
  host,       // anywhere but on the device
  allocated,  // in memory of aclrtMalloc or aclrtMallocHost
};

struct Use {
  std::string_view parameter;
  Region region;
  bool writes;
  Side side;
  bool needs_all;  // reads every byte and makes something of it
};

struct Call {
  std::string_view function;
  std::vector<Use> uses;
  const Queue* queue;  // null for what is over when the function returns
  bool is_operator;
  bool may_alias = false;  // of an operator whose outputs may share memory with inputs
};

// Looks for mistakes in a call before its work is queued or done. Throws Error where the work would read or
// write what it must not, and so cannot be done.
void begin(const Call& call);

// The same for a copy; returns the one to do in its place, which uses the library's view of memory and, where it is
// queued, stands back from the host's memory (host_copies.h).
Copy begin_copy(std::string_view function, const Copy& copy, aclrtMemcpyKind kind, Queue* queue);

Fill begin_fill(std::string_view function, const Fill& fill, const Queue* queue);

// Around a call that calls begin() with a queue: whether the work was noted by then, and was in vain, as the queue or
// the checker has refused it.
void expect_work();
void forget_refused();

}  // namespace aclgrad::check
