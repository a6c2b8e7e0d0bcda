// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Work that queues run.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

namespace aclgrad {

class Queue;

// A task is a node of its queue's list, so that to queue it takes no memory.
class Task {
 public:
  virtual ~Task() = default;

  // Throws Error on failure.
  virtual void run(Queue& queue) = 0;

  // Called last, in any thread, whether the task has run, was dropped or was refused.
  virtual void dispose() noexcept { delete this; }

  // Of who holds the task.
  Task* next = nullptr;
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

}  // namespace aclgrad
