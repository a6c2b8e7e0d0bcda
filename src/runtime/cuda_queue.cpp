#include "runtime/cuda_queue.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "acl/acl_base.h"
#include "runtime/progress.h"

namespace aclgrad {
namespace {

Status status_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return ACL_ERROR_RT_MEMORY_ALLOCATION;
    case cudaErrorNoDevice:
      return ACL_ERROR_RT_NO_DEVICE;
    case cudaErrorLaunchTimeout:
      return ACL_ERROR_RT_AICORE_TIMEOUT;
    case cudaErrorECCUncorrectable:
      return ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR;
    default:
      return ACL_ERROR_RT_AICORE_EXCEPTION;
  }
}

Error as_runtime_failure(const Error& error) {
  const bool is_runtime_status = error.status() / 1000 == 507;
  if (is_runtime_status) return error;
  return Error(ACL_ERROR_RT_AICORE_EXCEPTION, error.text(), error.possible_cause(), error.solution());
}

// Only the gradient of NSA compress reads such data on the device.
Error error_of(cuda::DataFailure failure) {
  const char* text = failure == cuda::DataFailure::sequence_ends
                         ? "aclnnNsaCompressGrad.actSeqLenOptional: expected entries that rise from 0 or "
                           "more to the number of tokens, "
                           "got others."
                         : "aclnnNsaCompressGrad.outputGrad: expected a row for each window of the "
                           "sequences, got another number.";
  return Error(ACL_ERROR_RT_AICORE_EXCEPTION, text,
               "The contents of actSeqLenOptional, in device memory, do not fit the shapes of the tensors.");
}

// CUDA has no wait that ends at a time, so its state is looked at now and then.
template <class IsReached>
bool poll_until(Deadline deadline, IsReached&& is_reached) {
  constexpr auto kPause = std::chrono::microseconds(50);
  while (!is_reached()) {
    if (Clock::now() >= *deadline) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

bool is_done(cudaError_t state, const char* call) {
  if (state == cudaErrorNotReady) return false;
  check_cuda(state, call);
  return true;
}

}  // namespace

void check_cuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // so that it does not come out of a later call, too
  throw Error(status_of(error), std::string(call) + ": CUDA error " + cudaGetErrorName(error) + ", " +
                                    cudaGetErrorString(error) + ".");
}

CudaDeviceScope::CudaDeviceScope(int device) {
  check_cuda(cudaGetDevice(&before_), "cudaGetDevice");
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
}

CudaDeviceScope::~CudaDeviceScope() {
  cudaSetDevice(before_);
}

// ---- Events

CudaEventState::CudaEventState(int device) : device_(device) {
  const CudaDeviceScope scope(device_);
  check_cuda(cudaEventCreateWithFlags(&event_, 0), "cudaEventCreateWithFlags");
}

CudaEventState::~CudaEventState() {
  cudaEventDestroy(event_);
}

bool CudaEventState::reached() const {
  std::lock_guard lock(mutex_);
  return recorded_ && cudaEventQuery(event_) != cudaErrorNotReady;
}

bool CudaEventState::wait(Deadline deadline) const {
  if (deadline) {
    if (!poll_until(deadline, [&] { return reached(); })) return false;
    check_cuda(cudaEventQuery(event_), "cudaEventQuery");
  } else {
    check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
  }
  std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
  return true;
}

double CudaEventState::milliseconds_since(const EventState& start) const {
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, dynamic_cast<const CudaEventState&>(start).event_, event_),
             "cudaEventElapsedTime");
  return milliseconds;
}

void CudaEventState::record(cudaStream_t stream, std::optional<Error> failure) {
  std::lock_guard lock(mutex_);
  check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
  recorded_ = true;
  failure_ = std::move(failure);
}

void CudaEventState::let_wait(cudaStream_t stream) const {
  std::lock_guard lock(mutex_);
  if (!recorded_) {
    throw Error(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "A stream of a CUDA device was told to wait for an event that was not recorded.",
                "aclrtStreamWaitEvent was called before aclrtRecordEvent.", "Record the event first.");
  }
  check_cuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
}

// ---- Queues

void queue_copy(const Copy& copy, cudaStream_t stream) {
  const bool is_plain =
      copy.height == 1 || (copy.destination_pitch == copy.width && copy.source_pitch == copy.width);
  if (copy.width == 0 || copy.height == 0) return;
  // Where the two lie, CUDA sees from their addresses.
  if (is_plain) {
    check_cuda(
        cudaMemcpyAsync(copy.destination, copy.source, copy.width * copy.height, cudaMemcpyDefault, stream),
        "cudaMemcpyAsync");
  } else {
    check_cuda(cudaMemcpy2DAsync(copy.destination, copy.destination_pitch, copy.source, copy.source_pitch,
                                 copy.width, copy.height, cudaMemcpyDefault, stream),
               "cudaMemcpy2DAsync");
  }
}

