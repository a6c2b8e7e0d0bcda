// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What fork() needs of parts that have locks: the thread that forks holds all of them meanwhile, so that the child, which
// has no other thread, finds them free and what they guard whole.
#pragma once

#include <mutex>
#include <new>

namespace aclgrad {

// Locks or unlocks.
using LockAction = void (*)(std::mutex&);

// Makes an object of a child anew that counts threads of the parent, and so may neither be used nor destroyed.
template <class Object>
void begin_anew(Object& object) {
  new (&object) Object();
}

// Where the parent has started the threads of kernels, a kernel of the child runs in the thread that calls.
void continue_parallel_in_child();

// Of base/handle_registry.h.
void act_on_handle_locks(LockAction action);

}  // namespace aclgrad
