// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Calls that failed, and whether the program took note.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fork.h"
#include "check/call.h"

namespace aclgrad::check {

// An error was recorded in the calling thread.
void remember_failure(const Error& error);

// The calling thread has asked for the message or the status of its failures.
void failures_were_read();

// A finding has named what the calling thread's failures have caused, or the cause of the one with this
// number.
void failures_were_explained();
void failure_was_explained(uint64_t number);

// The calling thread's newest failure was the answer to a question, such as "there is no context".
void failure_was_an_answer();

// The calling thread's newest failure is that of phase 1. The program is taken to have noticed it unless it
// goes on to phase 2, or reads what the operator was to write: `outputs`, as far as phase 1 has looked at
// them.
void phase_1_failed(std::string_view operator_name, std::vector<Use> outputs);

// Function and message of the calling thread's newest failure of phase 1; empty where there is none.
std::string failed_phase_1();

void act_on_failure_lock(LockAction action);  // for a fork

// At exit of a program that ends with success; and of one that does not, where the newest failure is named.
// False where no call has failed.
void report_ignored_failures();
bool report_giving_up(int exit_status);

}  // namespace aclgrad::check
