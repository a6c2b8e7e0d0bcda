// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What phase 1 of a call yields and phase 2 runs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "acl/acl_base.h"
#include "runtime/device.h"
#include "tensor/view.h"

namespace aclgrad {

// A tensor of a call, as it was in phase 1: the caller may destroy the handle as soon as phase 2 has
// returned.
struct Argument {
  static constexpr int64_t kNotPacked = -1;

  const char* name = nullptr;
  int index = 0;
  bool given = false;     // false for an optional tensor that was null
  bool used = true;       // false where the kernel neither reads nor writes it, though it was given
  bool is_input = false;  // one that is changed in place is both
  bool is_output = false;
  bool partly_used = false;  // the contents of other arguments choose parts of it
  aclFormat format = ACL_FORMAT_ND;
  const void* handle = nullptr;  // the observer's: the caller's tensor, which may be gone already
  TensorView view;
  int64_t packed_at = kNotPacked;  // where in the workspace its contiguous copy lies

  DataType type() const { return view.type; }
  int64_t size(int axis) const { return view.shape[static_cast<size_t>(axis)]; }
  bool empty() const { return view.empty(); }
};

inline constexpr size_t kMaxArguments = 10;
// Of each argument's storage, as refreshed by aclSet…TensorAddr.
using Addresses = std::array<void*, kMaxArguments>;

// Where in a problem the address of an argument belongs.
struct Operand {
  int argument;
  ptrdiff_t offset;  // bytes
};

class Launch;

// What a plan runs.
class Work {
 public:
  virtual ~Work() = default;
  virtual void run(const Launch& launch) const = 0;
};

// The launches of a plan that are not in use. Phase 2 allocates one only where all are in use. Only the thread that holds
// the executor takes launches; any thread may give them back.
class SpareLaunches {
 public:
  SpareLaunches();  // holds one
  ~SpareLaunches();

  Launch* take();
  void give_back(Launch* launch) noexcept;

 private:
  std::atomic<Task*> newest_{nullptr};
};

struct Plan {
  explicit Plan(std::string_view name) : operator_name(name) {}

  std::string_view operator_name;
  std::array<Argument, kMaxArguments> arguments;  // in the order of the call
  size_t argument_count = 0;
  std::array<Operand, kMaxArguments> operands;
  size_t operand_count = 0;
  uint64_t workspace_size = 0;            // bytes
  int64_t scratch_at = 0;                 // where in the workspace the kernel's own part begins
  bool may_alias = false;                 // outputs may share memory with inputs
  bool can_repeat = true;                 // its executor may be made repeatable
  double serial_nanoseconds = 0;          // estimate of the work on one thread
  bool deterministic = false;             // ACL_OPT_DETERMINISTIC was on
  Queue::DataError data_error = nullptr;  // where its kernel may refuse what lies in device memory
  std::unique_ptr<const Work> work;       // null where there is nothing to do
  mutable SpareLaunches spare_launches;
};

// One run of a plan: its arguments' memory at that time.
class Launch final : public Task {
 public:
  // By the thread that holds the plan's executor.
  static TaskPointer of(std::shared_ptr<const Plan> plan, const Addresses& addresses, void* workspace);

  // Packs inputs, runs the kernel, unpacks outputs.
  void run(Queue& queue) override;
  void dispose() noexcept override;

  // The elements of an argument: the packed copy where the plan makes one, else the tensor's own first
  // element.
  void* data(const Argument& argument) const;

  // Puts the addresses of the plan's operands into a copy of its problem.
  void bind(void* problem) const;

  // The argument with its strides, at the memory of this run.
  TensorView view(const Argument& argument) const;

  bool on_gpu() const { return queue_->kind() == DeviceKind::cuda; }

  // Runs the problem's kernel for the device whose queue this is.
  template <class Problem>
  void run_problem(const Problem& problem) const {
    void* workspace = workspace_ + plan_->scratch_at;
    on_gpu() ? run_kernel(problem, workspace, cuda()) : run_kernel(problem, workspace);
  }

 private:
  CudaLaunch cuda() const;  // how kernels run on a GPU

  std::shared_ptr<const Plan> plan_;
  Addresses addresses_{};
  std::byte* workspace_ = nullptr;
  Queue* queue_ = nullptr;  // while it runs
};

}  // namespace aclgrad

// A plan, the addresses it will run on, and who frees it.
struct aclOpExecutor {
  explicit aclOpExecutor(std::shared_ptr<const aclgrad::Plan> planned) : plan(std::move(planned)) {
    for (const aclgrad::Argument& argument : plan->arguments) {
      if (argument.given) addresses[static_cast<size_t>(argument.index)] = argument.view.base;
    }
  }

  std::shared_ptr<const aclgrad::Plan> plan;  // shared with the runs that are still queued
  aclgrad::Addresses addresses{};
  bool repeatable = false;  // phase 2 frees it unless this is set
};
