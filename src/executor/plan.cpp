// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "executor/plan.h"

#include <cstring>
#include <utility>

#include "base/workspace.h"

namespace aclgrad {
namespace {

std::byte* align(void* workspace) {
  const auto address = reinterpret_cast<uintptr_t>(workspace);
  return reinterpret_cast<std::byte*>((address + kWorkspaceAlignment - 1) / kWorkspaceAlignment *
                                      kWorkspaceAlignment);
}

}  // namespace

SpareLaunches::SpareLaunches() {
  give_back(new Launch);
}

SpareLaunches::~SpareLaunches() {
  for (Task* launch = newest_; launch != nullptr;) delete std::exchange(launch, launch->next);
}

Launch* SpareLaunches::take() {
  Task* launch = newest_.load(std::memory_order_acquire);
  // What others do meanwhile is to put theirs in front of it, so that its successor stays.
  while (launch != nullptr &&
         !newest_.compare_exchange_weak(launch, launch->next, std::memory_order_acquire)) {
  }
  return launch != nullptr ? static_cast<Launch*>(launch) : new Launch;
}

void SpareLaunches::give_back(Launch* launch) noexcept {
  launch->next = newest_.load(std::memory_order_relaxed);
  while (!newest_.compare_exchange_weak(launch->next, launch, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
}

TaskPointer Launch::of(std::shared_ptr<const Plan> plan, const Addresses& addresses, void* workspace) {
  Launch* launch = plan->spare_launches.take();
  launch->plan_ = std::move(plan);
  launch->addresses_ = addresses;
  launch->workspace_ = align(workspace);
  return TaskPointer(launch);
}

void Launch::dispose() noexcept {
  const std::shared_ptr<const Plan> plan = std::move(plan_);  // with which the launch may end
  plan->spare_launches.give_back(this);
}

void* Launch::data(const Argument& argument) const {
  if (argument.packed_at != Argument::kNotPacked) return workspace_ + argument.packed_at;
  if (!argument.given || !argument.used) return nullptr;
  const auto offset = argument.view.offset * static_cast<int64_t>(size_of(argument.type()));
  return static_cast<std::byte*>(addresses_[static_cast<size_t>(argument.index)]) + offset;
}

void Launch::bind(void* problem) const {
  for (size_t i = 0; i < plan_->operand_count; ++i) {
    const auto [argument, offset] = plan_->operands[i];
    void* const address = data(plan_->arguments[static_cast<size_t>(argument)]);
    std::memcpy(static_cast<std::byte*>(problem) + offset, &address, sizeof(address));
  }
}

TensorView Launch::view(const Argument& argument) const {
  TensorView view = argument.view;
  view.base = addresses_[static_cast<size_t>(argument.index)];
  return view;
}

CudaLaunch Launch::cuda() const {
  const Queue::DataError error = plan_->data_error;
  return {queue_->native_handle(), plan_->deterministic, error ? queue_->data_failure(error) : nullptr};
}

void Launch::run(Queue& queue) {
  queue_ = &queue;
  for (const Argument& argument : plan_->arguments) {
    const bool packed = argument.packed_at != Argument::kNotPacked;
    if (packed && !argument.is_output) run_problem(Packing{view(argument), workspace_ + argument.packed_at});
  }
  plan_->work->run(*this);
  for (const Argument& argument : plan_->arguments) {
    const bool packed = argument.packed_at != Argument::kNotPacked;
    if (packed && argument.is_output) run_problem(Unpacking{workspace_ + argument.packed_at, view(argument)});
  }
}

}  // namespace aclgrad
