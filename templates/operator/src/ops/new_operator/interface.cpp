// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The C++ interface of the elementwise product's gradient: checks a problem, then runs its kernel.
#include "base/problem_check.h"
#include "ops/new_operator/kernel.h"

namespace aclgrad {

static constexpr const char* kName = "new_operator";

static void check(const NewOperator& p, ProblemCheck::Addresses addresses) {
  const ProblemCheck check(kName, addresses);
  const DataType type = p.grad_output.type;
  constexpr int64_t kAny = ProblemCheck::kAny;
  check.type("grad_output", p.grad_output, {DataType::float32, DataType::float16, DataType::bfloat16});
  check.input("grad_output", p.grad_output, type, {kAny, kAny}, 0);
  check.input("other", p.other, type, {p.grad_output.size(0), p.grad_output.size(1)}, 0);
  check.output("grad_input", p.grad_input, type, {p.grad_output.size(0), p.grad_output.size(1)}, 0);
}

size_t workspace_size(const NewOperator& problem) {
  return checked_workspace_size(problem);
}

void new_operator(const NewOperator& problem, const WorkspaceView& workspace) {
  check_and_run(kName, problem, workspace);
}

size_t cuda::workspace_size(const NewOperator& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}

void cuda::new_operator(const NewOperator& problem, const WorkspaceView& workspace, const CudaLaunch& on) {
  check_and_run(kName, problem, workspace, on);
}

}  // namespace aclgrad
