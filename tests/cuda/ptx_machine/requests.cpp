// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "requests.h"

#include <algorithm>

#include "memory.h"
#include "settings.h"
#include "warp.h"

namespace ptx {

void Requests::note(const uint64_t* addresses, Lanes active, size_t bytes, uint64_t blocks) {
  if (settings().counts.empty()) return;
  constexpr uint64_t kSector = 32;
  uint64_t sectors[kLanes];
  size_t found = 0;
  for_each_lane(active, [&](int lane) { sectors[found++] = addresses[lane] / kSector; });
  std::sort(sectors, sectors + found);
  uint64_t* const end = std::unique(sectors, sectors + found);
  requests_ += blocks;
  sectors_ += blocks * static_cast<uint64_t>(end - sectors);
  bytes_ += blocks * found * bytes;
  const uint64_t address = addresses[std::countr_zero(active)];
  const Region* region = Memory::get().last_from(reinterpret_cast<const void*>(address));
  Extent& extent = in_launch_.try_emplace(region, Extent{sectors[0], sectors[0], 0}).first->second;
  extent.first = std::min(extent.first, sectors[0]);
  extent.last = std::max(extent.last, end[-1]);
  const size_t before = in_block_.size();
  in_block_.insert(sectors, end);
  const uint64_t added = blocks * (in_block_.size() - before);
  of_blocks_ += added;
  extent.sectors += added;
}

void Requests::end_launch() {
  for (const auto& [region, extent] : in_launch_)
    of_launches_ += std::min(extent.sectors, extent.last - extent.first + 1);
  in_launch_.clear();
}

void Requests::print(std::FILE* file, const char* name) const {
  std::fprintf(file, " %s=%lu/%lu/%lu/%lu/%lu", name, requests_, sectors_, bytes_, of_blocks_, of_launches_);
}

}  // namespace ptx
