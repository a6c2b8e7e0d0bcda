// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "base/processors.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

namespace aclgrad {
namespace {

int processors_of_affinity() {
  // More processors than a fixed set can name are an error, which a larger set mends.
  constexpr size_t kMaxProcessors = 1 << 16;
  for (size_t count = CPU_SETSIZE; count <= kMaxProcessors; count *= 2) {
    std::vector<cpu_set_t> sets(count / CPU_SETSIZE);
    const size_t bytes = sets.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, sets.data()) == 0) return CPU_COUNT_S(bytes, sets.data());
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

// Of time on processors, in microseconds.
struct Quota {
  int64_t granted;
  int64_t period;
};

// Version 2 has both numbers in one file; "max" instead of the first one is no quota.
std::optional<Quota> quota_of_version_2(const std::string& folder) {
  Quota quota{};
  std::ifstream file(folder + "/cpu.max");
  if (file >> quota.granted >> quota.period) return quota;
  return std::nullopt;
}

// Version 1 has a file for each; a negative number is no quota.
std::optional<Quota> quota_of_version_1(const std::string& folder) {
  Quota quota{};
  if (!(std::ifstream(folder + "/cpu.cfs_quota_us") >> quota.granted)) return std::nullopt;
  if (!(std::ifstream(folder + "/cpu.cfs_period_us") >> quota.period)) return std::nullopt;
  return quota;
}

int fewer(int count, const std::optional<Quota>& quota) {
  if (!quota || quota->granted <= 0 || quota->period <= 0) return count;
  const auto paid = static_cast<int>((quota->granted + quota->period - 1) / quota->period);
  return count == 0 ? paid : std::min(count, paid);
}

}  // namespace

int processors_of_quota(const std::string& membership, const std::string& mount) {
  int count = 0;
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    // <number>:<controllers>:<path of the group>; version 2 has no controllers.
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_version_2 = controllers.empty();
    const bool limits_cpu = ("," + controllers + ",").find(",cpu,") != std::string::npos;
    if (!is_version_2 && !limits_cpu) continue;
    std::string group = line.substr(second + 1);
    // Up to the root, as groups share what those around them have. In a container the folder of the root is the group
    // itself, whatever its path outside.
    for (;;) {
      if (is_version_2) {
        count = fewer(count, quota_of_version_2(mount + group));
      } else {
        for (const std::string& folder : {fmt::format("{}/{}", mount, controllers), mount + "/cpu"})
          count = fewer(count, quota_of_version_1(folder + group));
      }
      if (group.empty()) break;
      group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
    }
  }
  return count;
}

int processors() {
  std::ifstream file("/proc/self/cgroup");
  std::ostringstream membership;
  membership << file.rdbuf();
  const int allowed = std::max(1, processors_of_affinity());
  const int paid = processors_of_quota(membership.str(), "/sys/fs/cgroup");
  return paid == 0 ? allowed : std::min(allowed, paid);
}

}  // namespace aclgrad
