// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the host does until work is done, and what it knows then.
#pragma once

#include "acl/acl_rt.h"
#include "runtime/observer.h"

namespace aclgrad::check {

// As the queue's own. Throws Error where the wait would never end.
bool synchronize(Queue& queue, Deadline deadline);
bool is_idle(const Queue& queue);

Note note_callback(const Queue& queue, bool holds_stream_up);
void run_callback(const Note& note, aclrtCallback function, void* user_data);

}  // namespace aclgrad::check
