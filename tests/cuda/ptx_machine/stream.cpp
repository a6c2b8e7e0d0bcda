// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include <atomic>
#include <utility>

#include "machine.h"

namespace ptx {
namespace {

std::atomic<int> objects{0};

}  // namespace

int live_objects() {
  return objects;
}

void Mark::reach() {
  const std::lock_guard lock(mutex_);
  reached_ = true;
  time_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

void Mark::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reached_; });
}

bool Mark::is_reached() {
  const std::lock_guard lock(mutex_);
  return reached_;
}

}  // namespace ptx

CUstream_st::CUstream_st(int of_device) : device(of_device) {
  ++ptx::objects;
}

CUstream_st::~CUstream_st() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  --ptx::objects;
}

void CUstream_st::add(std::function<void()> work) {
  {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    changed_.wait(lock, [&] { return work_.size() < ptx::kStreamCapacity; });
    work_.push_back(std::move(work));
    ++added_;
  }
  changed_.notify_all();
}

void CUstream_st::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&, target = added_] { return done_ >= target; });
}

bool CUstream_st::idle() {
  const std::lock_guard lock(mutex_);
  return done_ == added_;
}

void CUstream_st::run() {
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

CUevent_st::CUevent_st(int of_device) : device(of_device) {
  ++ptx::objects;
}

CUevent_st::~CUevent_st() {
  --ptx::objects;
}
