// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Memory of this process that may be gone.
#pragma once

#include <cstddef>

namespace aclgrad::check {

// False where any of it is not readable, or the system does not allow to find out.
bool read_own_memory(const void* from, std::byte* to, size_t bytes);

// For a forked child: the file that is open still shows the memory of its parent.
void forget_own_memory();

}  // namespace aclgrad::check
