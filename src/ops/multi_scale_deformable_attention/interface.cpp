// The C++ interface of multi-scale deformable attention: checks a problem, then runs its kernel.
#include <array>

#include "base/problem_check.h"
#include "ops/multi_scale_deformable_attention/kernel.h"

namespace aclgrad {
namespace {

// Of [batches, rows or queries, heads, block].
std::array<ProblemCheck::Axis, 4> axes(const MultiScaleDeformableSampling& problem, int64_t rows,
                                       int64_t block, const BlockStrides& strides) {
  return {{{problem.batches, strides.batch, "_strides.batch"},
           {rows, strides.row, "_strides.row"},
           {problem.heads, strides.head, "_strides.head"},
           {block, 1, ""}}};
}

auto value_axes(const MultiScaleDeformableSampling& problem, const BlockStrides& strides) {
  return axes(problem, problem.rows, problem.channels, strides);
}
auto location_axes(const MultiScaleDeformableSampling& problem, const BlockStrides& strides) {
  return axes(problem, problem.queries, problem.levels * problem.points * 2, strides);
}
auto attention_weight_axes(const MultiScaleDeformableSampling& problem, const BlockStrides& strides) {
  return axes(problem, problem.queries, problem.levels * problem.points, strides);
}
auto output_axes(const MultiScaleDeformableSampling& problem, const BlockStrides& strides) {
  return axes(problem, problem.queries, problem.channels, strides);
}

void check_sampling(const ProblemCheck& check, const MultiScaleDeformableSampling& problem) {
  check.type("type", problem.type,
             {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  check.size("batches", problem.batches, 1);
  check.size("rows", problem.rows, 1);
  check.size("heads", problem.heads, 1);
  check.size("channels", problem.channels, 1);
  check.size("queries", problem.queries, 1);
  check.size("levels", problem.levels, 1);
  check.size("points", problem.points, 1);
  check.element_count("value", std::array{problem.batches, problem.rows, problem.heads, problem.channels});
  check.element_count("location", std::array{problem.batches, problem.queries, problem.heads, problem.levels,
                                             problem.points, int64_t{2}});
  check.element_count("output",
                      std::array{problem.batches, problem.queries, problem.heads, problem.channels});
}

void check_sampled_tensors(const ProblemCheck& check, const MultiScaleDeformableSampling& problem) {
  check.input("value", problem.value, problem.type, value_axes(problem, problem.value_strides));
  check.indices("spatial_shape", problem.spatial_shape, problem.levels * 2);
  check.indices("level_start_index", problem.level_start_index, problem.levels);
  check.input("location", problem.location, problem.type, location_axes(problem, problem.location_strides));
  check.input("attention_weight", problem.attention_weight, problem.type,
              attention_weight_axes(problem, problem.attention_weight_strides));
}

}  // namespace

static ProblemCheck check_of(const MultiScaleDeformableAttention&) {
  return ProblemCheck("multi_scale_deformable_attention");
}
static ProblemCheck check_of(const MultiScaleDeformableAttentionGrad&) {
  return ProblemCheck("multi_scale_deformable_attention_grad");
}

template <class Problem>
static void check_sizes(const Problem& problem) {
  check_sampling(check_of(problem), problem);
}

static void check_tensors(const MultiScaleDeformableAttention& problem) {
  const ProblemCheck check = check_of(problem);
  check_sampled_tensors(check, problem);
  check.output("output", problem.output, problem.type, output_axes(problem, problem.output_strides));
}

static void check_tensors(const MultiScaleDeformableAttentionGrad& problem) {
  const ProblemCheck check = check_of(problem);
  check_sampled_tensors(check, problem);
  check.input("grad_output", problem.grad_output, problem.type,
              output_axes(problem, problem.grad_output_strides));
  if (problem.wants_grad_value) {
    check.output("grad_value", problem.grad_value, problem.type,
                 value_axes(problem, problem.grad_value_strides));
  }
  if (problem.wants_grad_location) {
    check.output("grad_location", problem.grad_location, problem.type,
                 location_axes(problem, problem.grad_location_strides));
  }
  if (problem.wants_grad_attention_weight) {
    check.output("grad_attention_weight", problem.grad_attention_weight, problem.type,
                 attention_weight_axes(problem, problem.grad_attention_weight_strides));
  }
}

size_t workspace_size(const MultiScaleDeformableAttention& problem) {
  return checked_workspace_size(problem);
}
size_t workspace_size(const MultiScaleDeformableAttentionGrad& problem) {
  return checked_workspace_size(problem);
}

double serial_nanoseconds(const MultiScaleDeformableAttention& problem) {
  return checked_nanoseconds(problem);
}
double serial_nanoseconds(const MultiScaleDeformableAttentionGrad& problem) {
  return checked_nanoseconds(problem);
}

void multi_scale_deformable_attention(const MultiScaleDeformableAttention& problem, void* workspace) {
  check_and_run(problem, workspace);
}
void multi_scale_deformable_attention_grad(const MultiScaleDeformableAttentionGrad& problem,
                                           void* workspace) {
  check_and_run(problem, workspace);
}

size_t cuda::workspace_size(const MultiScaleDeformableAttention& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}
size_t cuda::workspace_size(const MultiScaleDeformableAttentionGrad& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}

void cuda::multi_scale_deformable_attention(const MultiScaleDeformableAttention& problem, void* workspace,
                                            const CudaLaunch& on) {
  check_and_run(problem, workspace, on);
}
void cuda::multi_scale_deformable_attention_grad(const MultiScaleDeformableAttentionGrad& problem,
                                                 void* workspace, const CudaLaunch& on) {
  check_and_run(problem, workspace, on);
}

}  // namespace aclgrad
