// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Streams, each of which has a thread that does its work in order, and events.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace ptx {

// What an event marks when it is recorded.
class Mark {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void reach();
  void wait();
  bool is_reached();
  Time time() const { return time_; }  // once it is reached

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  Time time_;
};

}  // namespace ptx

// The names that CUDA's header declares.
struct CUstream_st {
 public:
  explicit CUstream_st(int of_device);
  ~CUstream_st();
  CUstream_st(const CUstream_st&) = delete;
  CUstream_st& operator=(const CUstream_st&) = delete;

  const int device;

  void add(std::function<void()> work);  // waits until there is room
  void finish();                         // waits for what was added so far
  bool idle();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  uint64_t added_ = 0;
  uint64_t done_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

struct CUevent_st {
  explicit CUevent_st(int of_device);
  ~CUevent_st();
  CUevent_st(const CUevent_st&) = delete;
  CUevent_st& operator=(const CUevent_st&) = delete;

  const int device;
  std::shared_ptr<ptx::Mark> mark;
};
