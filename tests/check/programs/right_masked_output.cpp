// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: none
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "program.h"

// The gradient of the grid alone: the input stands in for the output that the mask rules out.
int main() {
  Session session;
  constexpr size_t kBytes = 16 * sizeof(float);
  void* memory[4] = {device_ones(kBytes), device_ones(kBytes), device_ones(2 * kBytes),
                     device_memory(2 * kBytes)};
  aclTensor* grad_output = tensor(memory[0], {1, 1, 4, 4});
  aclTensor* input = tensor(memory[1], {1, 1, 4, 4});
  aclTensor* grid = tensor(memory[2], {1, 4, 4, 2});
  aclTensor* grid_grad = tensor(memory[3], {1, 4, 4, 2});
  const bool wanted[] = {false, true};
  aclBoolArray* mask = aclCreateBoolArray(wanted, 2);
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  must(aclnnGridSampler2DBackwardGetWorkspaceSize(grad_output, input, grid, 0, 0, false, mask, input,
                                                  grid_grad, &workspace_size, &executor));
  void* workspace = workspace_size > 0 ? device_memory(workspace_size) : nullptr;
  must(aclnnGridSampler2DBackward(workspace, workspace_size, executor, session.stream));
  must(aclrtSynchronizeStream(session.stream));
  if (workspace != nullptr) must(aclrtFree(workspace));
  for (aclTensor* handle : {grad_output, input, grid, grid_grad}) must(aclDestroyTensor(handle));
  must(aclDestroyBoolArray(mask));
  for (void* block : memory) must(aclrtFree(block));
}
