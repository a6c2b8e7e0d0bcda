// The queue and the event marks of a CUDA device.
#pragma once

#include <cuda_runtime.h>

#include <mutex>
#include <new>
#include <optional>

#include "base/error.h"
#include "runtime/device.h"

namespace aclgrad {

// Makes a device the calling thread's current one, and the one before it again at the end: the program may use CUDA
// itself. A device on which nothing has been done stays untouched: to make it current would create a context there, of
// hundreds of megabytes.
class CudaDeviceScope {
 public:
  explicit CudaDeviceScope(int device);

  // For what must not throw. Where CUDA refuses, the calls that follow fail by themselves.
  CudaDeviceScope(int device, std::nothrow_t) noexcept;
  ~CudaDeviceScope();
  CudaDeviceScope(const CudaDeviceScope&) = delete;
  CudaDeviceScope& operator=(const CudaDeviceScope&) = delete;

 private:
  cudaError_t enter(int device) noexcept;

  int before_ = 0;
  bool changed_ = false;
};

// A function of CUDA's driver, which is not linked: a machine without a GPU has none. Null where the driver is too old.
void* driver_function(const char* name) noexcept;

// Throws Error with the runtime's status for what CUDA reports: 507… for what work on the device has run into.
void check_cuda(cudaError_t error, const char* call);

// Copies and fills, queued on a stream.
void queue_copy(const Copy& copy, cudaStream_t stream);
void queue_fill(const Fill& fill, cudaStream_t stream);

// The first failure of some work, which any thread may note or ask for.
class FirstFailure {
 public:
  void note(const Error& error);
  std::optional<Error> get() const;
  void throw_if_any() const;
  void continue_in_child();  // what it belongs to is the parent's

 private:
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
};

class CudaEventState final : public EventState {
 public:
  explicit CudaEventState(int device);
  ~CudaEventState() override;
  CudaEventState(const CudaEventState&) = delete;
  CudaEventState& operator=(const CudaEventState&) = delete;

  bool reached() const override;
  bool wait(Deadline deadline) const override;
  double milliseconds_since(const EventState& start) const override;
  void continue_in_child() override;

  // `failure` is that of the work before the mark, complete when the mark is reached.
  void record(cudaStream_t stream, std::shared_ptr<const FirstFailure> failure);
  void let_wait(cudaStream_t stream) const;

 private:
  int device_;
  cudaEvent_t event_ = nullptr;
  mutable std::mutex mutex_;
  bool recorded_ = false;
  std::shared_ptr<const FirstFailure> failure_;
};

// A CUDA stream. What fails on the device stays with the device, as CUDA has it, and comes out of every synchronize();
// what a kernel refuses about its data is noted in memory that it shares with the host.
//
// The stream lives as long as the queue, so until the last call that uses it is over. close() is what waits: work that is
// on the stream cannot be dropped, but for host tasks whose turn has not come.
class CudaQueue final : public Queue {
 public:
  CudaQueue(int device, StopFlag context_stopped);
  ~CudaQueue() override;

  DeviceKind kind() const override { return DeviceKind::cuda; }
  void* native_handle() const override { return stream_; }
  cuda::DataFailure* data_failure() override;
  void submit(double serial_nanoseconds, Task task) override;
  void submit_host(Task task) override;
  void copy(const Copy& copy) override;
  void fill(const Fill& fill) override;
  void record(std::shared_ptr<EventState> event) override;

  // An event that was not recorded yet is refused: CUDA has no way to wait for one.
  void wait(std::shared_ptr<EventState> event) override;
  bool synchronize(Deadline deadline) override;
  bool idle() const override;
  void stop_on_failure() override;
  void close() override;
  bool closing() const override { return closing_; }
  void act_on_lock(LockAction action) override { action(mutex_); }
  void continue_in_child() override;

 private:
  template <class Work>
  void in_turn(Work&& work);
  void enqueue(const Task& task);
  void run_host_task(const Task& task) noexcept;
  void fail(const Error& error) noexcept;
  void note_data_failure() noexcept;
  void pass_on_data_failure(std::shared_ptr<FirstFailure> to);
  bool drops_tasks() const;
  void refuse_where_stopped() const;

  const int device_;
  const StopFlag context_stopped_;
  cudaStream_t stream_ = nullptr;
  cuda::DataFailure* data_failure_ = nullptr;  // host memory that kernels write

  std::mutex turn_;  // held while something is put on the stream, so that close() can wait for it

  mutable std::mutex mutex_;  // never held during calls of CUDA, which may wait for host tasks
  bool stops_on_failure_ = false;
  bool closed_ = false;
  FirstFailure failure_;
  std::atomic<bool> closing_{false};
  std::atomic<bool> kernels_check_data_{false};
};

}  // namespace aclgrad
