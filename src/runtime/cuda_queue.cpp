#include "runtime/cuda_queue.h"

#include <cuda.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "acl/acl_base.h"
#include "base/never_destroyed.h"
#include "runtime/fork.h"
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

Error task_failure(const std::exception& error) {
  return Error(ACL_ERROR_RT_AICORE_EXCEPTION,
               std::string("A task of a stream failed: ") + error.what() + ".");
}

// Only the gradient of NSA compress reads such data on the device.
Error data_error(const char* text) {
  return Error(ACL_ERROR_RT_AICORE_EXCEPTION, text,
               "The contents of actSeqLenOptional, in device memory, do not fit the shapes of the tensors.");
}

// Made while the library is loaded: where they are noted, nothing can be done about a lack of memory.
NeverDestroyed<const Error> wrong_sequence_ends(data_error(
    "aclnnNsaCompressGrad.actSeqLenOptional: expected entries that rise from 0 or more to the number of "
    "tokens, got others."));
NeverDestroyed<const Error> wrong_window_count(data_error(
    "aclnnNsaCompressGrad.outputGrad: expected a row for each window of the sequences, got another "
    "number."));

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

// Whether what was queried is over, be it by an error, which the next wait reports.
bool is_over(cudaError_t state) {
  if (state != cudaSuccess) cudaGetLastError();  // so that the program does not find it
  return state != cudaErrorNotReady;
}

bool has_context(int device) noexcept {
  static const auto get_state =
      reinterpret_cast<decltype(&cuDevicePrimaryCtxGetState)>(driver_function("cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = 0;
  return get_state == nullptr || get_state(device, &flags, &active) != CUDA_SUCCESS || active != 0;
}

}  // namespace

void* driver_function(const char* name) noexcept {
  void* function = nullptr;
#if CUDART_VERSION >= 12050
  constexpr unsigned kVersion = 12000;  // of the function's interface
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, kVersion, cudaEnableDefault);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault);
#endif
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess ? function : nullptr;
}

void check_cuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // so that it does not come out of a later call, too
  throw Error(status_of(error), std::string(call) + ": CUDA error " + cudaGetErrorName(error) + ", " +
                                    cudaGetErrorString(error) + ".");
}

CudaDeviceScope::CudaDeviceScope(int device) {
  check_cuda(enter(device), "cudaSetDevice");
}

CudaDeviceScope::CudaDeviceScope(int device, std::nothrow_t) noexcept {
  if (enter(device) != cudaSuccess) cudaGetLastError();
}

CudaDeviceScope::~CudaDeviceScope() {
  if (changed_ && has_context(before_)) cudaSetDevice(before_);
}

cudaError_t CudaDeviceScope::enter(int device) noexcept {
  const cudaError_t error = cudaGetDevice(&before_);
  if (error != cudaSuccess || before_ == device) return error;
  changed_ = true;
  return cudaSetDevice(device);
}

void FirstFailure::note(const Error& error) {
  std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
}

std::optional<Error> FirstFailure::get() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void FirstFailure::continue_in_child() {
  begin_anew(mutex_);
  failure_ = work_of_parent();
}

void FirstFailure::throw_if_any() const {
  if (const std::optional<Error> failure = get()) throw *failure;
}

// ---- Events

CudaEventState::CudaEventState(int device) : device_(device) {
  const CudaDeviceScope scope(device_);
  check_cuda(cudaEventCreateWithFlags(&event_, 0), "cudaEventCreateWithFlags");
}

CudaEventState::~CudaEventState() {
  const CudaDeviceScope scope(device_, std::nothrow);
  cudaEventDestroy(event_);
}

bool CudaEventState::reached() const {
  const CudaDeviceScope scope(device_, std::nothrow);
  std::lock_guard lock(mutex_);
  return recorded_ && is_over(cudaEventQuery(event_));
}

bool CudaEventState::wait(Deadline deadline) const {
  if (deadline && !poll_until(deadline, [&] { return reached(); })) return false;
  const CudaDeviceScope scope(device_);
  check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
  std::unique_lock lock(mutex_);
  const auto failure = failure_;
  lock.unlock();
  if (failure != nullptr) failure->throw_if_any();
  return true;
}

double CudaEventState::milliseconds_since(const EventState& start) const {
  const CudaDeviceScope scope(device_);
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, dynamic_cast<const CudaEventState&>(start).event_, event_),
             "cudaEventElapsedTime");
  return milliseconds;
}

void CudaEventState::continue_in_child() {
  begin_anew(mutex_);
  auto failure = std::make_shared<FirstFailure>();
  failure->note(work_of_parent());
  failure_ = std::move(failure);
}

