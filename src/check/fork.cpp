// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/fork.h"

#include "check/check.h"
#include "check/failures.h"
#include "check/handles.h"
#include "check/host_copies.h"
#include "check/memory.h"
#include "check/order.h"
#include "check/own_memory.h"
#include "check/results.h"
#include "check/views.h"

namespace aclgrad::check {

void act_on_outer_locks(LockAction action) {
  act_on_memory_lock(action);
  act_on_order_lock(action);
  act_on_host_copy_lock(action);
}

void act_on_inner_locks(LockAction action) {
  act_on_failure_lock(action);
  act_on_result_lock(action);
  act_on_handle_locks(action);
  act_on_report_lock(action);
  act_on_view_lock(action);
}

void continue_in_child() {
  forget_own_memory();
  keep_views_to_parent();
}

}  // namespace aclgrad::check
