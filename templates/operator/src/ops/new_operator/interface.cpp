// The C++ interface of the elementwise product's gradient: checks a problem, then runs its kernel.
#include "base/problem_check.h"
#include "ops/new_operator/kernel.h"

namespace aclgrad {

static ProblemCheck check_of(const NewOperator&) {
  return ProblemCheck("new_operator");
}

static void check_sizes(const NewOperator& problem) {
  const ProblemCheck check = check_of(problem);
  check.type("type", problem.type, {DataType::float32, DataType::float16, DataType::bfloat16});
  check.size("count", problem.count, 0);
}

static void check_tensors(const NewOperator& problem) {
  const ProblemCheck check = check_of(problem);
  const ProblemCheck::Axis axes[] = {{problem.count, 1, ""}};
  check.input("grad_output", problem.grad_output, problem.type, axes);
  check.input("other", problem.other, problem.type, axes);
  check.output("out", problem.out, problem.type, axes);
}

size_t workspace_size(const NewOperator& problem) {
  return checked_workspace_size(problem);
}

double serial_nanoseconds(const NewOperator& problem) {
  return checked_nanoseconds(problem);
}

void new_operator(const NewOperator& problem, void* workspace) {
  check_and_run(problem, workspace);
}

size_t cuda::workspace_size(const NewOperator& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}

void cuda::new_operator(const NewOperator& problem, void* workspace, const CudaLaunch& on) {
  check_and_run(problem, workspace, on);
}

}  // namespace aclgrad
