// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/queue.h"

#include <new>
#include <string>
#include <utility>

#include "acl/acl_base.h"
#include "runtime/cuda/calls.h"
#include "runtime/fork.h"
#include "runtime/progress.h"

namespace aclgrad {
namespace {

// Where the program's memory is none that CUDA knows, CUDA would let the caller wait until the stream comes to the copy.
bool is_pageable(const void* memory) {
  cudaPointerAttributes attributes{};
  check_cuda(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeUnregistered;
}

}  // namespace

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

// Of all queues, allocated once and kept: to free such memory, CUDA waits for all streams, and one of them may wait for the
// thread that destroys a queue.
class CudaQueue::SharedMemory {
 public:
  static Shared* take() {
    static Slot* const slots = allocate();
    for (size_t i = 0; i < kSlots; ++i) {
      if (!slots[i].is_taken.exchange(true)) return new (&slots[i].shared) Shared;
    }
    throw Error(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "Expected at most " + std::to_string(kSlots) + " streams at a time on all CUDA devices.");
  }
  static void give_back(Shared* shared) { reinterpret_cast<Slot*>(shared)->is_taken = false; }

 private:
  static constexpr size_t kSlots = 4096;
  struct alignas(128) Slot {
    Shared shared;
    std::atomic<bool> is_taken{false};
  };

  static Slot* allocate() {
    void* memory = nullptr;
    check_cuda(cudaHostAlloc(&memory, kSlots * sizeof(Slot), cudaHostAllocPortable | cudaHostAllocMapped),
               "cudaHostAlloc");
    return new (memory) Slot[kSlots];
  }
};

CudaQueue::CudaQueue(int device, StopFlag context_stopped)
    : FailingQueue(std::move(context_stopped)), device_(device) {
  const CudaDeviceScope scope(device_);
  shared_ = SharedMemory::take();
  const cudaError_t error = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
  if (error != cudaSuccess) SharedMemory::give_back(shared_);
  check_cuda(error, "cudaStreamCreateWithFlags");
  host_tasks_.emplace(&shared_->host_tasks_done);
}

CudaQueue::~CudaQueue() {
  close();
  const CudaDeviceScope scope(device_, std::nothrow);
  cudaStreamDestroy(stream_);
  SharedMemory::give_back(shared_);
}

void CudaQueue::submit(double, TaskPointer task) {
  enqueue([&] { task->run(*this); });
}

void CudaQueue::submit_host(TaskPointer task) {
  in_turn([&] { put_host_task(std::move(task)); });
}

void CudaQueue::put_host_task(TaskPointer task) {
  auto failure = std::make_shared<FirstFailure>();
  host_tasks_->put_on(stream_,
                      [this, task = std::shared_ptr<Task>(std::move(task)), before = host_failure_, failure] {
                        const std::optional<Error> own = attempt([&] {
                          std::unique_lock lock(mutex_);
                          if (closing_ || drops_tasks()) throw dropped_work();
                          lock.unlock();
                          task->run(*this);
                        });
                        const std::optional<Error> earlier = before->get();
                        if (earlier || own) failure->note(earlier ? *earlier : *own);
                      });
  host_failure_ = std::move(failure);
}

void CudaQueue::copy(const Copy& copy) {
  enqueue([&] {
    if (copy.width == 0 || copy.height == 0) return;
    if (is_pageable(copy.source) || is_pageable(copy.destination)) {
      put_host_task(make_task(
          [device = device_, copy](Queue&) { DeviceDriver::get(DeviceKind::cuda, device).copy(copy); }));
    } else {
      queue_copy(copy, stream_);
    }
  });
}

void CudaQueue::fill(const Fill& fill) {
  enqueue([&] { queue_fill(fill, stream_); });
}

uint32_t* CudaQueue::data_failure(DataError error) {
  for (size_t i = 0; i < kDataErrors; ++i) {
    DataError known = nullptr;
    if (data_errors_[i].compare_exchange_strong(known, error) || known == error)
      return &shared_->data_failures[i];
  }
  throw Error(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "Too many kinds of operators check their data on one stream.");
}

void CudaQueue::record(std::shared_ptr<EventState> event) {
  in_turn([&] {
    auto failure = std::make_shared<FirstFailure>(host_failure_);
    if (const std::optional<Error> known = known_failure()) failure->note(*known);
    if (data_errors_[0] != nullptr) pass_on_data_failure(failure);
    dynamic_cast<CudaEventState&>(*event).record(stream_, std::move(failure));
  });
}

// What kernels have noted up to this place in the stream.
void CudaQueue::pass_on_data_failure(std::shared_ptr<FirstFailure> to) {
  host_tasks_->put_on(stream_, [this, to = std::move(to)] {
    note_data_failure();
    if (const std::optional<Error> known = known_failure()) to->note(*known);
  });
}

void CudaQueue::wait(std::shared_ptr<EventState> event) {
  auto end = std::make_shared<CudaEventState>(cudaEventDisableTiming);
  in_turn([&] {
    dynamic_cast<const CudaEventState&>(*event).let_wait(stream_);
    end->record(stream_, nullptr);
  });
  if (event->waits_of_event != nullptr) event->waits_of_event->add(std::move(end));
}

bool CudaQueue::synchronize(Deadline deadline) {
  if (deadline && !poll_until(deadline, [&] { return idle(); })) return false;
  try {
    const CudaDeviceScope scope(device_);
    check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  } catch (const Error& error) {
    note_failure(error);
  }
  host_tasks_->wait();
  note_data_failure();
  if (const std::optional<Error> known = known_failure()) throw *known;
  return true;
}

bool CudaQueue::idle() const {
  const CudaDeviceScope scope(device_, std::nothrow);
  return is_over(cudaStreamQuery(stream_)) && host_tasks_->idle();
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
  host_tasks_->end();
}

// CUDA itself does not work in the child of a process that has used it.
void CudaQueue::continue_in_child() {
  begin_anew(turn_);
  failure_ = work_of_parent();
  host_tasks_->continue_in_child();
  closed_ = true;
}

// With the device current and no other thread putting anything on the stream. Throws where the queue takes no more.
template <class Work>
void CudaQueue::in_turn(Work&& work) {
  std::lock_guard turn(turn_);
  {
    std::lock_guard lock(mutex_);
    refuse_where_stopped();
  }
  const CudaDeviceScope scope(device_);
  work();
}

template <class Work>
void CudaQueue::enqueue(Work&& work) {
  in_turn([&] { attempt(work); });
}

template <class Work>
std::optional<Error> CudaQueue::attempt(Work&& work) noexcept {
  std::optional<Error> failure = failure_of_work(work);
  if (!failure) return failure;
  note_device_failure();  // which may be why
  note_failure(*failure);
  return failure;
}

void CudaQueue::note_device_failure() noexcept {
  const CudaDeviceScope scope(device_, std::nothrow);
  const cudaError_t state = cudaStreamQuery(stream_);
  if (!is_over(state)) return;
  if (const auto failure = failure_of_work([&] { check_cuda(state, "cudaStreamQuery"); }))
    note_failure(*failure);
}

void CudaQueue::note_failure(const Error& error) noexcept {
  std::lock_guard lock(mutex_);
  fail(failure_of_queue(error));
}

std::optional<Error> CudaQueue::known_failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void CudaQueue::note_data_failure() noexcept {
  for (size_t i = 0; i < kDataErrors; ++i) {
    const DataError error = data_errors_[i];
    const uint32_t code = std::atomic_ref(shared_->data_failures[i]).load();
    if (code != 0) note_failure(error(code));
  }
}

}  // namespace aclgrad
