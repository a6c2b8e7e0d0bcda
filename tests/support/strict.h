// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What ACLGRAD_STRICT refuses.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

namespace aclgrad::test {

// That holds() is true in strict mode. The environment is read once, so this runs in a process of its own.
template <class Holds>
void expect_in_strict_mode(Holds&& holds) {
  setenv("ACLGRAD_STRICT", "1", 1);
  EXPECT_EXIT(std::exit(holds() ? 0 : 1), testing::ExitedWithCode(0), "");
  unsetenv("ACLGRAD_STRICT");
}

}  // namespace aclgrad::test
