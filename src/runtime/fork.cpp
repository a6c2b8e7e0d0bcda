// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/fork.h"

#include <dlfcn.h>
#include <pthread.h>

#include <iterator>

#include "base/environment.h"
#include "runtime/observer.h"

namespace aclgrad {
namespace {

// In the order in which calls take them: who holds one takes only later ones. A table comes before its objects, so that
// these stay while they are locked.
constexpr void (*kActOnLocks[])(LockAction) = {
    act_on_start_lock,
    act_on_event_table_locks,
    act_on_event_locks,
    act_on_device_table_lock,
    act_on_lock_of_devices,
    act_on_memory_locks,
    [](LockAction action) { runtime_observer->act_on_outer_locks(action); },
    act_on_context_table_locks,
    act_on_stream_table_locks,
    act_on_worker_lock,
    act_on_queue_locks,
    act_on_progress_lock,
    [](LockAction action) { runtime_observer->act_on_inner_locks(action); },
    act_on_handle_locks,
};

void before_fork() {
  work_of_parent();    // so that the child needs no memory for it
  Environment::get();  // or the child would wait for a thread of its parent that was reading it
  for (const auto act_on_locks : kActOnLocks) act_on_locks([](std::mutex& mutex) { mutex.lock(); });
}

void unlock_all() {
  for (auto each = std::rbegin(kActOnLocks); each != std::rend(kActOnLocks); ++each) {
    (*each)([](std::mutex& mutex) { mutex.unlock(); });
  }
}

void continue_in_child() {
  continue_parallel_in_child();
  continue_start_in_child();
  continue_streams_in_child();
  continue_events_in_child();  // for which streams do not wait any more
  continue_workers_in_child();
  continue_callbacks_in_child();
  continue_progress_in_child();
  runtime_observer->continue_in_child();
  unlock_all();
}

// While the library is loaded. The thread sanitizer ends a process that holds so many locks at once, and does not let the
// child of a process with several threads start any.
[[maybe_unused]] const bool watches_forks = [] {
  const bool has_thread_sanitizer = dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr;
  return !has_thread_sanitizer && pthread_atfork(before_fork, unlock_all, continue_in_child) == 0;
}();

}  // namespace

}  // namespace aclgrad
