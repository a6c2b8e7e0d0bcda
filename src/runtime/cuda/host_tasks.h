// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Tasks on the host that take their turn in a CUDA stream.
#pragma once

#include <cuda_runtime.h>

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/cuda/event.h"

namespace aclgrad {

// They run in a thread of their own, not in one of CUDA's (cudaLaunchHostFunc): that may serve all streams, a function in it
// must not wait for threads that may wait for CUDA, and it calls nothing once the device has failed.
class CudaHostTasks {
 public:
  // `done`: a word in memory that the host and the device share, 0 before, which lives until end().
  explicit CudaHostTasks(uint32_t* done) : done_(done) {}
  ~CudaHostTasks() { end(); }
  CudaHostTasks(const CudaHostTasks&) = delete;
  CudaHostTasks& operator=(const CudaHostTasks&) = delete;

  // `task`, which must not throw, runs when the work that is on the stream is done or has failed; what is put there later
  // waits for it. For one caller at a time, with the device current.
  void put_on(cudaStream_t stream, std::function<void()> task);

  bool idle() const;
  void wait() const;  // until all tasks have run that were put before
  void end();         // waits, and puts an end to the thread
  void continue_in_child();

 private:
  struct HostTask {
    explicit HostTask(std::function<void()> task)
        : due(cudaEventBlockingSync | cudaEventDisableTiming), run(std::move(task)) {}

    CudaEventState due;
    std::function<void()> run;
  };

  void start_thread();
  void work();

  uint32_t* const done_;

  mutable std::mutex mutex_;  // never held during calls of CUDA
  mutable std::condition_variable changed_;
  std::list<HostTask> tasks_;
  uint32_t added_ = 0;
  uint32_t completed_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace aclgrad
