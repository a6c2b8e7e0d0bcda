// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "grid.h"

#include <algorithm>

#include "fault.h"
#include "findings.h"
#include "settings.h"

namespace ptx {
namespace {

uint32_t intervals = 0;  // of the program so far

uint32_t next_interval() {
  if (++intervals == 0) refuse("more than 2^32 intervals between barriers");
  return intervals;
}

}  // namespace

std::string Grid::where() {
  const Grid* grid = running();
  if (grid == nullptr || grid->instruction_ == nullptr) return "";
  const Instruction& at = *grid->instruction_;
  const unsigned thread = grid->warp_->first_thread() + static_cast<unsigned>(std::countr_zero(grid->group_));
  return "\n  in block " + std::to_string(grid->block_) + ", the warp of thread " + std::to_string(thread) +
         ", line " + std::to_string(at.line) + ": " + std::string(at.text) + "\n  of " +
         demangled(grid->kernel().name);
}

Grid::Grid(const Launch& launch)
    : launch_(launch),
      parameter_bytes_(launch.parameters),
      shared_bytes_(kernel().shared_bytes + launch.launched_shared_bytes),
      local_bytes_(kernel().local_bytes * launch.threads),
      parameters_(parameter_bytes_.data(), parameter_bytes_.size(), true),
      shared_(shared_bytes_.data(), shared_bytes_.size(), false),
      local_(local_bytes_.data(), local_bytes_.size(), false),
      last_regions_(kernel().code.size()) {
  for (unsigned first = 0; first < launch.threads; first += kLanes) {
    warps_.emplace_back(kernel(), first, launch.threads);
  }
}

void Grid::run(const Launch& launch) {
  const std::lock_guard lock(Memory::get().mutex);
  const Kernel& kernel = *launch.kernel;
  Grid grid(launch);
  running_ = &grid;
  plant_fault(kernel);
  ++kernel.launches;
  const unsigned limit = settings().max_blocks;
  const unsigned blocks = limit == 0 ? launch.blocks : std::min(launch.blocks, limit);
  kernel.threads += uint64_t{blocks} * launch.threads;
  grid.moment_.launch = next_interval();
  if (settings().sampled_blocks > 0) grid.step_ = std::max(1u, blocks / settings().sampled_blocks);
  for (unsigned first = 0; first < blocks; first += grid.step_) {
    const unsigned i = first + first * 0x9E3779B9u % grid.step_;  // as what blocks do may repeat
    if (i >= blocks) continue;
    grid.run_block(settings().reversed ? blocks - 1 - i : i, blocks);
    for (Requests* requests : {&kernel.loads, &kernel.stores, &kernel.atomics}) requests->end_block();
  }
  for (Requests* requests : {&kernel.loads, &kernel.stores, &kernel.atomics}) requests->end_launch();
  take_fault_out();
  running_ = nullptr;
}

void Grid::run_block(unsigned block, unsigned blocks) {
  block_ = block;
  moment_.block = moment_.barrier = next_interval();
  shared_.forget();
  local_.forget();
  for (Warp& warp : warps_) warp.start(block, blocks);
  do {
    for (size_t i = 0; i < warps_.size(); ++i) {
      begin_interval();
      warps_[settings().reversed ? warps_.size() - 1 - i : i].run();
    }
  } while (pass_barrier());
}

// All threads must come to the same barrier, or none to any.
bool Grid::pass_barrier() {
  const Instruction* place = nullptr;
  bool is_missed = false;
  for (const Warp& warp : warps_) {
    is_missed |= warp.has_ended_threads();
    if (warp.at_barrier() == 0) continue;
    const Instruction* at = &warp.place_of_barrier();
    if (place != nullptr && place != at) report("threads of a block wait at different barriers");
    place = at;
  }
  if (place == nullptr) return false;
  if (is_missed) report("threads wait at a barrier while others of the block have ended");
  for (Warp& warp : warps_) warp.pass_barrier();
  moment_.barrier = next_interval();
  return true;
}

void Grid::begin_interval() {
  moment_.now = next_interval();
}

}  // namespace ptx
