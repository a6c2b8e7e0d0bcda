// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Accesses of the host, through a pointer, to memory that is out of its reach.
#pragma once

namespace aclgrad::check {

// From here on such accesses are findings. The program goes on after them.
void watch_host_accesses();

}  // namespace aclgrad::check
