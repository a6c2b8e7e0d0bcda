// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Results of operators: whether a result that the program reads was ever computed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "check/call.h"

namespace aclgrad::check {

// Phase 1 has failed in the calling thread, with the failure of this number. The outputs are missing from
// then on, unless they hold the result of an earlier operator that was not read yet.
void miss_results(std::string_view operator_name, std::vector<Use> outputs, uint64_t failure,
                  const std::string& failure_text);

// The calling thread has taken note of its failures.
void forget_missing_results() noexcept;

// The memory is freed.
void forget_results(const Region& memory) noexcept;

// Looks for uses of the call that read what is missing, and notes what it writes.
void check_results(const Call& call);

}  // namespace aclgrad::check
