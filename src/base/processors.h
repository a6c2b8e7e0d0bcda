// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How many processors the process may use.
#pragma once

#include <string>

namespace aclgrad {

// Those on which the calling thread may be scheduled, or as many as the quota of the process's control group pays for,
// where that is less. At least 1.
int processors();

// What the quotas of a control group and those around it pay for, rounded up; 0 where there is none. `membership` is the
// text of /proc/self/cgroup, `mount` the folder below which the groups are, as /sys/fs/cgroup.
int processors_of_quota(const std::string& membership, const std::string& mount);

}  // namespace aclgrad
