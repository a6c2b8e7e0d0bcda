// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the checker knows of handles: where they were made and destroyed.
#pragma once

#include <string_view>

namespace aclgrad::check {

// Phase 2 takes the executor; true the first time.
bool executor_used(std::string_view function, const void* executor);

// At exit.
void report_unreleased_handles();

}  // namespace aclgrad::check
