// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Streams, each of which has a thread that does its work in order, and events.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "machine.h"

namespace ptx {

// What an event marks when it is recorded.
class Mark {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void reach() {
    const std::lock_guard lock(mutex_);
    reached_ = true;
    time_ = std::chrono::steady_clock::now();
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_; });
  }
  bool is_reached() {
    const std::lock_guard lock(mutex_);
    return reached_;
  }
  Time time() const { return time_; }  // once it is reached

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  Time time_;
};

// Of a device, and counted as long as it lives.
struct Object {
  explicit Object(int of_device) : device(of_device) { ++live; }
  ~Object() { --live; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  static inline std::atomic<int> live{0};
  const int device;
};

}  // namespace ptx

// The names that CUDA's header declares.
struct CUevent_st : ptx::Object {
  using Object::Object;

  std::shared_ptr<ptx::Mark> mark;
};

struct CUstream_st : ptx::Object {
 public:
  using Object::Object;
  ~CUstream_st() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  // Waits until there is room.
  void add(std::function<void()> work) {
    {
      std::unique_lock lock(mutex_);
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      changed_.wait(lock, [&] { return work_.size() < ptx::kStreamCapacity; });
      work_.push_back(std::move(work));
      ++added_;
    }
    changed_.notify_all();
  }

  // Waits for what was added so far.
  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&, target = added_] { return done_ >= target; });
  }

  bool idle() {
    const std::lock_guard lock(mutex_);
    return done_ == added_;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ends_ || !work_.empty(); });
      if (work_.empty()) return;
      std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  uint64_t added_ = 0;
  uint64_t done_ = 0;
  bool ends_ = false;
  std::thread thread_;
};
