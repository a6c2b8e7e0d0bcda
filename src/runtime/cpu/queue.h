// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The queue and the event marks of the CPU device.
#pragma once

#include <optional>
#include <thread>

#include "base/error.h"
#include "runtime/failure.h"

namespace aclgrad {

// One thread moves about 10 bytes in a nanosecond.
inline double estimated_copy_nanoseconds(size_t bytes) {
  return static_cast<double>(bytes) / 10;
}

class CpuEventState final : public EventState {
 public:
  bool reached() const override;
  bool wait(Deadline deadline) const override;
  double milliseconds_since(const EventState& start) const override;
  void continue_in_child() override;

  void mark(std::optional<Error> failure);

  // Returns when the mark is reached. Throws Error where `queue` is closed first.
  void wait_on(const Queue& queue) const;

 private:
  // Guarded by the progress board.
  bool reached_ = false;
  Clock::time_point time_;
  std::optional<Error> failure_;
};

// Tasks run one at a time, in order, in one of three places: in the thread that submits, where the task is
// small and the queue idle; in a thread that synchronises without a deadline, where the queue is not running
// anything just then; else in the queue's worker thread, which is started when it is first needed.
class CpuQueue final : public FailingQueue {
 public:
  CpuQueue(Device& device, StopFlag context_stopped);
  ~CpuQueue() override { close(); }

  DeviceKind kind() const override { return DeviceKind::cpu; }
  using Queue::submit;
  void submit(double serial_nanoseconds, TaskPointer task) override;
  void submit_host(TaskPointer task) override;
  void copy(const Copy& copy) override;
  void fill(const Fill& fill) override;
  void record(std::shared_ptr<EventState> event) override;
  void wait(std::shared_ptr<EventState> event) override;
  bool synchronize(Deadline deadline) override;
  bool idle() const override;
  void close() override;
  void continue_in_child() override;

  // Ends the worker after the task that it is running; what is queued stays queued.
  void retire_worker();

 private:
  // Bookkeeping runs even where tasks are dropped, since others wait for it.
  template <class Function>
  void submit_bookkeeping(double serial_nanoseconds, Function&& function);
  void start_worker();
  void work();
  void run_next(std::unique_lock<std::mutex>& lock);

  Device& device_;

  std::condition_variable work_;  // the worker waits for tasks
  std::condition_variable done_;  // others wait for tasks to end
  TaskList pending_;
  uint64_t submitted_ = 0;
  uint64_t completed_ = 0;
  bool running_ = false;
  bool has_worker_ = false;
  std::thread worker_;
};

}  // namespace aclgrad
