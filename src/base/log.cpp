// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <cstdio>

#include "base/environment.h"

namespace aclgrad {

bool log_enabled(LogLevel level) noexcept {
  const Environment& environment = Environment::get();
  return environment.log_to_stdout && static_cast<int>(level) >= environment.log_level;
}

void log(LogLevel level, std::string_view message) noexcept {
  if (!log_enabled(level)) return;
  constexpr const char* kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
  std::printf("[%s] aclgrad: %.*s\n", kNames[static_cast<int>(level)], static_cast<int>(message.size()),
              message.data());
}

}  // namespace aclgrad
