// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the checker knows of handles: where they were made and destroyed.
#pragma once

#include <string_view>

#include "base/fork.h"

namespace aclgrad::check {

// Phase 2 takes the executor; true the first time.
bool executor_used(std::string_view function, const void* executor);

// At exit.
void report_unreleased_handles();

void act_on_handle_lock(LockAction action);  // for a fork

}  // namespace aclgrad::check
