// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The C++ interface of the grouped bias-add's gradient: checks a problem, then runs its kernel.
#include "base/problem_check.h"
#include "ops/grouped_bias_add/kernel.h"

namespace aclgrad {

static constexpr const char* kName = "grouped_bias_add_backward";
static constexpr const char* kDoubleBackward = "grouped_bias_add_double_backward";

static void check(const GroupedBiasAddBackward& p, ProblemCheck::Addresses addresses) {
  const ProblemCheck check(kName, addresses);
  const DataType type = p.grad_output.type;
  constexpr int64_t kAny = ProblemCheck::kAny;
  check.type("grad_output", p.grad_output, {DataType::float32, DataType::float16, DataType::bfloat16});
  check.enumerator("kind", p.kind, GroupKind::counts);
  check.output("grad_bias", p.grad_bias, type, {kAny, kAny}, 0);
  if (p.has_equal_groups()) {
    check.input("grad_output", p.grad_output, type, {p.groups(), kAny, p.columns()}, 2);
  } else {
    check.input("grad_output", p.grad_output, type, {kAny, p.columns()}, 1);
    check.indices("group_idx", p.group_idx, {p.groups()});
  }
}

static void check(const GroupedBiasAddDoubleBackward& p, ProblemCheck::Addresses addresses) {
  const ProblemCheck check(kDoubleBackward, addresses);
  const DataType type = p.grad_grad_bias.type;
  constexpr int64_t kAny = ProblemCheck::kAny;
  check.type("grad_grad_bias", p.grad_grad_bias,
             {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  check.enumerator("kind", p.kind, GroupKind::counts);
  check.input("grad_grad_bias", p.grad_grad_bias, type, {kAny, kAny}, 0);
  if (p.has_equal_groups()) {
    check.output("grad_grad_output", p.grad_grad_output, type, {p.groups(), kAny, p.columns()}, 2);
  } else {
    check.output("grad_grad_output", p.grad_grad_output, type, {kAny, p.columns()}, 1);
    check.indices("group_idx", p.group_idx, {p.groups()});
  }
}

size_t workspace_size(const GroupedBiasAddBackward& problem) {
  return checked_workspace_size(problem);
}
size_t workspace_size(const GroupedBiasAddDoubleBackward& problem) {
  return checked_workspace_size(problem);
}

void grouped_bias_add_backward(const GroupedBiasAddBackward& problem, const WorkspaceView& workspace) {
  check_and_run(kName, problem, workspace);
}
void grouped_bias_add_double_backward(const GroupedBiasAddDoubleBackward& problem,
                                      const WorkspaceView& workspace) {
  check_and_run(kDoubleBackward, problem, workspace);
}

size_t cuda::workspace_size(const GroupedBiasAddBackward& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}

void cuda::grouped_bias_add_backward(const GroupedBiasAddBackward& problem, const WorkspaceView& workspace,
                                     const CudaLaunch& on) {
  check_and_run(kName, problem, workspace, on);
}

}  // namespace aclgrad
