// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Until when to wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

namespace aclgrad {

using Clock = std::chrono::steady_clock;

// Nothing means for ever.
using Deadline = std::optional<Clock::time_point>;

// False where the deadline passes before the condition holds.
template <class Condition>
bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Deadline deadline,
                Condition&& condition) {
  if (deadline) return changed.wait_until(lock, *deadline, condition);
  changed.wait(lock, condition);
  return true;
}

}  // namespace aclgrad
