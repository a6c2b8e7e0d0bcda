// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/plans.h"

#include <fmt/format.h>

#include "acl/acl_base.h"
#include "base/handle_registry.h"
#include "check/call.h"
#include "check/check.h"
#include "check/failures.h"
#include "check/handles.h"
#include "check/views.h"

namespace aclgrad::check {
namespace {

void check_output(std::string_view operator_name, const Argument& argument) {
  const TensorView& view = argument.view;
  if (view.empty() || !repeats_elements(view.rank, view.shape.data(), view.strides.data())) return;
  report("overlap", fmt::format("elements of {}.{} share memory, as its strides say, so that not all "
                                "of them can stay. Called at {}",
                                operator_name, argument.name, Place::here().text()));
}

// Of any type that there is: companion libraries compute with more of them than the kernels here.
Region region_of(const TensorView& view) {
  const size_t element = aclDataTypeSize(static_cast<aclDataType>(view.type));
  const auto* first = static_cast<std::byte*>(view.base) + view.offset * static_cast<int64_t>(element);
  return Region::strided(first, element, view.rank, view.shape.data(), view.strides.data());
}

std::vector<Use> outputs_of(const Plan& plan) {
  std::vector<Use> outputs;
  for (const Argument& argument : plan.arguments) {
    const bool is_known = argument.is_output && argument.given && argument.view.base != nullptr;
    if (!is_known) continue;
    outputs.push_back({argument.name, region_of(argument.view), true, Side::device, false});
  }
  return outputs;
}

}  // namespace

void note_foreign_executor(std::string_view operator_name, const aclOpExecutor& executor) {
  report_refusal("executor-mismatch",
                 fmt::format("{} got an aclOpExecutor of {}GetWorkspaceSize. Called at {}", operator_name,
                             executor.plan->operator_name, Place::here().text()));
}

void check_phase_2(std::string_view operator_name, const aclOpExecutor& executor) {
  const bool is_first_use = executor_used(operator_name, &executor);
  if (!is_first_use) return;  // a repeatable executor may outlive its tensors
  for (const Argument& argument : executor.plan->arguments) {
    if (!argument.given || is_live_handle(argument.handle, HandleKind::tensor)) continue;
    report("tensor-destroyed",
           fmt::format("{}.{}: aclTensor {} was destroyed between the phases. Called at {}", operator_name,
                       argument.name, argument.handle, Place::here().text()));
  }
}

void check_failed_phase_1(std::string_view operator_name, const Plan* plan) noexcept {
  as_far_as_memory_goes(
      [&] { phase_1_failed(operator_name, plan != nullptr ? outputs_of(*plan) : std::vector<Use>()); });
}

void check_work(std::string_view operator_name, const Plan& plan, Addresses& addresses, void*& workspace,
                const Queue& queue) {
  Call call{operator_name, {}, &queue, true, plan.may_alias};
  for (const Argument& argument : plan.arguments) {
    if (!argument.given || !argument.used) continue;
    if (argument.is_output) check_output(operator_name, argument);
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
