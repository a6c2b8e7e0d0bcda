// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/event.h"

#include <chrono>
#include <thread>
#include <utility>

#include "acl/acl_base.h"
#include "runtime/cuda/calls.h"
#include "runtime/fork.h"

namespace aclgrad {

bool poll_until(Deadline deadline, const std::function<bool()>& is_reached) {
  constexpr auto kPause = std::chrono::microseconds(50);
  while (!is_reached()) {
    if (Clock::now() >= *deadline) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

bool is_over(cudaError_t state) {
  if (state != cudaSuccess) cudaGetLastError();  // so that the program does not find it
  return state != cudaErrorNotReady;
}

void FirstFailure::note(const Error& error) {
  std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
}

std::optional<Error> FirstFailure::get() const {
  if (earlier_ != nullptr) {
    if (std::optional<Error> earlier = earlier_->get()) return earlier;
  }
  std::lock_guard lock(mutex_);
  return failure_;
}

void FirstFailure::throw_if_any() const {
  if (const std::optional<Error> failure = get()) throw *failure;
}

CudaEventState::~CudaEventState() {
  if (event_ == nullptr) return;
  const CudaDeviceScope scope(device_, std::nothrow);
  cudaEventDestroy(event_);
}

bool CudaEventState::reached() const {
  if (!recorded_) return false;
  const CudaDeviceScope scope(device_, std::nothrow);
  return is_over(cudaEventQuery(event_));
}

bool CudaEventState::wait(Deadline deadline) const {
  if (deadline && !poll_until(deadline, [&] { return reached(); })) return false;
  if (!recorded_) return true;
  const auto throw_failure = [&] {
    if (failure_ != nullptr) failure_->throw_if_any();
  };
  try {
    const CudaDeviceScope scope(device_);
    check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
  } catch (const Error&) {
    throw_failure();  // which says more: in a forked child, that the work is the parent's
    throw;
  }
  throw_failure();
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
  auto failure = std::make_shared<FirstFailure>();
  failure->note(work_of_parent());
  failure_ = std::move(failure);
}

void CudaEventState::record(cudaStream_t stream, std::shared_ptr<const FirstFailure> failure) {
  failure_ = std::move(failure);
  if (event_ == nullptr) {
    check_cuda(cudaGetDevice(&device_), "cudaGetDevice");
    check_cuda(cudaEventCreateWithFlags(&event_, flags_), "cudaEventCreateWithFlags");
  }
  check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
  recorded_ = true;
}

void CudaEventState::let_wait(cudaStream_t stream) const {
  if (!recorded_) {
    throw Error(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "A stream of a CUDA device was told to wait for an event that was not recorded.",
                "aclrtStreamWaitEvent was called before aclrtRecordEvent.", "Record the event first.");
  }
  check_cuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
}

}  // namespace aclgrad
