// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What the environment variables ask for, read once. docs/environment.md lists them. A wrong value is one line on standard error,
// and counts as the strictest one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace aclgrad {

enum class CheckMode { off, report, error, abort };
enum class DeviceChoice { automatic, cpu, cuda };

struct Environment {
  DeviceChoice devices = DeviceChoice::automatic;  // ACLGRAD_DEVICES
  int num_threads = 0;                             // ACLGRAD_NUM_THREADS; 0 where it is unset
  bool strict = false;               // ACLGRAD_STRICT: refuse what any one of the documents refuses
  CheckMode check = CheckMode::off;  // ACLGRAD_CHECK
  std::string soc_name;              // ACLGRAD_SOC
  int log_level = 3;                 // ASCEND_GLOBAL_LOG_LEVEL
  bool log_to_stdout = false;        // ASCEND_SLOG_PRINT_TO_STDOUT or ASCEND_LOG_PRINT_TO_STDOUT
  bool has_visible_devices = false;  // ASCEND_RT_VISIBLE_DEVICES is set
  std::vector<int> visible_devices;  // its list; empty where it is wrong
  std::string devices_text;          // both as they were given, for messages
  std::string visible_devices_text;

  static const Environment& get();
};

// The line on standard error: what the variable is, what is possible, and as what it counts.
void report_wrong_value(const char* name, std::string_view value, std::string_view possible,
                        std::string_view counts_as) noexcept;

}  // namespace aclgrad
