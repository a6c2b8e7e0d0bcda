// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The queue of a CUDA device.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <mutex>
#include <optional>

#include "runtime/cuda/event.h"
#include "runtime/cuda/host_tasks.h"
#include "runtime/failure.h"

namespace aclgrad {

// Copies and fills, queued on a stream.
void queue_copy(const Copy& copy, cudaStream_t stream);
void queue_fill(const Fill& fill, cudaStream_t stream);

// A CUDA stream. What fails on the device stays with the device, as CUDA has it, and comes out of every synchronize();
// what a kernel refuses about its data is noted in memory that it shares with the host.
//
// The stream lives as long as the queue, so until the last call that uses it is over. close() is what waits: work that is
// on the stream cannot be dropped, but for host tasks whose turn has not come. mutex_ is never held during calls of CUDA,
// which may block.
class CudaQueue final : public FailingQueue {
 public:
  CudaQueue(int device, StopFlag context_stopped);
  ~CudaQueue() override;

  DeviceKind kind() const override { return DeviceKind::cuda; }
  void* native_handle() const override { return stream_; }
  uint32_t* data_failure(DataError error) override;
  using Queue::submit;
  using Queue::submit_host;
  void submit(double serial_nanoseconds, TaskPointer task) override;
  void submit_host(TaskPointer task) override;
  void copy(const Copy& copy) override;
  void fill(const Fill& fill) override;
  void record(std::shared_ptr<EventState> event) override;

  // An event that was not recorded yet is refused: CUDA has no way to wait for one.
  void wait(std::shared_ptr<EventState> event) override;
  bool synchronize(Deadline deadline) override;
  bool idle() const override;
  void close() override;
  void continue_in_child() override;

 private:
  static constexpr size_t kDataErrors = 15;  // at most, of different operators

  // In host memory that the device reads and writes.
  struct Shared {
    uint32_t data_failures[kDataErrors] = {};
    uint32_t host_tasks_done = 0;
  };
  class SharedMemory;

  template <class Work>
  void in_turn(Work&& work);
  template <class Work>
  void enqueue(Work&& work);
  template <class Work>
  std::optional<Error> attempt(Work&& work) noexcept;
  void put_host_task(TaskPointer task);
  void note_failure(const Error& error) noexcept;
  void note_data_failure() noexcept;
  void note_device_failure() noexcept;
  void pass_on_data_failure(std::shared_ptr<FirstFailure> to);
  std::optional<Error> known_failure() const;

  const int device_;
  cudaStream_t stream_ = nullptr;
  Shared* shared_ = nullptr;
  std::optional<CudaHostTasks> host_tasks_;  // without a value in the constructor alone

  // Held while something is put on the stream, so that close() can wait for it. That blocks where the stream is full, until
  // the host task at its head has run: nobody who asks about the stream takes it.
  std::mutex turn_;
  std::shared_ptr<FirstFailure> host_failure_ =
      std::make_shared<FirstFailure>();  // of the host tasks up to the last one

  std::array<std::atomic<DataError>, kDataErrors> data_errors_{};  // of data_failures, the first ones
};

}  // namespace aclgrad
