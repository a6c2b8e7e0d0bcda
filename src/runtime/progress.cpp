#include "runtime/progress.h"

#include "base/never_destroyed.h"

namespace aclgrad {

ProgressBoard& progress_board() {
  static NeverDestroyed<ProgressBoard> board;
  return *board;
}

}  // namespace aclgrad
