// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// ACLGRAD_CHECK: a checker of the calling program. docs/checking.md lists what it finds.
//
// It observes the layers below, which do not know it, and costs nothing while it is off. It never changes what a right
// program does.
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

// When memory is exhausted, the checker leaves out what it cannot note, in calls that must not fail for it, such as
// those that release something.
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

void act_on_report_lock(LockAction action);  // for a fork

}  // namespace aclgrad::check
