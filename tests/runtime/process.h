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

// The body, then the end of the process, say `message` (a regular expression) on standard error and nothing fails.
#define EXPECT_CLEAN_EXIT_SAYING(body, message) \
  EXPECT_EXIT(                                  \
      {                                         \
        (body)();                               \
        std::exit(0);                           \
      },                                        \
      testing::ExitedWithCode(0), message)
#define EXPECT_CLEAN_EXIT(body) EXPECT_CLEAN_EXIT_SAYING(body, "")

// A child that hangs is ended by the alarm.
constexpr unsigned kSecondsOfChild = 60;

inline bool ended_well(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace aclgrad
