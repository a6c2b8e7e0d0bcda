// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The two phases of a call, as the executor tells of them.
#pragma once

#include <string_view>

#include "executor/executor.h"
#include "executor/plan.h"

namespace aclgrad::check {

// Phase 1 has failed: what it had planned by then, null where it had not begun.
void check_failed_phase_1(std::string_view operator_name, const Plan* plan) noexcept;

// Phase 2 of `operator_name` is about to refuse an executor of another operator.
void note_foreign_executor(std::string_view operator_name, const aclOpExecutor& executor);

// Whether the tensors of phase 1 are still what this phase 2 expects.
void check_phase_2(std::string_view operator_name, const aclOpExecutor& executor);

// The memory that the operator will use. Throws Error where it cannot run on it; else turns the addresses into
// those at which the library reaches it.
void check_work(std::string_view operator_name, const Plan& plan, Addresses& addresses, void*& workspace,
                const Queue& queue);

}  // namespace aclgrad::check
