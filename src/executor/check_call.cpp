#include "executor/check_call.h"

#include <fmt/format.h>

#include "base/handle_registry.h"
#include "check/call.h"
#include "check/check.h"
#include "check/failures.h"
#include "check/handles.h"
#include "check/views.h"

namespace aclgrad {
namespace {

void check_output(std::string_view operator_name, const Argument& argument) {
  const TensorView& view = argument.view;
  if (view.empty() || !check::repeats_elements(view.rank, view.shape.data(), view.strides.data())) return;
  check::report("overlap", fmt::format("elements of {}.{} share memory, as its strides say, so that not all "
                                       "of them can stay. Called at {}",
                                       operator_name, argument.name, check::Place::here().text()));
}

check::Region region_of(const TensorView& view) {
  return check::Region::strided(view.first(), size_of(view.type), view.rank, view.shape.data(),
                                view.strides.data());
}

std::vector<check::Use> outputs_of(const Plan& plan) {
  std::vector<check::Use> outputs;
  for (const Argument& argument : plan.arguments) {
    const bool is_known = argument.is_output && argument.given && argument.view.base != nullptr;
    if (!is_known) continue;
    outputs.push_back({argument.name, region_of(argument.view), true, check::Side::device, false});
  }
  return outputs;
}

}  // namespace

void note_foreign_executor(std::string_view operator_name, const aclOpExecutor& executor) {
  check::report_refusal(
      "executor-mismatch",
      fmt::format("{} got an aclOpExecutor of {}GetWorkspaceSize. Called at {}", operator_name,
                  executor.plan->operator_name, check::Place::here().text()));
}

void check_executor(std::string_view operator_name, const aclOpExecutor& executor) {
  const bool is_first_use = check::executor_used(operator_name, &executor);
  if (!is_first_use) return;  // a repeatable executor may outlive its tensors
  for (const Argument& argument : executor.plan->arguments) {
    if (!argument.given || is_live_handle(argument.handle, HandleKind::tensor)) continue;
    check::report("tensor-destroyed",
                  fmt::format("{}.{}: aclTensor {} was destroyed between the phases. Called at {}",
                              operator_name, argument.name, argument.handle, check::Place::here().text()));
  }
}

void check_failed_plan(std::string_view operator_name, const Plan* plan) noexcept {
  check::as_far_as_memory_goes([&] {
    check::phase_1_failed(operator_name, plan != nullptr ? outputs_of(*plan) : std::vector<check::Use>());
  });
}

void check_call(std::string_view operator_name, const Plan& plan, Addresses& addresses, void*& workspace,
                const Queue& queue) {
  check::Call call{operator_name, {}, &queue, true};
  for (const Argument& argument : plan.arguments) {
    if (!argument.given || !argument.used) continue;
    if (argument.is_output) check_output(operator_name, argument);
    TensorView view = argument.view;
    view.base = addresses[static_cast<size_t>(argument.index)];
    call.uses.push_back(
        {argument.name, region_of(view), argument.is_output, check::Side::device, !argument.partly_used});
  }
  call.uses.push_back({"workspace", check::Region::contiguous(workspace, plan.workspace_size), true,
                       check::Side::device, false});
  check::begin(call);
  for (void*& address : addresses) address = check::library_view(address);
  workspace = check::library_view(workspace);
}

}  // namespace aclgrad
