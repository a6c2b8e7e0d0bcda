// The C++ interface of two-dimensional grid sampling: checks a problem, then runs its kernel.
#include "base/problem_check.h"
#include "ops/grid_sampler/kernel.h"

namespace aclgrad {

static constexpr const char* kForward = "grid_sampler_2d";
static constexpr const char* kBackward = "grid_sampler_2d_backward";
static constexpr const char* kDoubleBackward = "grid_sampler_2d_double_backward";

// A sample reads at least `least_side` pixels along each axis.
static void check_sampling(const ProblemCheck& check, const GridSampling& p, int64_t least_side) {
  constexpr int64_t kAny = ProblemCheck::kAny;
  constexpr int64_t kMaxSide = (int64_t{1} << 30) - 1;
  check.type("input", p.input, {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  check.enumerator("interpolation", p.interpolation, Interpolation::bicubic);
  check.enumerator("padding", p.padding, Padding::reflection);
  check.input("input", p.input, p.input.type, {kAny, kAny, kAny, kAny});
  check.number("input.shape[2]", p.input.size(2), least_side, kMaxSide);
  check.number("input.shape[3]", p.input.size(3), least_side, kMaxSide);
  check.input("grid", p.grid, p.input.type, {p.input.size(0), kAny, kAny, 2});
}

static void check(const GridSampler2D& p, ProblemCheck::Addresses addresses) {
  const ProblemCheck check(kForward, addresses);
  const bool has_samples =
      p.input.size(0) != 0 && p.input.size(1) != 0 && p.grid.size(1) != 0 && p.grid.size(2) != 0;
  check_sampling(check, p, has_samples ? 1 : 0);
  check.output("output", p.output, p.input.type,
               {p.input.size(0), p.input.size(1), p.grid.size(1), p.grid.size(2)});
}

static void check(const GridSampler2DBackward& p, ProblemCheck::Addresses addresses) {
  const ProblemCheck check(kBackward, addresses);
  const DataType type = p.input.type;
  check_sampling(check, p, 0);
  check.input("grad_output", p.grad_output, type,
              {p.input.size(0), p.input.size(1), p.grid.size(1), p.grid.size(2)});
  check.wanted_output("grad_input", p.grad_input, type,
                      {p.input.size(0), p.input.size(1), p.input.size(2), p.input.size(3)});
  check.wanted_output("grad_grid", p.grad_grid, type, {p.grid.size(0), p.grid.size(1), p.grid.size(2), 2});
}

static void check(const GridSampler2DDoubleBackward& p, ProblemCheck::Addresses addresses) {
  const ProblemCheck check(kDoubleBackward, addresses);
  const DataType type = p.input.type;
  const int64_t batch = p.input.size(0), channels = p.input.size(1);
  const int64_t height = p.input.size(2), width = p.input.size(3);
  const int64_t output_height = p.grid.size(1), output_width = p.grid.size(2);
  check_sampling(check, p, 0);
  check.input("grad_output", p.grad_output, type, {batch, channels, output_height, output_width});
  if (p.grad_grad_input.defined())
    check.input("grad_grad_input", p.grad_grad_input, type, {batch, channels, height, width});
  if (p.grad_grad_grid.defined())
    check.input("grad_grad_grid", p.grad_grad_grid, type, {batch, output_height, output_width, 2});
  check.wanted_output("grad_grad_output", p.grad_grad_output, type,
                      {batch, channels, output_height, output_width});
  check.wanted_output("grad_input", p.grad_input, type, {batch, channels, height, width});
  check.wanted_output("grad_grid", p.grad_grid, type, {batch, output_height, output_width, 2});
}

size_t workspace_size(const GridSampler2D& problem) {
  return checked_workspace_size(problem);
}
size_t workspace_size(const GridSampler2DBackward& problem) {
  return checked_workspace_size(problem);
}
size_t workspace_size(const GridSampler2DDoubleBackward& problem) {
  return checked_workspace_size(problem);
}

void grid_sampler_2d(const GridSampler2D& problem, const WorkspaceView& workspace) {
  check_and_run(kForward, problem, workspace);
}
void grid_sampler_2d_backward(const GridSampler2DBackward& problem, const WorkspaceView& workspace) {
  check_and_run(kBackward, problem, workspace);
}
void grid_sampler_2d_double_backward(const GridSampler2DDoubleBackward& problem,
                                     const WorkspaceView& workspace) {
  check_and_run(kDoubleBackward, problem, workspace);
}

size_t cuda::workspace_size(const GridSampler2D& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}
size_t cuda::workspace_size(const GridSampler2DBackward& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}

void cuda::grid_sampler_2d(const GridSampler2D& problem, const WorkspaceView& workspace,
                           const CudaLaunch& on) {
  check_and_run(kForward, problem, workspace, on);
}
void cuda::grid_sampler_2d_backward(const GridSampler2DBackward& problem, const WorkspaceView& workspace,
                                    const CudaLaunch& on) {
  check_and_run(kBackward, problem, workspace, on);
}

}  // namespace aclgrad
