// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The checker and fork(): see runtime/fork.h. The findings of a child are not counted, but it must not hang.
#pragma once

#include "base/fork.h"

namespace aclgrad::check {

// Those under which streams and queues are used, and those that may be taken under the locks of any of these.
void act_on_outer_locks(LockAction action);
void act_on_inner_locks(LockAction action);

void continue_in_child();

}  // namespace aclgrad::check
