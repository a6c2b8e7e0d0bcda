// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Calls that use memory: copies, fills and operators, done at once or queued on a stream.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.h"
#include "tensor/region.h"

namespace aclgrad::check {

// Where the memory must lie.
enum class Side {
  device,
  host,       // anywhere but on the device
  allocated,  // in memory of aclrtMalloc or aclrtMallocHost
};

struct Use {
  std::string_view parameter;
  Region region;
  bool writes;
  Side side;
  bool needs_all;  // its result depends on every byte that it reads
};

struct Call {
  std::string_view function;
  std::vector<Use> uses;
  const Queue* queue;  // null for work that is done when the function returns
  bool is_operator;
  bool may_alias = false;  // of an operator whose outputs may share memory with inputs
};

// What the host did through a pointer; `uses` where the processor does not tell.
enum class HostUse { reads, writes, uses };
const char* verb_of(HostUse use);

// "aclrtMemcpyAsync.src (0x…, 256 bytes)"
std::string text_of(std::string_view parameter, const Region& region);
std::string text_of(const Call& call, const Use& use);

}  // namespace aclgrad::check
