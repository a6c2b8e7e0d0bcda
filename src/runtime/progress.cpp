#include "runtime/progress.h"

namespace aclgrad {

ProgressBoard& progress_board() {
  // Never destroyed: programs use streams in destructors of their own static objects.
  static ProgressBoard& board = *new ProgressBoard;
  return board;
}

}  // namespace aclgrad
