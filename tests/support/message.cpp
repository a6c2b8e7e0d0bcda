// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "support/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "acl/acl.h"

namespace aclgrad::test {

using testing::HasSubstr;
using testing::Not;

void expect_readable_message(const std::string& at) {
  const char* taken = aclGetRecentErrMsg();
  ASSERT_NE(taken, nullptr);
  const std::string text = taken;
  static const std::regex format(
      R"(\[PID: \d+\] \d{4}-\d\d-\d\d-\d\d:\d\d:\d\d [A-Z]\w+\([A-Z]{2}\d{4}\): ([^\n]+: expected [^\n]+, got [^\n]+\.))"
      R"((\n +Possible Cause: [A-Z][^\n]+\.\n +Solution: ([A-Z][^\n]+\.))?)");
  std::smatch parts;
  ASSERT_TRUE(std::regex_match(text, parts, format)) << text;
  EXPECT_EQ(parts[1].str().rfind(at, 0), 0U) << text;
  EXPECT_FALSE(std::regex_search(parts[3].str(), std::regex("^Pass \\w+ as|describes|^Do without"))) << text;
  EXPECT_THAT(text, Not(HasSubstr("%")));
  EXPECT_THAT(text, Not(testing::AnyOf(HasSubstr("{"), HasSubstr("}"))));
  EXPECT_THAT(text, Not(testing::AnyOf(HasSubstr("(null)"), HasSubstr("  got"), HasSubstr(".."))));
  // An address stands only where the caller's value is told.
  EXPECT_FALSE(std::regex_search(text, std::regex("([^t] |[^ ])0x"))) << text;
}

}  // namespace aclgrad::test
