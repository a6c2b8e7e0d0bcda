// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// ACLGRAD_CHECK: a checker of the calling program. docs/checking.md lists what it finds.
//
// It observes the layers below, which do not know it, and costs nothing while it is off. It never changes
// what a right program does.
#pragma once

#include <fmt/format.h>

#include <mutex>
#include <new>
#include <string_view>
#include <utility>

#include "check/call_stack.h"

namespace aclgrad::check {

// Of all that is known about streams, memory, copies and results. The observer (checker.h) takes it, and holds it while it
// calls functions of order.h, memory.h, host_copies.h, failures.h and call.h, but for those that say that they take it. It
// is taken before the locks of streams and queues; those of handles, failures, findings and
// views are taken after them.
extern std::mutex calls_mutex;
extern std::mutex failures_mutex, handles_mutex, reports_mutex;

extern const bool enabled;

// From now on there are no findings: what they would rest on is not known.
void give_up() noexcept;

// When memory is exhausted, the checker leaves out what it cannot note, in calls that must not fail for it,
// such as those that release something.
template <class Body>
void as_far_as_memory_goes(Body&& body) {
  try {
    body();
  } catch (const std::bad_alloc&) {
    give_up();
  }
}

// Prints one finding. Of the same kind at the same place only the first ones are printed, the others counted.
void print_finding(const char* kind, const CallStack& place, std::string_view text);

template <class... Arguments>
void report(const char* kind, const CallStack& place, fmt::format_string<Arguments...> text,
            Arguments&&... arguments) {
  print_finding(kind, place, fmt::format(text, std::forward<Arguments>(arguments)...));
}

// A finding on the call that the program makes now.
template <class... Arguments>
void report_call(const char* kind, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  const CallStack here = CallStack::here();
  report(kind, here, "{} Called at {}", fmt::format(text, std::forward<Arguments>(arguments)...),
         here.text());
}

// The call goes on to fail for a reason that a finding has told: its status is then no finding of its own.
void failure_is_explained();

template <class... Arguments>
void report_refusal(const char* kind, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  report_call(kind, text, std::forward<Arguments>(arguments)...);
  failure_is_explained();
}

// At exit; returns how many findings there were.
size_t print_summary();

}  // namespace aclgrad::check
