// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The checker as the observer of the layers below, from the load of the library to the end of the process.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string_view>

#include "base/environment.h"
#include "base/never_destroyed.h"
#include "base/observer.h"
#include "check/call.h"
#include "check/check.h"
#include "check/failures.h"
#include "check/handles.h"
#include "check/memory.h"
#include "check/order.h"
#include "check/views.h"
#include "check/waits.h"
#include "executor/observer.h"
#include "runtime/observer.h"

namespace aclgrad::check {
namespace {

// Under the lock of calls.
template <class Function>
auto locked(Function&& function) {
  std::lock_guard lock(calls_mutex);
  return function();
}

template <class Function>
void locked_as_far_as_memory_goes(Function&& function) noexcept {
  locked([&] { as_far_as_memory_goes(function); });
}

class Checker final : public Observer, public RuntimeObserver, public ExecutorObserver {
 public:
  // What all layers share.
  void error_recorded(const Error& error) override { remember_failure(error); }
  void errors_read() override { locked(failures_were_read); }
  void handle_made(const void* handle, const char* type) noexcept override {
    check::handle_made(handle, type);
  }
  void handle_destroyed(const void* handle, const std::shared_ptr<const void>& object) noexcept override {
    handle_gone(handle, object);
  }
  void dead_handle_passed(std::string_view function, const char* type, const void* handle) override {
    dead_handle(function, type, handle);
  }

  // The runtime.
  void library_started(bool must_be_ended) override { check::library_started(must_be_ended); }
  void library_ended() override { check::library_ended(); }
  void device_wanted(std::string_view function) override { check_library_started(function); }
  void device_reset(int device_id) noexcept override {
    as_far_as_memory_goes([&] { check::device_reset(device_id); });
  }
  void question_failed() override { failure_was_an_answer(); }

  void* allocate(Device& device, int device_id, MemoryPlace place, size_t requested,
                 size_t reserved) override {
    return check::allocate(device, device_id, place, requested, reserved);
  }
  void release(std::string_view function, Device&, MemoryPlace, void* memory) noexcept override {
    locked([&] { check::release(function, memory); });
  }
  void release_refused(std::string_view function, const void* memory) override {
    locked([&] { refused_release(function, memory); });
  }

  Copy copy_begins(std::string_view function, const Copy& copy, aclrtMemcpyKind kind, Queue* queue) override {
    return locked([&] { return begin_copy(function, copy, kind, queue); });
  }
  Fill fill_begins(std::string_view function, const Fill& fill, const Queue* queue) override {
    return locked([&] { return begin_fill(function, fill, queue); });
  }
  void submission_begins() override { expect_work(); }
  void submission_failed() override { locked(forget_refused); }

  bool synchronize(Queue& queue, Deadline deadline) override { return check::synchronize(queue, deadline); }
  bool is_idle(const Queue& queue) override { return check::is_idle(queue); }

  void stream_made(const Queue& queue, const void* handle, int device_id) override {
    locked([&] { stream_begins(queue, handle, device_id); });
  }
  void stream_ends(const Queue& queue, StreamEnd end) noexcept override {
    locked_as_far_as_memory_goes([&] {
      report_unfinished_copies(queue);
      if (end == StreamEnd::drop) stream_dropped(queue);
    });
  }
  void stream_ended(const Queue& queue) noexcept override {
    locked([&] { check::stream_ended(queue); });
  }
  void stream_lost(const void* handle) noexcept override {
    as_far_as_memory_goes([&] { handle_lost(handle); });
  }
  void foreign_stream_passed(std::string_view function, const void* stream,
                             const void* current_context) override {
    foreign_stream(function, stream, current_context);
  }

  void event_recorded(EventState& event, const Queue& queue) override {
    locked([&] {
      check::event_recorded(event, queue);
      as_far_as_memory_goes(check_open_reads);
    });
  }
  void event_not_recorded(EventState& event) noexcept override {
    locked([&] { check::event_not_recorded(event); });
  }
  void event_awaited(const std::shared_ptr<EventState>& event, const Queue& queue) noexcept override {
    locked_as_far_as_memory_goes([&] { check::event_awaited(event, queue); });
  }
  void event_wait_begins(const EventState& event) override {
    as_far_as_memory_goes([&] { check_event_wait(event); });
  }
  void event_reached(const EventState& event) override {
    locked([&] { check::event_reached(event); });
  }
  void event_waits_ended(const EventState& event) override {
    locked([&] { waits_ended(event); });
  }

  Note callback_queued(const Queue& queue, bool holds_stream_up) override {
    return locked(
        [&] { return std::make_shared<CallbackTurn>(check::callback_queued(queue, holds_stream_up)); });
  }
  void run_callback(const Note& turn, aclrtCallback function, void* user_data) override {
    check::run_callback(turn, function, user_data);
  }

  // fork(): the findings of a child are not counted, but it must not hang.
  void act_on_outer_locks(LockAction action) override { action(calls_mutex); }
  void act_on_inner_locks(LockAction action) override {
    act_on_failure_lock(action);
    act_on_handle_lock(action);
    act_on_report_lock(action);
    act_on_view_lock(action);
  }
  void continue_in_child() override { keep_views_to_parent(); }

  // The two phases.
  void executor_made(const aclOpExecutor& executor, std::optional<int> device_id) noexcept override {
    check::executor_made(&executor, device_id);
  }
  void phase_1_failed(std::string_view operator_name, const Plan* plan) noexcept override {
    locked_as_far_as_memory_goes([&] { check_failed_phase_1(operator_name, plan); });
  }
  void dead_executor_passed(std::string_view function, const aclOpExecutor* executor) override {
    locked([&] { dead_executor(function, executor); });
  }
  void foreign_executor_passed(std::string_view operator_name, const aclOpExecutor& executor) override {
    note_foreign_executor(operator_name, executor);
  }
  void phase_2_begins(std::string_view operator_name, const aclOpExecutor& executor) override {
    check_phase_2(operator_name, executor);
  }
  void work_begins(std::string_view operator_name, const Plan& plan, Addresses& addresses, void*& workspace,
                   const Queue& queue) override {
    locked([&] { check_work(operator_name, plan, addresses, workspace, queue); });
  }
  void* library_address(void* address) override { return library_view(address); }
};

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

}  // namespace aclgrad::check
