// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/call.h"

#include "acl/acl_base.h"
#include "base/handle_registry.h"
#include "check/check.h"
#include "check/checker.h"
#include "check/failures.h"
#include "check/handles.h"
#include "check/host_copies.h"
#include "check/memory.h"
#include "check/order.h"
#include "check/views.h"

namespace aclgrad::check {
namespace {

struct Sides {
  Side destination;
  Side source;
};

Side side_of(const void* memory) {
  return is_device_memory(memory) ? Side::device : Side::host;
}

Sides sides_of(const Copy& copy, aclrtMemcpyKind kind) {
  switch (kind) {
    case ACL_MEMCPY_HOST_TO_HOST:
      return {Side::host, Side::host};
    case ACL_MEMCPY_HOST_TO_DEVICE:
    case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
      return {Side::device, Side::host};
    case ACL_MEMCPY_DEVICE_TO_HOST:
      return {Side::host, Side::device};
    case ACL_MEMCPY_DEFAULT:
      return {side_of(copy.destination), side_of(copy.source)};
    default:
      return {Side::device, Side::device};
  }
}

// Memory that the library has allocated can be put out of the host's reach; other memory is written late.
Copy to_host(std::string_view function, const Copy& copy, const Region& destination, bool is_open) {
  expect_change(destination);
  if (!is_allocated_memory(copy.destination)) return to_staging(function, copy, newest_task(), is_open);
  arrives_in_place(copy, newest_task());
  if (!is_open) deny_destination(destination);
  return copy;
}

// Of any type that there is: companion libraries compute with more of them than the kernels here.
Region region_of(const TensorView& view) {
  const size_t element = aclDataTypeSize(static_cast<aclDataType>(view.type));
  const auto* first = static_cast<std::byte*>(view.base) + view.offset * static_cast<int64_t>(element);
  return Region::strided(first, element, view.rank, view.shape.data(), view.strides.data());
}

// The outputs that held nothing of the program's before: they share no memory with an input, and are none.
std::vector<Use> new_outputs_of(const Plan& plan) {
  const auto is_known = [](const Argument& argument) {
    return argument.given && argument.view.base != nullptr;
  };
  std::vector<Use> outputs;
  for (const Argument& output : plan.arguments) {
    if (!output.is_output || !is_known(output)) continue;
    const Region region = region_of(output.view);
    const bool is_new =
        std::none_of(plan.arguments.begin(), plan.arguments.end(), [&](const Argument& argument) {
          return argument.is_input && is_known(argument) && overlap(region_of(argument.view), region);
        });
    if (is_new) outputs.push_back({output.name, region, true, Side::device, false});
  }
  return outputs;
}

// Looks for mistakes in a call before its work is queued or done. Throws Error where the work would read or write what it
// must not, and so cannot be done.
void begin(const Call& call) {
  check_results(call);
  check_memory(call);
  check_order(call);
}

}  // namespace

const char* verb_of(HostUse use) {
  switch (use) {
    case HostUse::reads:
      return "reads";
    case HostUse::writes:
      return "writes";
    default:
      return "uses";
  }
}

std::string text_of(std::string_view parameter, const Region& region) {
  return fmt::format("{} ({}, {} bytes)", parameter, static_cast<const void*>(region.start),
                     region.bytes_spanned());
}

std::string text_of(const Call& call, const Use& use) {
  return text_of(fmt::format("{}.{}", call.function, use.parameter), use.region);
}

// Returns the copy to do in its place: it uses the library's view of memory and, where it is queued, a buffer of its own
// instead of the host's memory (host_copies.h).
Copy Checker::copy_begins(std::string_view function, const Copy& copy, aclrtMemcpyKind kind, Queue* queue) {
  std::lock_guard lock(calls_mutex);
  const Sides sides = sides_of(copy, kind);
  const Region to = Region::rows(copy.destination, copy.width, copy.destination_pitch, copy.height);
  const Region from = Region::rows(copy.source, copy.width, copy.source_pitch, copy.height);
  begin({function,
         {{"dst", to, true, sides.destination, false}, {"src", from, false, sides.source, false}},
         queue,
         false});
  const bool is_queued = queue != nullptr && !to.empty();
  const bool waits_for_unknown = is_queued && is_open(*queue);
  Copy done = copy;
  if (is_queued && sides.destination == Side::host) done = to_host(function, done, to, waits_for_unknown);
  if (is_queued && !is_device_memory(copy.source)) {
    done = from_snapshot(function, done, newest_task(), *queue, waits_for_unknown);
  }
  if (!waits_for_unknown) copy_unset(copy);
  done.destination = library_view(done.destination);
  done.source = library_view(done.source);
  return done;
}

Fill Checker::fill_begins(std::string_view function, const Fill& fill, const Queue* queue) {
  std::lock_guard lock(calls_mutex);
  const Region region = Region::contiguous(fill.destination, fill.bytes);
  begin({function, {{"devPtr", region, true, Side::allocated, false}}, queue, false});
  return {library_view(fill.destination), fill.value, fill.bytes};
}

void Checker::foreign_executor_passed(std::string_view operator_name, const aclOpExecutor& executor) {
  report_refusal("executor-mismatch", "{} got an aclOpExecutor of {}GetWorkspaceSize.", operator_name,
                 executor.plan->operator_name);
}

// Looks for tensors of phase 1 that are gone.
void Checker::phase_2_begins(std::string_view operator_name, const aclOpExecutor& executor) {
  const bool is_first_use = executor_used(operator_name, &executor);
  if (!is_first_use) return;  // a repeatable executor may outlive its tensors
  for (const Argument& argument : executor.plan->arguments) {
    if (!argument.given || is_live_handle(argument.handle, HandleKind::tensor)) continue;
    report_call("tensor-destroyed", "{}.{}: aclTensor {} was destroyed between the phases.", operator_name,
                argument.name, argument.handle);
  }
}

void Checker::phase_1_failed(std::string_view operator_name, const Plan* plan) noexcept {
  std::lock_guard lock(calls_mutex);
  as_far_as_memory_goes([&] {
    note_failed_phase_1(operator_name, plan != nullptr ? new_outputs_of(*plan) : std::vector<Use>());
  });
}

void Checker::work_begins(std::string_view operator_name, const Plan& plan, Addresses& addresses,
                          void*& workspace, const Queue& queue) {
  std::lock_guard lock(calls_mutex);
  Call call{operator_name, {}, &queue, true, plan.may_alias};
  for (const Argument& argument : plan.arguments) {
    if (!argument.given || !argument.used) continue;
    TensorView view = argument.view;
    view.base = addresses[static_cast<size_t>(argument.index)];
    call.uses.push_back(
        {argument.name, region_of(view), argument.is_output, Side::device, !argument.partly_used});
  }
  call.uses.push_back(
      {"workspace", Region::contiguous(workspace, plan.workspace_size), true, Side::device, false});
  begin(call);
  for (void*& address : addresses) address = library_view(address);
  workspace = library_view(workspace);
}

}  // namespace aclgrad::check
