// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// One main for all tests: every test may assume a device and a context.
#include <gtest/gtest.h>

#include <cstdlib>

#include "acl/acl.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // a process of their own, not a fork of this one
  if (aclInit(nullptr) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS) return 1;
  const bool deterministic = std::getenv("ACLGRAD_TEST_DETERMINISTIC") != nullptr;
  if (deterministic && aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1) != ACL_SUCCESS) return 1;
  const int failed = RUN_ALL_TESTS();
  aclrtResetDevice(0);
  aclFinalize();
  return failed;
}
