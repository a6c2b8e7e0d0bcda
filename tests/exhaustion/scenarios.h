// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What programs do with the library, in pieces that may fail at any step. A scenario allocates nothing itself, releases
// what it has made whatever happens, and has results to compare.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace scenarios {

using Run = std::function<int()>;

struct Scenario {
  std::string name;
  // The first status that was not success; 0 where everything succeeded and the results were right. Wrong results, and
  // objects that cannot be released, end the process.
  Run run;
};

// Each assumes that the library was started and the thread has a device, and leaves it so.
const std::vector<Scenario>& on_a_device();

// From aclInit to aclFinalize.
int whole_program();

// Takes the memory that whole_program needs for itself, before there is too little.
void prepare();

}  // namespace scenarios
