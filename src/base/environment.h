// What the environment variables ask for, read once. The README lists them.
#pragma once

#include <string>
#include <vector>

namespace aclgrad {

enum class CheckMode { off, report, error, abort };

struct Environment {
  std::string devices;               // ACLGRAD_DEVICES: "auto", "cpu" or "cuda"
  int num_threads;                   // ACLGRAD_NUM_THREADS; 0 where it is unset or not a positive number
  bool strict;                       // ACLGRAD_STRICT: refuse what any one of the documents refuses
  CheckMode check;                   // ACLGRAD_CHECK: "1", "error" or "abort"
  std::string soc_name;              // ACLGRAD_SOC
  int log_level;                     // ASCEND_GLOBAL_LOG_LEVEL
  bool log_to_stdout;                // ASCEND_SLOG_PRINT_TO_STDOUT or ASCEND_LOG_PRINT_TO_STDOUT
  bool has_visible_devices;          // ASCEND_RT_VISIBLE_DEVICES is set
  std::vector<int> visible_devices;  // its list; an entry that is not a number ends it

  static const Environment& get();
};

}  // namespace aclgrad
