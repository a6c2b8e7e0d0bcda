// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/queue.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <set>
#include <utility>

#include "acl/acl_base.h"
#include "base/never_destroyed.h"
#include "base/signals.h"
#include "runtime/fork.h"
#include "runtime/progress.h"

namespace aclgrad {
namespace {

// Handing a task to another thread costs some ten microseconds, and some thirty on a virtual machine. So shorter ones are
// better run at once.
constexpr double kMaxCallerNanoseconds = 200e3;
constexpr double kNeverInCaller = std::numeric_limits<double>::infinity();

// The queues that have a worker. Workers must not outlive the exit handlers, which take down what tasks use,
// such as the thread pool.
struct Workers {
  std::mutex mutex;
  std::set<CpuQueue*> queues;
  bool exiting = false;
  pid_t process = getpid();
};

constexpr Singleton<Workers> workers{};

// What is still queued then runs only if somebody synchronises: its memory may be gone already.
void retire_all_workers() {
  Workers& all = workers();
  if (all.process != getpid()) return;  // a child of _Fork, for which nothing was prepared
  announce([] { progress_board().exiting = true; });
  std::lock_guard lock(all.mutex);
  all.exiting = true;
  for (CpuQueue* queue : all.queues) queue->retire_worker();
}

bool retire_workers_at_exit() {
  if (std::atexit(retire_all_workers) != 0) throw std::bad_alloc();
  return true;
}

}  // namespace

void act_on_worker_lock(LockAction action) {
  action(workers().mutex);
}

void continue_workers_in_child() {
  workers().queues.clear();
  workers().process = getpid();
}

bool CpuEventState::reached() const {
  std::lock_guard lock(progress_board().mutex);
  return reached_;
}

bool CpuEventState::wait(Deadline deadline) const {
  ProgressBoard& board = progress_board();
  std::unique_lock lock(board.mutex);
  if (!wait_until(board.changed, lock, deadline, [&] { return reached_ || board.exiting; })) return false;
  if (!reached_)
    throw Error(ACL_ERROR_RT_EVENT_NOT_COMPLETE, "The process exits before the event is reached.");
  if (failure_) throw *failure_;
  return true;
}

double CpuEventState::milliseconds_since(const EventState& start) const {
  const Clock::time_point start_time = dynamic_cast<const CpuEventState&>(start).time_;
  return std::chrono::duration<double, std::milli>(time_ - start_time).count();
}

void CpuEventState::continue_in_child() {
  if (reached_) return;
  reached_ = true;
  time_ = Clock::now();
  failure_ = work_of_parent();
}

void CpuEventState::mark(std::optional<Error> failure) {
  announce([&] {
    reached_ = true;
    time_ = Clock::now();
    failure_ = std::move(failure);
  });
}

void CpuEventState::wait_on(const Queue& queue) const {
  ProgressBoard& board = progress_board();
  std::unique_lock lock(board.mutex);
  board.changed.wait(lock, [&] { return reached_ || board.exiting || queue.closing(); });
  if (!reached_)
    throw Error(ACL_ERROR_RT_STREAM_ABORT, "The stream ends before an event that it waits for is reached.");
}

CpuQueue::CpuQueue(Device& device, StopFlag context_stopped)
    : FailingQueue(std::move(context_stopped)), device_(device) {}

void CpuQueue::submit(double serial_nanoseconds, TaskPointer task) {
  std::unique_lock lock(mutex_);
  refuse_where_stopped();
  const bool run_here = serial_nanoseconds < kMaxCallerNanoseconds && pending_.empty() && !running_;
  if (!run_here && !has_worker_) {
    lock.unlock();
    start_worker();
    lock.lock();
    refuse_where_stopped();
  }
  pending_.push(std::move(task));
  ++submitted_;
  if (run_here) {
    run_next(lock);
  } else {
    work_.notify_one();
  }
}

void CpuQueue::submit_host(TaskPointer task) {
  submit(kNeverInCaller, std::move(task));
}

template <class Function>
void CpuQueue::submit_bookkeeping(double serial_nanoseconds, Function&& function) {
  TaskPointer task = make_task(std::forward<Function>(function));
  task->is_bookkeeping = true;
  submit(serial_nanoseconds, std::move(task));
}

void CpuQueue::copy(const Copy& copy) {
  submit(estimated_copy_nanoseconds(copy.width * copy.height), [this, copy](Queue&) { device_.copy(copy); });
}

void CpuQueue::fill(const Fill& fill) {
  submit(estimated_copy_nanoseconds(fill.bytes), [this, fill](Queue&) { device_.fill(fill); });
}

void CpuQueue::record(std::shared_ptr<EventState> event) {
  submit_bookkeeping(0, [this, event = std::move(event)](Queue&) {
    std::unique_lock lock(mutex_);
    std::optional<Error> failure = failure_;
    lock.unlock();
    dynamic_cast<CpuEventState&>(*event).mark(std::move(failure));
  });
}

void CpuQueue::wait(std::shared_ptr<EventState> event) {
  const double nanoseconds = event->reached() ? 0 : kNeverInCaller;
  ++event->queued_waits;
  ++event->waits_of_event->queued;
  // Counts down when the task is gone, whether it ran or was refused.
  const std::shared_ptr<void> counted(nullptr, [event](void*) {
    --event->queued_waits;
    --event->waits_of_event->queued;
  });
  submit_bookkeeping(nanoseconds, [event, counted](Queue& queue) {
    dynamic_cast<const CpuEventState&>(*event).wait_on(queue);
  });
}

bool CpuQueue::synchronize(Deadline deadline) {
  std::unique_lock lock(mutex_);
  const uint64_t target = submitted_;
  while (completed_ < target) {
    // Who has nothing else to do takes the next task, rather than wait for the worker to wake up.
    const bool help = !deadline.has_value();
    if (help && !running_) {
      run_next(lock);
    } else if (!wait_until(done_, lock, deadline,
                           [&] { return completed_ >= target || (help && !running_); })) {
      return false;
    }
  }
  if (failure_) throw *failure_;
  return true;
}

bool CpuQueue::idle() const {
  std::lock_guard lock(mutex_);
  return completed_ == submitted_;
}

void CpuQueue::close() {
  {
    std::lock_guard lock(workers().mutex);
    workers().queues.erase(this);
  }
  retire_worker();
  std::unique_lock lock(mutex_);
  closed_ = true;
  done_.wait(lock, [&] { return !running_; });
  while (!pending_.empty()) run_next(lock);
}

void CpuQueue::retire_worker() {
  {
    std::lock_guard lock(mutex_);
    announce([&] { closing_ = true; });
  }
  work_.notify_all();
  if (worker_.joinable()) worker_.join();
}

void CpuQueue::continue_in_child() {
  if (completed_ != submitted_ && !failure_) failure_ = work_of_parent();
  pending_.clear();
  completed_ = submitted_;
  running_ = false;
  has_worker_ = false;
  begin_anew(work_);
  begin_anew(done_);
  begin_anew(worker_);
}

void CpuQueue::start_worker() {
  Workers& all = workers();
  std::lock_guard lock_workers(all.mutex);  // always before a queue's own lock
  std::lock_guard lock(mutex_);
  if (has_worker_ || closing_ || all.exiting) return;
  [[maybe_unused]] static const bool retires_at_exit = retire_workers_at_exit();
  all.queues.insert(this);
  const SignalsBlocked signals_blocked;
  worker_ = std::thread([this] { work(); });
  has_worker_ = true;
}

void CpuQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return closing_ || (!running_ && !pending_.empty()); });
    if (closing_) return;
    run_next(lock);
  }
}

void CpuQueue::run_next(std::unique_lock<std::mutex>& lock) {
  TaskPointer task = pending_.pop();
  const bool drop = !task->is_bookkeeping && drops_tasks();
  if (drop && !failure_) failure_ = dropped_work();
  running_ = true;
  lock.unlock();
  std::optional<Error> failure;
  if (!drop) failure = failure_of_work([&] { task->run(*this); });
  task.reset();  // what it holds is released before anybody sees it done
  lock.lock();
  if (failure) fail(*failure);
  running_ = false;
  ++completed_;
  done_.notify_all();
  if (!pending_.empty()) work_.notify_one();
}

}  // namespace aclgrad
