// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The C++ interface of grid sampling in two and three dimensions: checks a problem, then runs its kernel.
#include "base/problem_check.h"
#include "ops/grid_sampler/kernel.h"

namespace aclgrad {

static constexpr int64_t kAny = ProblemCheck::kAny;

// Of an image [N, C, H, W] or volume [N, C, D, H, W] with a value for each sample.
static Shape samples_of(const GridSampling& p) {
  Shape samples = p.input.shape;
  for (int axis = 2; axis < samples.rank(); ++axis) samples[axis] = p.grid.size(axis - 1);
  return samples;
}

// A sample reads at least `least_side` pixels along each axis.
static void check_sampling(const ProblemCheck& check, const GridSampling& p, int dimensions,
                           int64_t least_side) {
  constexpr int64_t kMaxSide = (int64_t{1} << 30) - 1;
  const bool is_image = dimensions == 2;
  check.type("input", p.input, {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  check.enumerator("interpolation", p.interpolation,
                   is_image ? Interpolation::bicubic : Interpolation::nearest);
  check.enumerator("padding", p.padding, Padding::reflection);
  check.input("input", p.input, p.input.type,
              is_image ? Shape{kAny, kAny, kAny, kAny} : Shape{kAny, kAny, kAny, kAny, kAny});
  for (int axis = 2; axis < dimensions + 2; ++axis)
    check.number("input.shape[" + std::to_string(axis) + "]", p.input.size(axis), least_side, kMaxSide);
  const int64_t batches = p.input.size(0);
  check.input("grid", p.grid, p.input.type,
              is_image ? Shape{batches, kAny, kAny, 2} : Shape{batches, kAny, kAny, kAny, 3});
}

template <class Problem>
static void check_forward(const char* name, const Problem& p, int dimensions,
                          ProblemCheck::Addresses addresses) {
  const ProblemCheck check(name, addresses);
  bool has_samples = p.input.size(0) != 0 && p.input.size(1) != 0;
  for (int axis = 1; axis <= dimensions; ++axis) has_samples = has_samples && p.grid.size(axis) != 0;
  check_sampling(check, p, dimensions, has_samples ? 1 : 0);
  check.output("output", p.output, p.input.type, samples_of(p));
}

template <class Problem>
static void check_backward(const char* name, const Problem& p, int dimensions,
                           ProblemCheck::Addresses addresses) {
  const ProblemCheck check(name, addresses);
  check_sampling(check, p, dimensions, 0);
  check.input("grad_output", p.grad_output, p.input.type, samples_of(p));
  check.wanted_output("grad_input", p.grad_input, p.input.type, p.input.shape);
  check.wanted_output("grad_grid", p.grad_grid, p.input.type, p.grid.shape);
}

static void check(const GridSampler2DDoubleBackward& p, ProblemCheck::Addresses addresses) {
  const ProblemCheck check("grid_sampler_2d_double_backward", addresses);
  const DataType type = p.input.type;
  check_sampling(check, p, 2, 0);
  check.input("grad_output", p.grad_output, type, samples_of(p));
  check.given_input("grad_grad_input", p.grad_grad_input, type, p.input.shape);
  check.given_input("grad_grad_grid", p.grad_grad_grid, type, p.grid.shape);
  check.wanted_output("grad_grad_output", p.grad_grad_output, type, samples_of(p));
  check.wanted_output("grad_input", p.grad_input, type, p.input.shape);
  check.wanted_output("grad_grid", p.grad_grid, type, p.grid.shape);
}

static void check(const GridSampler2D& p, ProblemCheck::Addresses addresses) {
  check_forward("grid_sampler_2d", p, 2, addresses);
}
static void check(const GridSampler2DBackward& p, ProblemCheck::Addresses addresses) {
  check_backward("grid_sampler_2d_backward", p, 2, addresses);
}
static void check(const GridSampler3D& p, ProblemCheck::Addresses addresses) {
  check_forward("grid_sampler_3d", p, 3, addresses);
}
static void check(const GridSampler3DBackward& p, ProblemCheck::Addresses addresses) {
  check_backward("grid_sampler_3d_backward", p, 3, addresses);
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
  check_and_run("grid_sampler_2d", problem, workspace);
}
void grid_sampler_2d_backward(const GridSampler2DBackward& problem, const WorkspaceView& workspace) {
  check_and_run("grid_sampler_2d_backward", problem, workspace);
}
void grid_sampler_2d_double_backward(const GridSampler2DDoubleBackward& problem,
                                     const WorkspaceView& workspace) {
  check_and_run("grid_sampler_2d_double_backward", problem, workspace);
}

size_t cuda::workspace_size(const GridSampler2D& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}
size_t cuda::workspace_size(const GridSampler2DBackward& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}

void cuda::grid_sampler_2d(const GridSampler2D& problem, const WorkspaceView& workspace,
                           const CudaLaunch& on) {
  check_and_run("grid_sampler_2d", problem, workspace, on);
}
void cuda::grid_sampler_2d_backward(const GridSampler2DBackward& problem, const WorkspaceView& workspace,
                                    const CudaLaunch& on) {
  check_and_run("grid_sampler_2d_backward", problem, workspace, on);
}

size_t workspace_size(const GridSampler3D& problem) {
  return checked_workspace_size(problem);
}
size_t workspace_size(const GridSampler3DBackward& problem) {
  return checked_workspace_size(problem);
}

void grid_sampler_3d(const GridSampler3D& problem, const WorkspaceView& workspace) {
  check_and_run("grid_sampler_3d", problem, workspace);
}
void grid_sampler_3d_backward(const GridSampler3DBackward& problem, const WorkspaceView& workspace) {
  check_and_run("grid_sampler_3d_backward", problem, workspace);
}

size_t cuda::workspace_size(const GridSampler3D& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}
size_t cuda::workspace_size(const GridSampler3DBackward& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}

void cuda::grid_sampler_3d(const GridSampler3D& problem, const WorkspaceView& workspace,
                           const CudaLaunch& on) {
  check_and_run("grid_sampler_3d", problem, workspace, on);
}
void cuda::grid_sampler_3d_backward(const GridSampler3DBackward& problem, const WorkspaceView& workspace,
                                    const CudaLaunch& on) {
  check_and_run("grid_sampler_3d_backward", problem, workspace, on);
}

}  // namespace aclgrad
