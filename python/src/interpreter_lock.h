// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The interpreter's lock. A daemon thread may ask for it when the interpreter has ended. Python 3.14 then keeps the thread
// waiting until the process ends. Older versions unwind its stack, which must not pass a destructor or what called it:
// there `locked_or_never` keeps the thread waiting.
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
