// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Allocations under the checker: with guard zones around them, filled with a pattern while they are unset,
// and kept for a while after they were freed, so that a late use still finds this memory with the pattern in
// it.
#pragma once

#include "check/call.h"
#include "check/call_stack.h"
#include "runtime/device.h"

namespace aclgrad::check {

bool is_device_memory(const void* address);
bool is_allocated_memory(const void* address);  // on the device or not

// The region. Where it reaches beyond the live allocation in which it starts: all bytes from there to the end
// of the allocation. Empty where it starts in none.
Region part_in_live_memory(const Region& region);

// From now on the region does not count as unset.
void take_as_written(const Region& region);

// Takes the host's access to the destination of a queued copy away, until the host has synchronised with it.
void deny_destination(const Region& destination);

// The host has used memory that is out of its reach, which is within reach from then on. Takes calls_mutex.
void host_used(const void* address, HostUse use, const CallStack& place) noexcept;

// Whether every use of the call lies where it must, and reads what was written before. What an open queue
// (order.h) is to read may still be written: that is judged when the event is recorded or the callback has
// returned. A queue that is dropped reads nothing any more.
void check_memory(const Call& call);
void check_open_reads();
void forget_open_reads(const Queue& queue) noexcept;

// What is unset in the source of a copy is unset in its destination from then on.
void copy_unset(const Copy& copy);

void report_damaged_guards();
void report_unreleased_memory();

}  // namespace aclgrad::check
