// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/checker.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "base/environment.h"
#include "base/never_destroyed.h"
#include "check/check.h"
#include "check/failures.h"
#include "check/handles.h"
#include "check/memory.h"
#include "check/order.h"
#include "check/views.h"

namespace aclgrad::check {
namespace {

void report_at_exit(int exit_status) {
  std::lock_guard lock(calls_mutex);
  report_unfinished_copies();
  report_damaged_guards();
  const bool gave_up = exit_status != EXIT_SUCCESS && report_giving_up(exit_status);
  if (gave_up) return;
  report_unreleased_memory();
  report_unreleased_handles();
  if (exit_status == EXIT_SUCCESS) report_ignored_failures();
}

void finish(int exit_status, void* process) {
  constexpr int kExitStatus = 86;
  if (getpid() != static_cast<pid_t>(reinterpret_cast<intptr_t>(process))) return;  // a fork, not the program
  report_at_exit(exit_status);
  const size_t findings = print_summary();
  if (findings == 0 || Environment::get().check != CheckMode::error) return;
  // exit() cannot change its status any more, so what it would still do is done here.
  std::cout.flush();
  std::fflush(nullptr);
  _exit(kExitStatus);
}

// While the library is loaded, that is before main: exit handlers run last in, first out, and the program's
// own destructors must have run before anything is called unreleased.
bool start() {
  if (Environment::get().check == CheckMode::off) return false;
  on_exit(finish, reinterpret_cast<void*>(static_cast<intptr_t>(getpid())));
  static NeverDestroyed<Checker> checker;
  observer = &*checker;
  runtime_observer = &*checker;
  executor_observer = &*checker;
  return true;
}

}  // namespace

const bool enabled = start();

// ---- fork(): the findings of a child are not counted, but it must not hang. ----

void Checker::act_on_outer_locks(LockAction action) {
  action(calls_mutex);
}

void Checker::act_on_inner_locks(LockAction action) {
  for (std::mutex* mutex : {&failures_mutex, &handles_mutex, &reports_mutex}) action(*mutex);
  act_on_view_lock(action);
}

void Checker::continue_in_child() {
  keep_views_to_parent();
}

void* Checker::library_address(void* address) {
  return library_view(address);
}

}  // namespace aclgrad::check
