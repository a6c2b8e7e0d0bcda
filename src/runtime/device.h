// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A device: what the runtime asks of the hardware underneath. Each kind is a folder behind this interface, `cpu/` and
// `cuda/`, which nothing else includes.
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aclgrad/types.h"
#include "base/fork.h"

namespace aclgrad {

class Error;

// ---- Until when to wait ----

using Clock = std::chrono::steady_clock;

// Nothing means for ever.
using Deadline = std::optional<Clock::time_point>;

// False where the deadline passes before the condition holds.
template <class Condition>
bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Deadline deadline,
                Condition&& condition) {
  if (deadline) return changed.wait_until(lock, *deadline, condition);
  changed.wait(lock, condition);
  return true;
}

// ---- Work that queues run ----

class Queue;

// A task is a node of its queue's list, so that to queue it takes no memory.
class Task {
 public:
  virtual ~Task() = default;

  // Throws Error on failure.
  virtual void run(Queue& queue) = 0;

  // Called last, in any thread, whether the task has run, was dropped or was refused.
  virtual void dispose() noexcept { delete this; }

  Task* next = nullptr;  // used by the list that holds the task
  bool is_bookkeeping = false;
};

struct DisposeTask {
  void operator()(Task* task) const noexcept { task->dispose(); }
};

using TaskPointer = std::unique_ptr<Task, DisposeTask>;

// A task that calls function(queue).
template <std::invocable<Queue&> Function>
TaskPointer make_task(Function function) {
  struct Call final : Task {
    explicit Call(Function&& called) : function(std::move(called)) {}
    void run(Queue& queue) override { function(queue); }
    Function function;
  };
  return TaskPointer(new Call(std::move(function)));
}

// First in, first out.
class TaskList {
 public:
  TaskList() = default;
  TaskList(const TaskList&) = delete;
  TaskList& operator=(const TaskList&) = delete;
  ~TaskList() { clear(); }

  bool empty() const { return first_ == nullptr; }

  void push(TaskPointer task) noexcept {
    task->next = nullptr;
    Task*& end = empty() ? first_ : last_->next;
    last_ = end = task.release();
  }

  TaskPointer pop() noexcept { return TaskPointer(std::exchange(first_, first_->next)); }

  void clear() noexcept {
    while (!empty()) pop();
  }

 private:
  Task* first_ = nullptr;
  Task* last_ = nullptr;  // where the list is not empty
};

// ---- Devices ----

enum class DeviceKind { cpu, cuda };

enum class MemoryPlace { device, host };

struct MemoryInfo {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
};

// `height` rows of `width` bytes, which start a pitch apart; a plain copy is one row.
struct Copy {
  void* destination = nullptr;
  size_t destination_pitch = 0;
  const void* source = nullptr;
  size_t source_pitch = 0;
  size_t width = 0;
  size_t height = 1;
};

struct Fill {
  void* destination = nullptr;
  uint8_t value = 0;
  size_t bytes = 0;
};

class EventState;

// The waits for an event, any of its marks.
class EventWaits {
 public:
  bool are_over() {
    std::lock_guard lock(mutex_);
    forget_ended();
    return queued == 0 && ends_.empty();
  }

  // A wait is over when `end`, in the same queue, is reached.
  void add(std::shared_ptr<const EventState> end) {
    std::lock_guard lock(mutex_);
    if (ends_.size() == ends_.capacity()) forget_ended();  // asking all of them each time would take long
    ends_.push_back(std::move(end));
  }

  void continue_in_child() {  // they are waits of the parent's streams
    begin_anew(mutex_);
    queued = 0;
    begin_anew(ends_);
  }

  std::atomic<int> queued{0};  // further ones, which their queues count

 private:
  void forget_ended();

  std::mutex mutex_;
  std::vector<std::shared_ptr<const EventState>> ends_;
};

// One mark of an event in a queue, reached when all work before it is done.
class EventState {
 public:
  virtual ~EventState() = default;

  virtual bool reached() const = 0;

  // False where the deadline passes first. Throws Error where the work before the mark has failed.
  virtual bool wait(Deadline deadline) const = 0;

  // Both marks must have been reached.
  virtual double milliseconds_since(const EventState& start) const = 0;

  // In a forked child, for a mark that was put into a queue: if it was not reached, wait() throws that the work stayed
  // with the parent.
  virtual void continue_in_child() = 0;

  std::atomic<int> queued_waits{0};  // for the mark: those that their queues count
  std::shared_ptr<EventWaits> waits_of_event;

  // What the observer notes of the work before the mark and before the waits for it.
  std::shared_ptr<void> note;
};

inline void EventWaits::forget_ended() {
  std::erase_if(ends_, [](const auto& end) { return end->reached(); });
}

// True once a queue of the context that stops on failure has failed: then all queues of the context stop.
using StopFlag = std::shared_ptr<std::atomic<bool>>;

