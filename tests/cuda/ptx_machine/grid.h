// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The blocks of a launch, one after another.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernel.h"
#include "memory.h"
#include "warp.h"

namespace ptx {

struct Launch {
  const Kernel* kernel;
  unsigned blocks, threads;
  size_t launched_shared_bytes;
  std::vector<std::byte> parameters;
};

class Grid {
 public:
  // Runs all of a launch; the memory's lock is held meanwhile.
  static void run(const Launch& launch);

  // The one that runs, for what its threads do. Null: none.
  static Grid* running() { return running_; }

  // For messages: the instruction that runs, and in which threads; empty where nothing does.
  static std::string where();
  void set_place(const Instruction& instruction, const Warp& warp, Lanes group) {
    instruction_ = &instruction;
    warp_ = &warp;
    group_ = group;
  }

  const Kernel& kernel() const { return *launch_.kernel; }
  unsigned threads() const { return launch_.threads; }
  const Moment& moment() const { return moment_; }
  void begin_interval();                               // of a warp
  uint64_t blocks_like_this() const { return step_; }  // as many count as does the one that runs

  // Beyond global memory. The local one is that of all threads of the block.
  Region& region(Space space) {
    return space == Space::shared ? shared_ : space == Space::param ? parameters_ : local_;
  }

  // The region that this instruction has used last: most use the same one again.
  Region*& last_region(const Instruction& instruction) {
    return last_regions_[static_cast<size_t>(&instruction - kernel().code.data())];
  }

 private:
  static inline Grid* running_ = nullptr;

  explicit Grid(const Launch& launch);
  void run_block(unsigned block, unsigned blocks);
  bool pass_barrier();  // false where no thread waits

  const Launch& launch_;
  std::vector<std::byte> parameter_bytes_, shared_bytes_, local_bytes_;
  Region parameters_, shared_, local_;
  std::vector<Warp> warps_;
  std::vector<Region*> last_regions_;
  Moment moment_;

  unsigned block_ = 0, step_ = 1;
  const Instruction* instruction_ = nullptr;
  const Warp* warp_ = nullptr;
  Lanes group_ = 0;
};

}  // namespace ptx
