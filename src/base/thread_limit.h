// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How many threads the calls of one thread may use, below the number of `set_thread_count`.
#pragma once

namespace aclgrad {

// Holds for the thread that makes it, until its end.
class ThreadLimit {
 public:
  explicit ThreadLimit(int most);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int before_;
};

}  // namespace aclgrad
