// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The environment variables. They are read while the library is loaded: each case has a process of its own.
#include "base/environment.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "fixture.h"
#include "process.h"

namespace aclgrad {
namespace {

class EnvironmentTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& name : names_) unsetenv(name.c_str());
  }
  void set(const char* name, const char* value) {
    names_.emplace_back(name);
    setenv(name, value, 1);
  }

 private:
  std::vector<std::string> names_;
};

// With nothing on standard error, or one line.
#define EXPECT_QUIET(condition) EXPECT_CLEAN_EXIT_SAYING([&] { REQUIRE(condition); }, "^$")
#define EXPECT_LINE(condition, line) \
  EXPECT_CLEAN_EXIT_SAYING([&] { REQUIRE(condition); }, "^aclgrad: " line "\n$")

TEST_F(EnvironmentTest, SwitchesHaveAllTheirWordsInAnyCase) {
  for (const char* value : {"1", "true", "True", "ON", "yes", " 1\n"}) {
    set("ACLGRAD_STRICT", value);
    EXPECT_QUIET(Environment::get().strict);
  }
  for (const char* value : {"0", "false", "FALSE", "off", "No", "", " "}) {
    set("ACLGRAD_STRICT", value);
    EXPECT_QUIET(!Environment::get().strict);
  }
}

TEST_F(EnvironmentTest, AWrongSwitchIsOn) {
  set("ACLGRAD_STRICT", "ture");
  EXPECT_LINE(Environment::get().strict,
              "ACLGRAD_STRICT=ture: expected 1, true, on or yes; 0, false, off or no; "
              "it counts as 1\\.");
}

TEST_F(EnvironmentTest, CheckIsASwitchOrAMode) {
  const std::pair<const char*, CheckMode> cases[] = {
      {"off", CheckMode::off},     {"NO", CheckMode::off},   {"ERROR", CheckMode::error},
      {"Abort", CheckMode::abort}, {"1", CheckMode::report}, {"True", CheckMode::report}};
  // Without exit handlers, as the checker says at the end what it has found.
  const auto has_mode = [](CheckMode mode) { std::_Exit(Environment::get().check == mode ? 0 : 1); };
  for (const auto& [value, mode] : cases) {
    set("ACLGRAD_CHECK", value);
    EXPECT_EXIT(has_mode(mode), testing::ExitedWithCode(0), "^$");
  }
  set("ACLGRAD_CHECK", "eror");
  EXPECT_EXIT(has_mode(CheckMode::abort), testing::ExitedWithCode(0),
              "^aclgrad: ACLGRAD_CHECK=eror: .*error; abort; it counts as abort\\.\n$");
}

TEST_F(EnvironmentTest, NumbersAreWholeAndInTheirRange) {
  set("ACLGRAD_NUM_THREADS", "3");
  EXPECT_QUIET(Environment::get().num_threads == 3);
  for (const char* value : {"abc", "0", "-1", "2.5", "4 threads", "99999999999"}) {
    set("ACLGRAD_NUM_THREADS", value);
    EXPECT_LINE(Environment::get().num_threads == 1,
                "ACLGRAD_NUM_THREADS=.*: expected a number of at least 1; it counts as 1\\.");
  }
  set("ACLGRAD_NUM_THREADS", "");
  for (const char* value : {"5", "debug"}) {
    set("ASCEND_GLOBAL_LOG_LEVEL", value);
    EXPECT_LINE(Environment::get().log_level == 0,
                "ASCEND_GLOBAL_LOG_LEVEL=.*: expected a number from 0 to 4; it counts as 0\\.");
  }
}

TEST_F(EnvironmentTest, TheLogHasTwoSwitches) {
  set("ASCEND_LOG_PRINT_TO_STDOUT", "yes");
  EXPECT_QUIET(Environment::get().log_to_stdout);
  set("ASCEND_LOG_PRINT_TO_STDOUT", "off");
  EXPECT_QUIET(!Environment::get().log_to_stdout);
}

bool has_devices(uint32_t expected) {
  uint32_t count = 99;
  return aclrtGetDeviceCount(&count) == ACL_SUCCESS && count == expected;
}

TEST_F(EnvironmentTest, DevicesHaveTheirWordsInAnyCase) {
  set("ACLGRAD_DEVICES", "CPU");
  EXPECT_QUIET(has_devices(8));
}

TEST_F(EnvironmentTest, TheListOfDevicesIsOfNumbers) {
  set("ACLGRAD_DEVICES", "cpu");
  set("ASCEND_RT_VISIBLE_DEVICES", "2, 0 ,7");
  EXPECT_QUIET(has_devices(3));
}

}  // namespace
}  // namespace aclgrad
