// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The checker as the observer of the layers below, from the load of the library to the end of the process. Its functions
// are defined where what they note is kept.
#pragma once

#include "executor/observer.h"
#include "runtime/observer.h"

namespace aclgrad::check {

class Checker final : public Observer, public RuntimeObserver, public ExecutorObserver {
 public:
  // failures.cpp
  void error_recorded(const Error& error) override;
  void errors_read() override;
  void question_failed() override;

  // handles.cpp
  void handle_made(const void* handle, const char* type) noexcept override;
  void handle_destroyed(const void* handle, const std::shared_ptr<const void>& object) noexcept override;
  void dead_handle_passed(std::string_view function, const char* type, const void* handle) override;
  void stream_lost(const void* handle) noexcept override;
  void foreign_stream_passed(std::string_view function, const void* stream,
                             const void* current_context) override;
  void executor_made(const aclOpExecutor& executor, std::optional<int> device_id) noexcept override;
  void dead_executor_passed(std::string_view function, const aclOpExecutor* executor) override;
  void device_wanted(std::string_view function) override;
  void device_reset(int device_id) noexcept override;
  void library_started(bool must_be_ended) override;
  void library_ended() override;

  // memory.cpp
  void* allocate(Device& device, int device_id, MemoryPlace place, size_t requested,
                 size_t reserved) override;
  void release(std::string_view function, Device&, MemoryPlace, void* memory) noexcept override;
  void release_refused(std::string_view function, const void* memory) override;

  // call.cpp
  Copy copy_begins(std::string_view function, const Copy& copy, aclrtMemcpyKind kind, Queue* queue) override;
  Fill fill_begins(std::string_view function, const Fill& fill, const Queue* queue) override;
  void phase_1_failed(std::string_view operator_name, const Plan* plan) noexcept override;
  void foreign_executor_passed(std::string_view operator_name, const aclOpExecutor& executor) override;
  void phase_2_begins(std::string_view operator_name, const aclOpExecutor& executor) override;
  void work_begins(std::string_view operator_name, const Plan& plan, Addresses& addresses, void*& workspace,
                   const Queue& queue) override;

  // order.cpp
  void submission_begins() override;
  void submission_failed() override;
  void stream_made(const Queue& queue, const void* handle, int device_id) override;
  void stream_ends(const Queue& queue, StreamEnd end) noexcept override;
  void stream_ended(const Queue& queue) noexcept override;
  void event_recorded(EventState& event, const Queue& queue) override;
  void event_not_recorded(EventState& event) noexcept override;
  void event_awaited(const std::shared_ptr<EventState>& event, const Queue& queue) noexcept override;
  void event_reached(const EventState& event) override;
  void event_waits_ended(const EventState& event) override;
  Note callback_queued(const Queue& queue, bool holds_stream_up) override;

  // waits.cpp
  bool synchronize(Queue& queue, Deadline deadline) override;
  bool is_idle(const Queue& queue) override;
  void event_wait_begins(const EventState& event) override;
  void run_callback(const Note& note, aclrtCallback function, void* user_data) override;

  // checker.cpp
  void act_on_outer_locks(LockAction action) override;
  void act_on_inner_locks(LockAction action) override;
  void continue_in_child() override;
  void* library_address(void* address) override;
};

}  // namespace aclgrad::check
