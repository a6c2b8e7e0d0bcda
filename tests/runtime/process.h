// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Cases that each run in a process of their own, which exits with 0 if all that it required held.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace aclgrad {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::_Exit(1);
}

#define REQUIRE(condition) require(condition, #condition)

#define EXPECT_CLEAN_EXIT(body) EXPECT_EXIT((body)(), testing::ExitedWithCode(0), "")

// A child that hangs is ended by the alarm.
constexpr unsigned kSecondsOfChild = 60;

inline bool ended_well(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace aclgrad
