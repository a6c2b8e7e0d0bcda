// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The marks of events in CUDA streams.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "runtime/device.h"

namespace aclgrad {

// Asks again and again, as CUDA has no waits with a deadline. False where the deadline passes first.
bool poll_until(Deadline deadline, const std::function<bool()>& is_reached);

// Whether the queried work is over. Work that has failed is over, too; the next wait reports the error.
bool is_over(cudaError_t state);

// The first failure of some work, which any thread may note or ask for.
class FirstFailure {
 public:
  // `earlier`: of work before that.
  explicit FirstFailure(std::shared_ptr<const FirstFailure> earlier = nullptr)
      : earlier_(std::move(earlier)) {}

  void note(const Error& error);
  std::optional<Error> get() const;
  void throw_if_any() const;

 private:
  const std::shared_ptr<const FirstFailure> earlier_;
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
};

// Recorded once. No lock: recording may block where the stream is full, while others ask whether it is reached.
class CudaEventState final : public EventState {
 public:
  explicit CudaEventState(unsigned flags = cudaEventDefault) : flags_(flags) {}
  ~CudaEventState() override;
  CudaEventState(const CudaEventState&) = delete;
  CudaEventState& operator=(const CudaEventState&) = delete;

  bool reached() const override;
  bool wait(Deadline deadline) const override;
  double milliseconds_since(const EventState& start) const override;
  void continue_in_child() override;

  // On the current device, which is the stream's. `failure` is that of the work before the mark, complete when the mark is reached.
  void record(cudaStream_t stream, std::shared_ptr<const FirstFailure> failure);
  void let_wait(cudaStream_t stream) const;

 private:
  const unsigned flags_;
  // Set before recorded_:
  int device_ = 0;
  cudaEvent_t event_ = nullptr;
  std::shared_ptr<const FirstFailure> failure_;
  std::atomic<bool> recorded_{false};
};

}  // namespace aclgrad
