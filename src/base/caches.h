// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace aclgrad {

// Whether a tensor of so many bytes, when it is written, would push everything else out of the caches of a processor. Nor
// would it be there for long: better to write it past them, which does not fetch what it overwrites.
inline bool outgrows_caches(int64_t bytes) {
  return bytes >= int64_t{4} << 20;
}

}  // namespace aclgrad
