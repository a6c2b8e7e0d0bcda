// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/host_tasks.h"

#include <cuda.h>

#include <atomic>
#include <utility>

#include "acl/acl_base.h"
#include "base/fork.h"
#include "base/signals.h"
#include "runtime/cuda/calls.h"

namespace aclgrad {
namespace {

// Lets the stream wait until the word has come to the value.
void let_wait(cudaStream_t stream, const uint32_t* word, uint32_t value) {
  static const auto wait =
      reinterpret_cast<decltype(&cuStreamWaitValue32)>(driver_function("cuStreamWaitValue32"));
  const auto address = reinterpret_cast<CUdeviceptr>(word);
  if (wait != nullptr && wait(stream, address, value, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS) return;
  throw Error(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "A CUDA stream cannot wait for the host: cuStreamWaitValue32 was refused.",
              "The driver is older than CUDA 12, or the device does not support it, or has failed.");
}

}  // namespace

void CudaHostTasks::put_on(cudaStream_t stream, std::function<void()> task) {
  std::list<HostTask> added;
  added.emplace_back(std::move(task));
  added.front().due.record(stream, nullptr);
  start_thread();
  let_wait(stream, done_, added_ + 1);
  // Nothing may fail from here on: the stream waits.
  const std::lock_guard lock(mutex_);
  tasks_.splice(tasks_.end(), added);
  ++added_;
  changed_.notify_all();
}

bool CudaHostTasks::idle() const {
  const std::lock_guard lock(mutex_);
  return completed_ == added_;
}

void CudaHostTasks::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&, target = added_] { return static_cast<int32_t>(completed_ - target) >= 0; });
}

void CudaHostTasks::end() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CudaHostTasks::continue_in_child() {
  begin_anew(mutex_);
  begin_anew(changed_);
  begin_anew(thread_);
  begin_anew(tasks_);
  completed_ = added_;
}

void CudaHostTasks::start_thread() {
  if (thread_.joinable()) return;
  const SignalsBlocked signals_blocked;
  thread_ = std::thread([this] { work(); });
}

void CudaHostTasks::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::list<HostTask> task;
    task.splice(task.end(), tasks_, tasks_.begin());
    lock.unlock();
    try {
      task.front().due.wait(std::nullopt);
    } catch (const std::exception&) {
      // What has failed comes out of the queue's synchronize().
    }
    task.front().run();
    task.clear();  // what it holds is released before anybody sees it done
    std::atomic_ref(*done_).store(completed_ + 1, std::memory_order_release);
    lock.lock();
    ++completed_;
    changed_.notify_all();
  }
}

}  // namespace aclgrad
