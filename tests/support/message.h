// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What aclGetRecentErrMsg tells.
#pragma once

#include <string>

namespace aclgrad::test {

// Takes this thread's message and expects it to be one that a person can read: it begins with `at`, the function and
// parameter, says what was expected and what came, and has a cause and a solution only where they say more.
void expect_readable_message(const std::string& at);

}  // namespace aclgrad::test