void CudaEventState::record(cudaStream_t stream, std::shared_ptr<const FirstFailure> failure) {
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
  const CudaDeviceScope scope(device_, std::nothrow);
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
      owned->queue->run_host_task(owned->task);
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

cuda::DataFailure* CudaQueue::data_failure() {
  kernels_check_data_ = true;
  return data_failure_;
}

void CudaQueue::record(std::shared_ptr<EventState> event) {
  in_turn([&] {
    auto failure = std::make_shared<FirstFailure>();
    if (const std::optional<Error> known = failure_.get()) failure->note(*known);
    if (kernels_check_data_) pass_on_data_failure(failure);
    dynamic_cast<CudaEventState&>(*event).record(stream_, std::move(failure));
  });
}

// What kernels have noted up to this place in the stream.
void CudaQueue::pass_on_data_failure(std::shared_ptr<FirstFailure> to) {
  struct Note {
    CudaQueue* queue;
    std::shared_ptr<FirstFailure> to;
  };
  auto note = std::make_unique<Note>(Note{this, std::move(to)});
  const auto run = [](void* data) {
    const std::unique_ptr<Note> owned(static_cast<Note*>(data));
    owned->queue->note_data_failure();
    if (const std::optional<Error> known = owned->queue->failure_.get()) owned->to->note(*known);
  };
  check_cuda(cudaLaunchHostFunc(stream_, run, note.get()), "cudaLaunchHostFunc");
  std::ignore = note.release();
}

void CudaQueue::wait(std::shared_ptr<EventState> event) {
  in_turn([&] { dynamic_cast<const CudaEventState&>(*event).let_wait(stream_); });
}

bool CudaQueue::synchronize(Deadline deadline) {
  if (deadline && !poll_until(deadline, [&] { return idle(); })) return false;
  try {
    const CudaDeviceScope scope(device_);
    check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  } catch (const Error& error) {
    fail(as_runtime_failure(error));
  }
  note_data_failure();
  failure_.throw_if_any();
  return true;
}

bool CudaQueue::idle() const {
  const CudaDeviceScope scope(device_, std::nothrow);
  return is_over(cudaStreamQuery(stream_));
}

void CudaQueue::stop_on_failure() {
  std::lock_guard lock(mutex_);
  stops_on_failure_ = true;
}

void CudaQueue::close() {
  announce([&] { closing_ = true; });
  {
    std::lock_guard turn(turn_);
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  const CudaDeviceScope scope(device_, std::nothrow);
  // Who wanted to know of an error has synchronised before.
  if (cudaStreamSynchronize(stream_) != cudaSuccess) cudaGetLastError();
}

// CUDA itself does not work in the child of a process that has used it.
void CudaQueue::continue_in_child() {
  begin_anew(turn_);
  failure_.continue_in_child();
  closed_ = true;
}

// With the device current and no other thread putting anything on the stream. Throws where the queue takes no more.
template <class Work>
void CudaQueue::in_turn(Work&& work) {
  std::lock_guard turn(turn_);
  refuse_where_stopped();
  const CudaDeviceScope scope(device_);
  work();
}

void CudaQueue::enqueue(const Task& task) {
  in_turn([&] {
    try {
      task(*this);
    } catch (const Error& error) {
      fail(as_runtime_failure(error));
    } catch (const std::exception& error) {
      fail(task_failure(error));
    }
  });
}

void CudaQueue::run_host_task(const Task& task) noexcept {
  if (closing_) return;
  try {
    task(*this);
  } catch (const Error& error) {
    fail(as_runtime_failure(error));
  } catch (const std::exception& error) {
    fail(task_failure(error));
  }
}

void CudaQueue::fail(const Error& error) noexcept {
  failure_.note(error);
  std::lock_guard lock(mutex_);
  if (stops_on_failure_) *context_stopped_ = true;
}

void CudaQueue::note_data_failure() noexcept {
  const cuda::DataFailure noted = *static_cast<volatile cuda::DataFailure*>(data_failure_);
  if (noted == cuda::DataFailure::none) return;
  fail(noted == cuda::DataFailure::sequence_ends ? *wrong_sequence_ends : *wrong_window_count);
}

bool CudaQueue::drops_tasks() const {
  return closed_ || *context_stopped_ || (stops_on_failure_ && failure_.get());
}

void CudaQueue::refuse_where_stopped() const {
  std::lock_guard lock(mutex_);
  if (!drops_tasks()) return;
  failure_.throw_if_any();
  throw Error(ACL_ERROR_RT_STREAM_ABORT, "The stream accepts no work any more.",
              "It was destroyed, or a stream of its context that stops on failure has failed.");
}

}  // namespace aclgrad
