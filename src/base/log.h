// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The log: lines on stdout where ASCEND_SLOG_PRINT_TO_STDOUT is 1, from ASCEND_GLOBAL_LOG_LEVEL upwards.
#pragma once

#include <string_view>

namespace aclgrad {

// The values of ASCEND_GLOBAL_LOG_LEVEL.
enum class LogLevel { debug = 0, info = 1, warning = 2, error = 3, none = 4 };

bool log_enabled(LogLevel level) noexcept;
void log(LogLevel level, std::string_view message) noexcept;

}  // namespace aclgrad
