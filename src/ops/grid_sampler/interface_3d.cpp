// The C++ interface of three-dimensional grid sampling: checks a problem, then runs its kernel.
#include <algorithm>
#include <array>

#include "base/problem_check.h"
#include "ops/grid_sampler/kernel.h"

namespace aclgrad {
namespace {

using Sizes = std::array<int64_t, 5>;

Sizes input_sizes(const GridSampling3D& problem) {
  return {problem.batch, problem.channels, problem.depth, problem.height, problem.width};
}
Sizes grid_sizes(const GridSampling3D& problem) {
  return {problem.batch, problem.output_depth, problem.output_height, problem.output_width, 3};
}
Sizes output_sizes(const GridSampling3D& problem) {
  return {problem.batch, problem.channels, problem.output_depth, problem.output_height, problem.output_width};
}

std::array<ProblemCheck::Axis, 5> axes(const Sizes& sizes, const GridSampling3D::Strides& strides) {
  return {{{sizes[0], strides[0], "_strides[0]"},
           {sizes[1], strides[1], "_strides[1]"},
           {sizes[2], strides[2], "_strides[2]"},
           {sizes[3], strides[3], "_strides[3]"},
           {sizes[4], strides[4], "_strides[4]"}}};
}

void check_sampling(const ProblemCheck& check, const GridSampling3D& problem, int64_t least_side) {
  constexpr int64_t kMaxSide = (int64_t{1} << 30) - 1;
  check.type("type", problem.type,
             {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  check.enumerator("interpolation", problem.interpolation, Interpolation::nearest);
  check.enumerator("padding", problem.padding, Padding::reflection);
  check.size("batch", problem.batch, 0);
  check.size("channels", problem.channels, 0);
  check.size("depth", problem.depth, least_side, kMaxSide);
  check.size("height", problem.height, least_side, kMaxSide);
  check.size("width", problem.width, least_side, kMaxSide);
  check.size("output_depth", problem.output_depth, 0);
  check.size("output_height", problem.output_height, 0);
  check.size("output_width", problem.output_width, 0);
  check.element_count("input", input_sizes(problem));
  check.element_count("grid", grid_sizes(problem));
  check.element_count("output", output_sizes(problem));
  check.input_strides("input", axes(input_sizes(problem), problem.input_strides));
  check.input_strides("grid", axes(grid_sizes(problem), problem.grid_strides));
}

void check_sampled_data(const ProblemCheck& check, const GridSampling3D& problem) {
  check.data("input", problem.input, problem.type, axes(input_sizes(problem), problem.input_strides));
  check.data("grid", problem.grid, problem.type, axes(grid_sizes(problem), problem.grid_strides));
}

}  // namespace

static ProblemCheck check_of(const GridSampler3D&) {
  return ProblemCheck("grid_sampler_3d");
}
static ProblemCheck check_of(const GridSampler3DBackward&) {
  return ProblemCheck("grid_sampler_3d_backward");
}

// The workspace follows from strides, too: tensors in another order are brought into that of the kernel.
static void check_sizes(const GridSampler3D& problem) {
  const ProblemCheck check = check_of(problem);
  const Sizes sizes = output_sizes(problem);
  const bool is_empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  check_sampling(check, problem, is_empty ? 0 : 1);  // what is sampled has a voxel
  check.output_strides("output", axes(sizes, problem.output_strides));
}

static void check_sizes(const GridSampler3DBackward& problem) {
  const ProblemCheck check = check_of(problem);
  check_sampling(check, problem, 0);
  check.input_strides("grad_output", axes(output_sizes(problem), problem.grad_output_strides));
  if (problem.wants_input_grad)
    check.output_strides("input_grad", axes(input_sizes(problem), problem.input_grad_strides));
  if (problem.wants_grid_grad)
    check.output_strides("grid_grad", axes(grid_sizes(problem), problem.grid_grad_strides));
}

static void check_tensors(const GridSampler3D& problem) {
  const ProblemCheck check = check_of(problem);
  check_sampled_data(check, problem);
  check.data("output", problem.output, problem.type, axes(output_sizes(problem), problem.output_strides));
}

static void check_tensors(const GridSampler3DBackward& problem) {
  const ProblemCheck check = check_of(problem);
  check_sampled_data(check, problem);
  check.data("grad_output", problem.grad_output, problem.type,
             axes(output_sizes(problem), problem.grad_output_strides));
  if (problem.wants_input_grad) {
    check.data("input_grad", problem.input_grad, problem.type,
               axes(input_sizes(problem), problem.input_grad_strides));
  }
  if (problem.wants_grid_grad) {
    check.data("grid_grad", problem.grid_grad, problem.type,
               axes(grid_sizes(problem), problem.grid_grad_strides));
  }
}

size_t workspace_size(const GridSampler3D& problem) {
  return checked_workspace_size(problem);
}
size_t workspace_size(const GridSampler3DBackward& problem) {
  return checked_workspace_size(problem);
}

double serial_nanoseconds(const GridSampler3D& problem) {
  return checked_nanoseconds(problem);
}
double serial_nanoseconds(const GridSampler3DBackward& problem) {
  return checked_nanoseconds(problem);
}

void grid_sampler_3d(const GridSampler3D& problem, void* workspace) {
  check_and_run(problem, workspace);
}
void grid_sampler_3d_backward(const GridSampler3DBackward& problem, void* workspace) {
  check_and_run(problem, workspace);
}

size_t cuda::workspace_size(const GridSampler3D& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}
size_t cuda::workspace_size(const GridSampler3DBackward& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}

void cuda::grid_sampler_3d(const GridSampler3D& problem, void* workspace, const CudaLaunch& on) {
  check_and_run(problem, workspace, on);
}
void cuda::grid_sampler_3d_backward(const GridSampler3DBackward& problem, void* workspace,
                                    const CudaLaunch& on) {
  check_and_run(problem, workspace, on);
}

}  // namespace aclgrad
