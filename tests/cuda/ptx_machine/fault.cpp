// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "fault.h"

#include <cstdio>
#include <map>
#include <vector>

#include "findings.h"
#include "settings.h"

namespace ptx {
namespace {

struct Place {
  const Kernel* kernel;
  int launches = 0, found = 0;
};

const Instruction* planted = nullptr;
uint64_t runs_before = 0;
bool found = false;

class Places {
 public:
  ~Places() {
    if (settings().plant == Plant::nothing) return;
    for (const auto& [instruction, place] : all) {
      if (place.launches == 0 || place.found > 0) continue;
      std::printf("not found in %d launches: line %d of %s: %.*s\n", place.launches, instruction->line,
                  demangled(place.kernel->name).c_str(), static_cast<int>(instruction->text.size()),
                  instruction->text.data());
    }
    const PlantedFaults faults = planted_faults();
    std::printf("planted faults: %d places reached, %d found\n", faults.reached, faults.found);
  }

  std::map<const Instruction*, Place> all;
};
Places places;

}  // namespace

void plant_fault(const Kernel& kernel) {
  if (settings().plant == Plant::nothing) return;
  std::vector<const Instruction*> candidates;
  for (const Instruction& instruction : kernel.code) {
    const bool is_barrier = instruction.kind == Kind::barrier || instruction.kind == Kind::warp_barrier;
    const bool is_wanted =
        settings().plant == Plant::barriers ? is_barrier : instruction.kind == Kind::atomic;
    const auto before = places.all.find(&instruction);
    const bool was_found = before != places.all.end() && before->second.found > 0;
    if (is_wanted && !was_found) candidates.push_back(&instruction);
  }
  if (candidates.empty()) return;
  // In no regular turn: what launches are given may change from one to the next.
  planted = candidates[(kernel.launches * 2654435761u >> 16) % candidates.size()];
  runs_before = planted->runs;
  found = false;
  places.all[planted].kernel = &kernel;
}

void take_fault_out() {
  if (planted != nullptr && planted->runs > runs_before) {
    ++places.all[planted].launches;
    places.all[planted].found += found;
  }
  planted = nullptr;
}

const Instruction* planted_fault() {
  return planted;
}

PlantedFaults planted_faults() {
  PlantedFaults faults;
  for (const auto& [instruction, place] : places.all) {
    faults.reached += place.launches > 0;
    faults.found += place.found > 0;
  }
  return faults;
}

bool planted_fault_is_found() {
  if (planted != nullptr) found = true;
  return settings().plant != Plant::nothing;
}

}  // namespace ptx