void queue_fill(const Fill& fill, cudaStream_t stream) {
  if (fill.bytes == 0) return;
  check_cuda(cudaMemsetAsync(fill.destination, fill.value, fill.bytes, stream), "cudaMemsetAsync");
}

CudaQueue::CudaQueue(int device, StopFlag context_stopped)
    : device_(device), context_stopped_(std::move(context_stopped)) {
  const CudaDeviceScope scope(device_);
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  void* shared = nullptr;
  const cudaError_t error =
      cudaHostAlloc(&shared, sizeof(cuda::DataFailure), cudaHostAllocPortable | cudaHostAllocMapped);
  if (error != cudaSuccess) cudaStreamDestroy(stream_);
  check_cuda(error, "cudaHostAlloc");
  data_failure_ = static_cast<cuda::DataFailure*>(shared);
  *data_failure_ = cuda::DataFailure::none;
}

CudaQueue::~CudaQueue() {
  close();
  cudaStreamDestroy(stream_);
  cudaFreeHost(data_failure_);
}

void CudaQueue::submit(double, Task task) {
  enqueue(task);
}

void CudaQueue::submit_host(Task task) {
  struct HostTask {
    CudaQueue* queue;
    Task task;
  };
  enqueue([&](Queue&) {
    auto host_task = std::make_unique<HostTask>(HostTask{this, std::move(task)});
    const auto run = [](void* data) {
      const std::unique_ptr<HostTask> owned(static_cast<HostTask*>(data));
      try {
        owned->task(*owned->queue);
      } catch (const Error& error) {
        owned->queue->fail(as_runtime_failure(error));
      } catch (const std::exception& error) {
        owned->queue->fail(Error(ACL_ERROR_RT_AICORE_EXCEPTION, error.what()));
      }
    };
    check_cuda(cudaLaunchHostFunc(stream_, run, host_task.get()), "cudaLaunchHostFunc");
    std::ignore = host_task.release();
  });
}

void CudaQueue::copy(const Copy& copy) {
  enqueue([&](Queue&) { queue_copy(copy, stream_); });
}

void CudaQueue::fill(const Fill& fill) {
  enqueue([&](Queue&) { queue_fill(fill, stream_); });
}

void CudaQueue::record(std::shared_ptr<EventState> event) {
  std::unique_lock lock(mutex_);
  std::optional<Error> failure = failure_;
  lock.unlock();
  const CudaDeviceScope scope(device_);
  dynamic_cast<CudaEventState&>(*event).record(stream_, std::move(failure));
}

void CudaQueue::wait(std::shared_ptr<EventState> event) {
  const CudaDeviceScope scope(device_);
  dynamic_cast<const CudaEventState&>(*event).let_wait(stream_);
}

bool CudaQueue::synchronize(Deadline deadline) {
  const CudaDeviceScope scope(device_);
  try {
    if (!deadline) {
      check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    } else if (!poll_until(deadline, [&] { return is_done(cudaStreamQuery(stream_), "cudaStreamQuery"); })) {
      return false;
    }
  } catch (const Error& error) {
    fail(as_runtime_failure(error));
  }
  throw_failure();
  return true;
}

bool CudaQueue::idle() const {
  return cudaStreamQuery(stream_) != cudaErrorNotReady;
}

void CudaQueue::stop_on_failure() {
  std::lock_guard lock(mutex_);
  stops_on_failure_ = true;
}

void CudaQueue::close() {
  announce([&] { closing_ = true; });
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  cudaStreamSynchronize(stream_);
}

void CudaQueue::enqueue(const Task& task) {
  {
    std::lock_guard lock(mutex_);
    refuse_where_stopped();
  }
  try {
    const CudaDeviceScope scope(device_);
    task(*this);
  } catch (const Error& error) {
    fail(as_runtime_failure(error));
  } catch (const std::exception& error) {
    fail(Error(ACL_ERROR_RT_AICORE_EXCEPTION,
               std::string("A task of a stream failed: ") + error.what() + "."));
  }
}

void CudaQueue::fail(const Error& error) {
  std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
  if (stops_on_failure_) *context_stopped_ = true;
}

void CudaQueue::throw_failure() {
  const cuda::DataFailure noted = *static_cast<volatile cuda::DataFailure*>(data_failure_);
  if (noted != cuda::DataFailure::none) fail(error_of(noted));
  std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
}

bool CudaQueue::drops_tasks() const {
  return closed_ || *context_stopped_ || (stops_on_failure_ && failure_);
}

void CudaQueue::refuse_where_stopped() const {
  if (!drops_tasks()) return;
  if (failure_) throw *failure_;
  throw Error(ACL_ERROR_RT_STREAM_ABORT, "The stream accepts no work any more.",
              "It was destroyed, or a stream of its context that stops on failure has failed.");
}

}  // namespace aclgrad
