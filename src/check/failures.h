// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Calls that failed, and whether the program took note, or reads what they did not compute.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "check/call.h"

namespace aclgrad::check {

// A finding has named what the calling thread's failures have caused.
void failures_were_explained();

// The calling thread's newest failure is that of phase 1. The program is taken to have noticed it unless it
// goes on to phase 2, or reads what the operator was to write: `outputs`, as far as phase 1 has looked at
// them.
void note_failed_phase_1(std::string_view operator_name, std::vector<Use> outputs);

// The memory is freed.
void forget_results(const Region& memory) noexcept;

// Looks for uses of the call that read what is missing, and notes what it writes.
void check_results(const Call& call);

// Function and message of the calling thread's newest failure of phase 1; empty where there is none.
std::string failed_phase_1();

// At exit of a program that ends with success; and of one that does not, where the newest failure is named.
// False where no call has failed.
void report_ignored_failures();
bool report_giving_up(int exit_status);

}  // namespace aclgrad::check
