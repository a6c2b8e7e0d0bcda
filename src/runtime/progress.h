// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What host threads wait for across queues: marks of events, callbacks. One lock and one condition variable
// serve all of it: such waits are few, and a single place to announce a change keeps every wait
// interruptible.
#pragma once

#include <condition_variable>
#include <mutex>

namespace aclgrad {

struct ProgressBoard {
  std::mutex mutex;
  std::condition_variable changed;
  bool exiting = false;  // the process runs its exit handlers: without worker threads nothing comes any more
};

ProgressBoard& progress_board();

// Applies a change under the board's lock and wakes who waits for it.
template <class Change>
void announce(Change&& change) {
  ProgressBoard& board = progress_board();
  {
    std::lock_guard lock(board.mutex);
    change();
  }
  board.changed.notify_all();
}

}  // namespace aclgrad