// One in-order queue of work on a device: what stands behind a stream. Any thread may call it.
//
// A failure stays: once a task has thrown, every synchronize() throws its error, and so does waiting for an
// event that was recorded after it. Later tasks still run, unless the queue stops on failure: then they are
// dropped, and new ones are refused. A status that is not one of the runtime's own (507…) is reported as
// 507015.
class Queue {
 public:
  // The error that a code of an operator's kernel means.
  using DataError = const Error& (*)(uint32_t code) noexcept;

  virtual ~Queue() = default;

  virtual DeviceKind kind() const = 0;

  // The cudaStream_t of a CUDA queue; null on the CPU.
  virtual void* native_handle() const { return nullptr; }

  // Where a kernel of a CUDA queue notes a code when it refuses its data: its error then comes out of synchronize() and of
  // events. Call it for such kernels only: from then on each mark of an event costs a host task.
  virtual uint32_t* data_failure(DataError) { return nullptr; }

  // A CPU queue runs the task on the host when everything before it is done. It returns before that, except that a task
  // of few serial nanoseconds may run in the caller while the queue is idle. A CUDA queue runs the task at once in the
  // submitting thread, and the task enqueues kernels on native_handle(). What it throws comes out of the next
  // synchronize().
  virtual void submit(double serial_nanoseconds, TaskPointer task) = 0;

  // Runs the task on the host when everything before it is done, on every kind of device. It may block, but
  // must return when closing() becomes true; that is announced on the progress board.
  virtual void submit_host(TaskPointer task) = 0;

  // The same for function(queue).
  template <std::invocable<Queue&> Function>
  void submit(double serial_nanoseconds, Function function) {
    submit(serial_nanoseconds, make_task(std::move(function)));
  }
  template <std::invocable<Queue&> Function>
  void submit_host(Function function) {
    submit_host(make_task(std::move(function)));
  }

  virtual void copy(const Copy& copy) = 0;
  virtual void fill(const Fill& fill) = 0;

  // Puts the mark at the end of the queue. It is reached even if work before it fails or is dropped.
  virtual void record(std::shared_ptr<EventState> event) = 0;

  // Lets later work wait until the mark is reached, be it in a queue already or not.
  virtual void wait(std::shared_ptr<EventState> event) = 0;

  // Waits for what has been submitted so far. False where the deadline passes first.
  virtual bool synchronize(Deadline deadline) = 0;

  virtual bool idle() const = 0;
  virtual void stop_on_failure() = 0;

  // Drops the work that has not started, waits for the rest and refuses all that comes later.
  virtual void close() = 0;
  virtual bool closing() const = 0;

  // The lock that a fork holds, and what its child does then: work that is not done stays with the parent, and
  // synchronize() throws that.
  virtual void act_on_lock(LockAction action) = 0;
  virtual void continue_in_child() = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceKind kind() const = 0;

  // At a multiple of 64 bytes; contents undefined. Throws Error 207001 where there is not so much.
  virtual void* allocate(MemoryPlace place, size_t bytes) = 0;
  virtual void release(MemoryPlace place, void* memory) noexcept = 0;
  virtual MemoryInfo memory_info() const = 0;
  virtual int core_count() const = 0;
  virtual size_t l2_cache_bytes() const = 0;  // 0 where the system does not tell

  // Done when they return; they do not wait for queues.
  virtual void copy(const Copy& copy) = 0;
  virtual void fill(const Fill& fill) = 0;

  virtual std::unique_ptr<Queue> make_queue(StopFlag context_stopped) = 0;
  virtual std::shared_ptr<EventState> make_event_state() = 0;

  // Calls `body` with this as the calling thread's current device.
  virtual void call(const std::function<void()>& body) = 0;
};

// The devices of one kind. The folder of the kind defines a static one; a library that is built without the folder has no
// such devices.
class DeviceDriver {
 public:
  using Count = int (*)();
  using Get = Device& (*)(int index);

  DeviceDriver(DeviceKind kind, Count count_all, Get get_one) : count_(count_all), get_(get_one) {
    built_[static_cast<int>(kind)] = this;
  }

  static int count(DeviceKind kind) {
    const DeviceDriver* driver = built_[static_cast<int>(kind)];
    return driver == nullptr ? 0 : driver->count_();
  }
  // The index is from 0 to count() - 1.
  static Device& get(DeviceKind kind, int index) { return built_[static_cast<int>(kind)]->get_(index); }

 private:
  static inline const DeviceDriver* built_[2] = {};

  const Count count_;
  const Get get_;
};

// The devices that ACLGRAD_DEVICES and ASCEND_RT_VISIBLE_DEVICES leave. The logical CPU devices are one
// Device.
int visible_device_count();
Device& visible_device(int id);

// Which variable hides all devices, or asks for such as there are not; where there are none.
std::string why_no_device();

// What the visible devices are: they are all of one kind.
DeviceKind visible_device_kind();

}  // namespace aclgrad
