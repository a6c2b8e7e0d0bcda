// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the host does until work is done, and what it knows then. These functions take calls_mutex (check.h).
#pragma once

#include "acl/acl_rt.h"
#include "runtime/observer.h"

namespace aclgrad::check {

// As the queue's own. Throws Error where the wait would never end.
bool synchronize(Queue& queue, Deadline deadline);
bool is_idle(const Queue& queue);

// Before the host waits for the event without end: throws Error where it would wait for itself.
void check_event_wait(const EventState& event);

// The callback must run, whatever cannot be noted.
void run_callback(const Note& turn, aclrtCallback function, void* user_data);

}  // namespace aclgrad::check
