// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Calls that use memory: copies, fills and operators, done at once or queued on a stream.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "acl/acl_rt.h"
#include "check/check.h"
#include "check/region.h"
#include "executor/executor.h"
#include "executor/plan.h"
#include "runtime/device.h"

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

// Looks for mistakes in a call before its work is queued or done. Throws Error where the work would read or
// write what it must not, and so cannot be done.
void begin(const Call& call);

// The same for a copy. Returns the copy to do in its place: it uses the library's view of memory and, where
// it is queued, a buffer of its own instead of the host's memory (host_copies.h).
Copy begin_copy(std::string_view function, const Copy& copy, aclrtMemcpyKind kind, Queue* queue);

Fill begin_fill(std::string_view function, const Fill& fill, const Queue* queue);

// ---- The two phases of an operator, as the executor tells of them ----

// Phase 1 has failed. `plan` is what it had planned by then, null where it had not begun.
void check_failed_phase_1(std::string_view operator_name, const Plan* plan);

// Phase 2 of `operator_name` is about to refuse an executor of another operator.
void note_foreign_executor(std::string_view operator_name, const aclOpExecutor& executor);

// Looks for tensors of phase 1 that are gone when phase 2 begins.
void check_phase_2(std::string_view operator_name, const aclOpExecutor& executor);

// Looks for mistakes in the memory that the operator will use. Throws Error where the operator cannot run on
// it; else replaces the addresses by those of the library's view.
void check_work(std::string_view operator_name, const Plan& plan, Addresses& addresses, void*& workspace,
                const Queue& queue);

}  // namespace aclgrad::check
