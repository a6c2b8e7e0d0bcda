// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// fork(): the child has the thread that forked and no other. It goes on with all contexts, streams, events and memory of
// its parent, but the work that was queued or running is the parent's: who waits for it here gets an error.
#pragma once

#include "base/error.h"
#include "base/fork.h"

namespace aclgrad {

// The error that a child gets when it waits for work of its parent.
const Error& work_of_parent();

// The locks of each part of the runtime, and what the part does in the child while all locks are held.
void act_on_start_lock(LockAction action);
void act_on_event_table_locks(LockAction action);
void act_on_event_locks(LockAction action);
void act_on_device_table_lock(LockAction action);
void act_on_lock_of_devices(LockAction action);
void act_on_memory_locks(LockAction action);
void act_on_context_table_locks(LockAction action);
void act_on_stream_table_locks(LockAction action);
void act_on_worker_lock(LockAction action);
void act_on_queue_locks(LockAction action);
void act_on_progress_lock(LockAction action);

void continue_start_in_child();
void continue_events_in_child();
void continue_streams_in_child();
void continue_workers_in_child();
void continue_callbacks_in_child();
void continue_progress_in_child();

}  // namespace aclgrad
