// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Device and host memory that programs allocate, and what is known about it.
#pragma once

#include "runtime/device.h"
#include "runtime/parameter.h"

namespace aclgrad {

// On the device of the calling thread's context. Of the `reserved` bytes the program asked for `requested`.
void* allocate_memory(MemoryPlace place, size_t requested, size_t reserved);

// Throws Error 100000 where `memory` is not the start of a live allocation of that place.
void release_memory(Parameter parameter, MemoryPlace place, void* memory);

// As the current device states it, less what was promised to this process but is not in use yet.
MemoryInfo current_memory_info();

}  // namespace aclgrad
