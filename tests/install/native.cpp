// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The C++ interface: no tensors, no executors, no device.
#include <aclgrad/grid_sampler.h>
#include <aclgrad/grouped_bias_add.h>
#include <aclgrad/multi_scale_deformable_attention.h>
#include <aclgrad/nsa_compress.h>

#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};  // five rows of two
  const std::vector<int32_t> counts = {2, 3};
  const std::vector<float> expected = {4, 6, 21, 24};
  std::vector<float> sums(4);

  aclgrad::GroupedBiasAddBackward problem;
  problem.grad_output = {rows.data(), {5, 2}};
  problem.group_idx = {counts.data(), {2}};
  problem.kind = aclgrad::GroupKind::counts;
  problem.grad_bias = {sums.data(), {2, 2}};
  grouped_bias_add_backward(problem, aclgrad::Workspace(workspace_size(problem)));
  if (sums != expected) {
    std::fprintf(stderr, "got %g %g %g %g\n", sums[0], sums[1], sums[2], sums[3]);
    return 1;
  }
  std::puts("sums are right");
  return 0;
}
