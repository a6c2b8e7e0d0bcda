// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/progress.h"

#include "acl/acl_base.h"
#include "base/never_destroyed.h"
#include "runtime/fork.h"

namespace aclgrad {

ProgressBoard& progress_board() {
  static NeverDestroyed<ProgressBoard> board;
  return *board;
}

void act_on_progress_lock(LockAction action) {
  action(progress_board().mutex);
}

void continue_progress_in_child() {
  begin_anew(progress_board().changed);
}

const Error& work_of_parent() {
  static NeverDestroyed<const Error> error(
      Status{ACL_ERROR_RT_STREAM_ABORT},
      "The work was queued before this process was forked from another, which is the one that does it.",
      "A forked process has no threads of its parent, so that work that was not done then is never done in "
      "it.",
      "Synchronise before the fork, or use a stream and events made after it.");
  return *error;
}

}  // namespace aclgrad
