// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// How kernels use global memory, counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <unordered_set>

namespace ptx {

class Region;
using Lanes = uint32_t;  // some of a warp, one bit for each

// A request is one access of a warp, a sector 32 bytes that it touches.
class Requests {
 public:
  // One that stands for those of as many blocks.
  void note(const uint64_t* addresses, Lanes active, size_t bytes, uint64_t blocks);
  void end_block() { in_block_.clear(); }
  void end_launch();
  void print(std::FILE* file, const char* name) const;

 private:
  struct Extent {
    uint64_t first, last, sectors;
  };

  uint64_t requests_ = 0, sectors_ = 0, bytes_ = 0;
  uint64_t of_blocks_ = 0;    // sectors, each once in a block
  uint64_t of_launches_ = 0;  // sectors, as of_blocks_, but in a launch no more than there are
  std::unordered_set<uint64_t> in_block_;
  std::map<const Region*, Extent> in_launch_;
};

}  // namespace ptx
