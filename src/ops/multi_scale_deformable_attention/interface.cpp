// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The C++ interface of multi-scale deformable attention: checks a problem, then runs its kernel.
#include "base/problem_check.h"
#include "ops/multi_scale_deformable_attention/kernel.h"

namespace aclgrad {

static constexpr const char* kForward = "multi_scale_deformable_attention";
static constexpr const char* kBackward = "multi_scale_deformable_attention_backward";
static constexpr const char* kDoubleBackward = "multi_scale_deformable_attention_double_backward";
static constexpr int kFirstDense = 3;

static void check_extents(const ProblemCheck& check, std::string_view field, const ConstTensor& tensor) {
  for (int axis = 0; axis < tensor.shape.rank(); ++axis)
    check.number(std::string(field) + ".shape[" + std::to_string(axis) + "]", tensor.size(axis), 1);
}

static void check_sampling(const ProblemCheck& check, const MultiScaleDeformableSampling& p) {
  constexpr int64_t kAny = ProblemCheck::kAny;
  const DataType type = p.value.type;
  check.type("value", p.value, {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64});
  check.input("value", p.value, type, {kAny, kAny, kAny, kAny}, kFirstDense);
  check_extents(check, "value", p.value);
  check.input("sampling_locations", p.sampling_locations, type, {p.batches(), kAny, p.heads(), kAny, kAny, 2},
              kFirstDense);
  check_extents(check, "sampling_locations", p.sampling_locations);
  check.input("attention_weights", p.attention_weights, type,
              {p.batches(), p.queries(), p.heads(), p.levels(), p.samples()}, kFirstDense);
  check.indices("spatial_shapes", p.spatial_shapes, {p.levels(), 2});
  check.indices("level_start_index", p.level_start_index, {p.levels()});
}

static void check(const MultiScaleDeformableAttention& p, ProblemCheck::Addresses addresses) {
  const ProblemCheck check(kForward, addresses);
  check_sampling(check, p);
  check.output("output", p.output, p.value.type, {p.batches(), p.queries(), p.heads(), p.channels()},
               kFirstDense);
}

// The gradient's, and the double backward's.
template <class Problem>
static void check_gradients(const ProblemCheck& check, const Problem& p) {
  const DataType type = p.value.type;
  check.input("grad_output", p.grad_output, type, {p.batches(), p.queries(), p.heads(), p.channels()},
              kFirstDense);
  check.wanted_output("grad_value", p.grad_value, type, {p.batches(), p.rows(), p.heads(), p.channels()},
                      kFirstDense);
  check.wanted_output("grad_sampling_locations", p.grad_sampling_locations, type,
                      {p.batches(), p.queries(), p.heads(), p.levels(), p.samples(), 2}, kFirstDense);
  check.wanted_output("grad_attention_weights", p.grad_attention_weights, type,
                      {p.batches(), p.queries(), p.heads(), p.levels(), p.samples()}, kFirstDense);
}

static void check(const MultiScaleDeformableAttentionBackward& p, ProblemCheck::Addresses addresses) {
  const ProblemCheck check(kBackward, addresses);
  check_sampling(check, p);
  check_gradients(check, p);
}

static void check(const MultiScaleDeformableAttentionDoubleBackward& p, ProblemCheck::Addresses addresses) {
  const ProblemCheck check(kDoubleBackward, addresses);
  const DataType type = p.value.type;
  check_sampling(check, p);
  check_gradients(check, p);
  check.given_input("grad_grad_value", p.grad_grad_value, type,
                    {p.batches(), p.rows(), p.heads(), p.channels()}, kFirstDense);
  check.given_input("grad_grad_sampling_locations", p.grad_grad_sampling_locations, type,
                    {p.batches(), p.queries(), p.heads(), p.levels(), p.samples(), 2}, kFirstDense);
  check.given_input("grad_grad_attention_weights", p.grad_grad_attention_weights, type,
                    {p.batches(), p.queries(), p.heads(), p.levels(), p.samples()}, kFirstDense);
  check.wanted_output("grad_grad_output", p.grad_grad_output, type,
                      {p.batches(), p.queries(), p.heads(), p.channels()}, kFirstDense);
}

size_t workspace_size(const MultiScaleDeformableAttention& problem) {
  return checked_workspace_size(problem);
}
size_t workspace_size(const MultiScaleDeformableAttentionBackward& problem) {
  return checked_workspace_size(problem);
}
size_t workspace_size(const MultiScaleDeformableAttentionDoubleBackward& problem) {
  return checked_workspace_size(problem);
}

void multi_scale_deformable_attention(const MultiScaleDeformableAttention& problem,
                                      const WorkspaceView& workspace) {
  check_and_run(kForward, problem, workspace);
}
void multi_scale_deformable_attention_backward(const MultiScaleDeformableAttentionBackward& problem,
                                               const WorkspaceView& workspace) {
  check_and_run(kBackward, problem, workspace);
}
void multi_scale_deformable_attention_double_backward(
    const MultiScaleDeformableAttentionDoubleBackward& problem, const WorkspaceView& workspace) {
  check_and_run(kDoubleBackward, problem, workspace);
}

size_t cuda::workspace_size(const MultiScaleDeformableAttention& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}
size_t cuda::workspace_size(const MultiScaleDeformableAttentionBackward& problem, const CudaLaunch& on) {
  return checked_workspace_size(problem, on);
}

void cuda::multi_scale_deformable_attention(const MultiScaleDeformableAttention& problem,
                                            const WorkspaceView& workspace, const CudaLaunch& on) {
  check_and_run(kForward, problem, workspace, on);
}
void cuda::multi_scale_deformable_attention_backward(const MultiScaleDeformableAttentionBackward& problem,
                                                     const WorkspaceView& workspace, const CudaLaunch& on) {
  check_and_run(kBackward, problem, workspace, on);
}

}  // namespace aclgrad
