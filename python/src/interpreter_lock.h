// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The interpreter's lock. A thread that asks for it when the interpreter has ended, as a daemon thread may, waits for the
// end of the process, as it does in Python 3.14. Older ones end it by unwinding its stack, and no destructor, nor what
// called it, may be left in that way.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

namespace aclgrad::python {

// Calls what asks for the lock.
template <class Ask>
auto locked_or_never(Ask&& ask) {
  try {
    return ask();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

// Without the lock until its end.
class Unlocked {
 public:
  Unlocked() : thread_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() {
    locked_or_never([this] { PyEval_RestoreThread(thread_); });
  }

 private:
  PyThreadState* thread_;
};

// With it, on any thread.
class Locked {
 public:
  Locked() : state_(locked_or_never([] { return PyGILState_Ensure(); })) {}
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

}  // namespace aclgrad::python
