#include "runtime/progress.h"

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

}  // namespace aclgrad
