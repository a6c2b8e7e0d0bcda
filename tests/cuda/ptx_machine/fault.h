// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Faults that are planted, to see whether the machine finds them: with PTX_PLANT each launch has one, at one of its
// kernel's barriers, which is left out, or atomic operations, which becomes a plain read and write, until it is found there.
// Results may be wrong then. At the end of the program lines tell where it was reached and never found, and how many
// places were reached.
#pragma once

#include "kernel.h"

namespace ptx {

void plant_fault(const Kernel& kernel);  // at the start of a launch
void take_fault_out();                   // at its end

const Instruction* planted_fault();  // null: none

// For a finding: true where faults are planted, of which it must be the finding: in this launch, or by what an earlier one has
// left behind.
bool planted_fault_is_found();

// Places where there was one in a launch that reached it, and those of them where one was found.
struct PlantedFaults {
  int reached = 0, found = 0;

  bool operator==(const PlantedFaults&) const = default;
};
PlantedFaults planted_faults();

}  // namespace ptx
