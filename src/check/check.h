// ACLGRAD_CHECK: a checker of the calling program. docs/checking.md lists what it finds.
//
// The rest of the library calls it at a few places, each behind check::enabled, so that it costs nothing while
// it is off. It never changes what a right program does.
#pragma once

#include <new>
#include <string>
#include <string_view>

#include "base/fork.h"
#include "check/place.h"

namespace aclgrad::check {

extern const bool enabled;

// From now on there are no findings: what they would rest on is not known.
void give_up() noexcept;

// What the checker cannot note for want of memory it lets go, in calls that must not fail for it, such as those that
// release something.
template <class Body>
void as_far_as_memory_goes(Body&& body) {
  try {
    body();
  } catch (const std::bad_alloc&) {
    give_up();
  }
}

// Prints one finding, the text on the same line. Of the same kind at the same place only the first ones are
// printed, the others counted.
void report(const char* kind, std::string_view text, const Place& place = Place::here());

// The same, where the call goes on to fail for this reason: its status is then no finding of its own.
void report_refusal(const char* kind, std::string_view text);

// The calling thread has asked for the message or the status of its failures.
void failures_were_read();

// A finding names what they came to.
void failures_were_explained();

// The calling thread's newest failure was an answer: "there is no context".
void failure_was_an_answer();

// It was one of phase 1, which the program shows to have noticed unless it goes on to phase 2.
void phase_1_failed(std::string_view operator_name);

void act_on_failure_lock(LockAction action);  // for a fork
void act_on_report_lock(LockAction action);

}  // namespace aclgrad::check
