// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What one observer may see of the two phases (base/observer.h).
#pragma once

#include <optional>
#include <string_view>

#include "base/observer.h"
#include "executor/plan.h"

namespace aclgrad {

class ExecutorObserver {
 public:
  virtual ~ExecutorObserver() = default;

  // By phase 1, on this device if there was one.
  virtual void executor_made(const aclOpExecutor&, std::optional<int> /*device_id*/) noexcept {}

  // Phase 1 has failed: what it had planned by then, null where it had not begun.
  virtual void phase_1_failed(std::string_view /*operator_name*/, const Plan*) noexcept {}

  // Phase 2, or a function of executors, got one that is not live.
  virtual void dead_executor_passed(std::string_view /*function*/, const aclOpExecutor*) {}

  // Phase 2 is about to refuse the executor of another operator.
  virtual void foreign_executor_passed(std::string_view /*operator_name*/, const aclOpExecutor&) {}

  virtual void phase_2_begins(std::string_view /*operator_name*/, const aclOpExecutor&) {}

  // The work of phase 2 is about to be handed to the queue, to run on these addresses and this workspace: they may be
  // changed. Throws Error where it cannot run on them.
  virtual void work_begins(std::string_view /*operator_name*/, const Plan&, Addresses&, void*& /*workspace*/,
                           const Queue&) {}

  // Where the library reads and writes what the program has at this address.
  virtual void* library_address(void* address) { return address; }
};

inline ExecutorObserver* executor_observer = nullptr;

}  // namespace aclgrad
