// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How the machine runs kernels, by the environment: whatever a GPU may do as well.
#pragma once

#include <cstdint>
#include <string>

namespace ptx {

// Which threads of a warp go on where they are at different places.
enum class Schedule { lowest, highest, random };  // place in the code
enum class Plant { nothing, barriers, atomics };

struct Settings {
  std::string architecture;              // PTX_ARCHITECTURE, such as 80: the newest that a program has
  Schedule schedule = Schedule::lowest;  // PTX_SCHEDULE
  bool reversed = false;         // PTX_REVERSED: blocks, warps and the lanes of an atomic from last to first
  uint32_t max_blocks = 0;       // PTX_BLOCKS: of a grid, so that kernels go over their work in steps; 0: any
  Plant plant = Plant::nothing;  // PTX_PLANT: a fault in each launch, see fault.h
  std::string counts;            // PTX_COUNTS: a file to which the counts of all kernels are added at the end
  uint32_t sampled_blocks =
      0;  // PTX_SAMPLE: about so many of a launch run, each counts for many; results are wrong
};

Settings& settings();

}  // namespace ptx
