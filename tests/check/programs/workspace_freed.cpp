// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Finding: free-while-queued: aclrtFree frees .*aclnnGroupedBiasAddGrad.workspace
#include "program.h"

int main() {
  Session session;
  constexpr int64_t kManyRows = 100000;
  void* input = device_ones(kManyRows * sizeof(float));
  void* output = device_memory(sizeof(float));
  aclTensor* grad_y = tensor(input, {1, kManyRows, 1});
  aclTensor* out = tensor(output, {1, 1});
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  must(aclnnGroupedBiasAddGradGetWorkspaceSize(grad_y, nullptr, out, &workspace_size, &executor));
  void* workspace = device_memory(workspace_size);
  must(aclnnGroupedBiasAddGrad(workspace, workspace_size, executor, session.stream));
  must(aclrtFree(workspace));  // the operator may still compute in it
  must(aclrtSynchronizeStream(session.stream));
  must(aclDestroyTensor(grad_y));
  must(aclDestroyTensor(out));
  must(aclrtFree(input));
  must(aclrtFree(output));
}
