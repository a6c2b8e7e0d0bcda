// The C++ interface of the grouped bias-add gradient: checks a problem, then runs its kernel.
#include <array>

#include "base/problem_check.h"
#include "ops/grouped_bias_add/kernel.h"

namespace aclgrad {

using Groups = GroupedBiasAddGrad::Groups;

static ProblemCheck check_of(const GroupedBiasAddGrad&) {
  return ProblemCheck("grouped_bias_add_grad");
}

static void check_sizes(const GroupedBiasAddGrad& problem) {
  const ProblemCheck check = check_of(problem);
  check.type("type", problem.type, {DataType::float32, DataType::float16, DataType::bfloat16});
  check.enumerator("kind", problem.kind, Groups::counts);
  check.size("groups", problem.groups, 0);
  check.size("rows", problem.rows, 0);
  check.size("columns", problem.columns, 0);
  const bool equal = problem.kind == Groups::equal;
  check.element_count("grad_y", std::array{equal ? problem.groups : 1, problem.rows, problem.columns});
  check.element_count("out", std::array{problem.groups, problem.columns});
}

static void check_tensors(const GroupedBiasAddGrad& problem) {
  const ProblemCheck check = check_of(problem);
  const bool equal = problem.kind == Groups::equal;
  check.size("row_stride", problem.row_stride, 0);
  if (equal) check.size("group_stride", problem.group_stride, 0);
  const ProblemCheck::Axis grad_y[] = {{equal ? problem.groups : 1, problem.group_stride, ""},
                                       {problem.rows, problem.row_stride, ""},
                                       {problem.columns, 1, ""}};
  check.input("grad_y", problem.grad_y, problem.type, grad_y);
  if (!equal) check.indices("group_idx", problem.group_idx, problem.groups);
  const ProblemCheck::Axis out[] = {{problem.groups, problem.columns, ""}, {problem.columns, 1, ""}};
  check.output("out", problem.out, problem.type, out);
}

size_t workspace_size(const GroupedBiasAddGrad& problem) {
  return checked_workspace_size(problem);
}

double serial_nanoseconds(const GroupedBiasAddGrad& problem) {
  return checked_nanoseconds(problem);
}

void grouped_bias_add_grad(const GroupedBiasAddGrad& problem, void* workspace) {
  check_and_run(problem, workspace);
}

size_t cuda::workspace_size(const GroupedBiasAddGrad& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}

void cuda::grouped_bias_add_grad(const GroupedBiasAddGrad& problem, void* workspace, const CudaLaunch& on) {
  check_and_run(problem, workspace, on);
}

}  // namespace aclgrad
